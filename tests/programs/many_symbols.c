// Has an allocator under names of its own, and more symbols than a process reads.
#include <stddef.h>
#include <sys/mman.h>

__attribute__((noinline, used)) void* _rjem_malloc(size_t bytes) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
__attribute__((noinline, used)) void _rjem_sdallocx(void* block, size_t bytes, int flags) {
  madvise(block, bytes, MADV_DONTNEED);
  if (flags == 0) munmap(block, bytes);
}

__asm__(".macro one_more\nname_of_one_of_many_symbols_\\@:\n.endm\n.rept 30000\none_more\n.endr\n");

int main(void) {
  _rjem_sdallocx(_rjem_malloc(4096), 4096, 0);
  return 0;
}
