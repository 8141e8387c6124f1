// An allocator below the profiler: glibc's, with every call counted. It must see exactly the program's own
// calls.
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void __libc_free(void*);
extern void* __libc_memalign(size_t, size_t);

static atomic_long mallocs, callocs, reallocs, frees, memaligns;

void* malloc(size_t size) { return ++mallocs, __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return ++callocs, __libc_calloc(count, size); }
void* realloc(void* block, size_t size) { return ++reallocs, __libc_realloc(block, size); }
// Not of nothing: libc frees a null for each library with thread-local data when a thread goes, and we are one more.
void free(void* block) { frees += block != NULL, __libc_free(block); }
void* memalign(size_t alignment, size_t size) { return ++memaligns, __libc_memalign(alignment, size); }

__attribute__((destructor)) static void Tell(void) {
  char line[200];
  const int length = snprintf(line, sizeof line, "below: malloc %ld calloc %ld realloc %ld free %ld memalign %ld\n",
                              mallocs, callocs, reallocs, frees, memaligns);
  if (write(2, line, (size_t)length) != length) _exit(99);
}
