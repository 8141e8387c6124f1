// Keeps 500,000 live blocks of 16 to 1,023 bytes and replaces a random one 5 million times. Prints the resident KiB.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "known.h"

enum { kBlocks = 500000, kReplacements = 5000000 };
static char* blocks[kBlocks];

static uint64_t Random(void) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

int main(void) {
  for (int i = 0; i < kBlocks + kReplacements; ++i) {
    char** place = &blocks[i < kBlocks ? (uint64_t)i : Random() % kBlocks];
    free(*place);
    const size_t bytes = 16 + Random() % 1008;
    *place = malloc(bytes);
    for (size_t at = 0; at < bytes; at += 512) (*place)[at] = 1;
    (*place)[bytes - 1] = 1;
  }
  FILE* status = fopen("/proc/self/statm", "r");
  unsigned long total, resident;
  if (!status || fscanf(status, "%lu %lu", &total, &resident) != 2) return 3;
  printf("resident %lu\n", resident * 4);
  return 0;
}
