// Aligned blocks of each size and alignment: written, moved by realloc, freed. With an argument: more blocks than there
// is memory for. For a musl of any age.
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int Fill(char* block, size_t bytes) {
  memset(block, 0x5a, bytes);
  return malloc_usable_size(block) < bytes;
}

static int Check(size_t alignment, size_t bytes) {
  void* blocks[3] = {NULL, aligned_alloc(alignment, bytes), memalign(alignment, bytes)};
  if (posix_memalign(&blocks[0], alignment, bytes) != 0) return 1;
  for (int i = 0; i < 3; ++i) {
    char* block = blocks[i];
    if (block == NULL || (uintptr_t)block % alignment != 0 || Fill(block, bytes)) return 2;
    if (i == 1) {
      const size_t more = bytes * 3 + 5000;
      if ((block = realloc(block, more)) == NULL || memchr(block, 0x5a, 1) != block) return 3;
      for (size_t at = 0; at < bytes; ++at)
        if (block[at] != 0x5a) return 4;
      if (Fill(block, more) || (block = realloc(block, bytes / 2 + 1)) == NULL || *block != 0x5a) return 5;
    }
    free(block);
  }
  return 0;
}

static int AlignedBlocks(void) {
  for (int round = 0; round < 3; ++round) {
    for (size_t alignment = 8; alignment <= 1 << 21; alignment *= 2) {
      for (size_t bytes = 1; bytes <= 1 << 21; bytes = bytes * 5 + 3) {
        const int result = Check(alignment, bytes);
        if (result != 0) return printf("alignment %zu, %zu bytes: %d\n", alignment, bytes, result), 1;
      }
    }
  }
  void* unchanged = &unchanged;
  if (posix_memalign(&unchanged, 48, 100) != EINVAL || posix_memalign(&unchanged, 64, SIZE_MAX - 1) != ENOMEM ||
      unchanged != &unchanged || aligned_alloc(48, 100) != NULL || errno != EINVAL)
    return puts("not refused"), 1;
  return 0;
}

static int AllBlocks(void) {
  const struct rlimit limit = {300 << 20, 300 << 20};
  setrlimit(RLIMIT_AS, &limit);
  int blocks = 0, tries = 10000;
  for (int i = 0; i < tries; ++i) blocks += malloc(100000) != NULL;
  return blocks < 1000 || blocks == tries ? printf("%d blocks\n", blocks), 1 : 0;
}

int main(int count, char** arguments) {
  (void)arguments;
  const int result = count > 1 ? AllBlocks() : AlignedBlocks();
  if (result == 0) puts("ended well");
  return result;
}
