// Holds more and more memory, the given number of MiB per second, until it is killed. Writes `held BYTES` to the given file
// before each MiB.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "known.h"

KNOWN static void* hold_for_ever(size_t size) { return malloc(size); }

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const long speed = atol(argv[1]);
  const int file = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (long mebibytes = 0;; ++mebibytes) {
    for (int i = 0; i < 16; ++i) {
      void* block = hold_for_ever(64 << 10);
      Use(block);
      memset(block, 1, 64 << 10);
    }
    char text[64];
    const int length = snprintf(text, sizeof text, "held %ld\n", (mebibytes + 1) << 20);
    pwrite(file, text, (size_t)length, 0);
    const struct timespec pause = {0, 1000000000 / speed};
    nanosleep(&pause, NULL);
  }
}
