// Has room in its constant data for a message, as an allocator that is linked in has its own; maps some memory as one does.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

static const char message[64] = "room for a message of an allocator, written by the test";

int main(int count, char** arguments) {
  (void)arguments;
  char* mapped = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mapped[0] = 1;
  madvise(mapped, 4096, MADV_DONTNEED);
  if (count > 1) puts(message);
  return 0;
}
