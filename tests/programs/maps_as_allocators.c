// Calls what allocators call, and has none.
#include <stddef.h>
#include <sys/mman.h>

int main(void) {
  void* pages = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED || madvise(pages, 4096, MADV_DONTNEED) != 0;
}
