// Allocates and frees blocks of one size, or of similar sizes. Prints the largest resident size in KiB, and how many blocks
// at the end are in mappings of a profiler.
//     block_patterns PATTERN SIZE equal|varied|mixed [MIB [ROUNDS [THREADS]]]
//   replace    replaces a random block, ROUNDS times as often as there are blocks
//   queue      replaces the oldest block
//   waves      frees all but a quarter, in random order, and allocates them again, ROUNDS times
//   grow       grows and shrinks the blocks themselves by realloc
// varied: random sizes from half to one and a half of SIZE. mixed: the same number of bytes in each octave from 16 bytes to
// SIZE. MIB: the amount held at once by all threads together.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "known.h"

static const char* pattern;
static size_t size, count, rounds;
static int varied, mixed;

static size_t Below(uint64_t* random, size_t limit) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return (*random >> 33) % limit;
}

static size_t NextSize(uint64_t* random) {
  if (varied) return size / 2 + Below(random, size + 1);
  if (!mixed) return size;
  size_t octave = 16;
  while (octave < size / 2 && Below(random, 2) == 0) octave *= 2;
  return octave + Below(random, octave);
}

static void Fill(char* block, size_t bytes) {
  if (block == NULL) abort();
  for (size_t at = 0; at < bytes; at += 4096) block[at] = 1;
  block[bytes - 1] = 1;
}

KNOWN void Replace(char** place, uint64_t* random) {
  free(*place);
  const size_t bytes = NextSize(random);
  *place = malloc(bytes);
  Fill(*place, bytes);
}

KNOWN void Resize(char** place, uint64_t* random) {
  const size_t bytes = varied || mixed ? NextSize(random) : size >> Below(random, 2);
  *place = realloc(*place, bytes);
  Fill(*place, bytes);
}

static void* Run(void* number) {
  uint64_t random = (uintptr_t)number;
  char** blocks = calloc(count, sizeof *blocks);
  for (size_t i = 0; i < count; ++i) Replace(&blocks[i], &random);
  if (strcmp(pattern, "replace") == 0) {
    for (size_t i = 0; i < rounds * count; ++i) Replace(&blocks[Below(&random, count)], &random);
  } else if (strcmp(pattern, "queue") == 0) {
    for (size_t i = 0; i < rounds * count; ++i) Replace(&blocks[i % count], &random);
  } else if (strcmp(pattern, "waves") == 0) {
    for (size_t round = 0; round < rounds; ++round) {
      for (size_t left = count; left > count / 4; --left) {
        const size_t at = Below(&random, left);
        free(blocks[at]);
        blocks[at] = blocks[left - 1];
        blocks[left - 1] = NULL;
      }
      for (size_t i = count / 4; i < count; ++i) Replace(&blocks[i], &random);
    }
  } else if (strcmp(pattern, "grow") == 0) {
    for (size_t i = 0; i < rounds * count; ++i) Resize(&blocks[Below(&random, count)], &random);
  } else {
    abort();
  }
  for (size_t i = 0; i < count; ++i) free(blocks[i]);
  free(blocks);
  return NULL;
}

// The sum of `word` in a file of /proc; `own`: only in mappings of a profiler's, which are those of its library, of its table,
// and the one anonymous mapping of 4 MiB. Allocates nothing.
static long KiB(const char* path, const char* word, int own) {
  static char text[1 << 20];
  size_t length = 0;
  const int file = open(path, O_RDONLY);
  for (ssize_t got; (got = read(file, text + length, sizeof text - 1 - length)) > 0;) length += (size_t)got;
  close(file);
  text[length] = 0;
  long sum = 0;
  int counts = !own;
  unsigned long start, end, last = 0;
  for (char *line = text, *next; line < text + length; line = next) {
    next = strchr(line, '\n');
    next = next ? next + 1 : text + length;
    next[-1] = 0;
    if (strncmp(line, word, strlen(word)) == 0) {
      if (counts) sum += atol(line + strlen(word));
    } else if (own && sscanf(line, "%lx-%lx ", &start, &end) == 2) {
      const int named = strchr(line, '/') != NULL || strchr(line, '[') != NULL;
      counts = strstr(line, "libholdfast.so") || strstr(line, ".table") ||
               (!named && (end - start == 4 << 20 || (counts && start == last)));
      last = end;
    }
  }
  return sum;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  pattern = argv[1];
  size = (size_t)atoll(argv[2]);
  varied = strcmp(argv[3], "varied") == 0;
  mixed = strcmp(argv[3], "mixed") == 0;
  const size_t bytes = (size_t)(argc > 4 ? atoll(argv[4]) : 40) << 20;
  const size_t threads = argc > 6 ? (size_t)atoll(argv[6]) : 1;
  rounds = argc > 5 ? (size_t)atoll(argv[5]) : 10;
  size_t mean = size;
  if (mixed) {
    mean = 0;
    for (size_t octave = 16, one_of = 2; octave < size; octave *= 2, one_of *= 2) mean += octave * 3 / 2 / one_of;
  }
  count = bytes / mean / threads;
  pthread_t started[16];
  for (size_t i = 1; i < threads; ++i) pthread_create(&started[i], NULL, Run, (void*)(i + 1));
  Run((void*)1);
  for (size_t i = 1; i < threads; ++i) pthread_join(started[i], NULL);
  printf("peak %ld own %ld\n", KiB("/proc/self/status", "VmHWM:", 0), KiB("/proc/self/smaps", "Rss:", 1));
  return 0;
}
