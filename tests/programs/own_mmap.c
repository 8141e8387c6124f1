// An executable with an mmap and an allocator of its own. Maps 64 MiB, and allocates a little.
//
//     own_mmap_seen      mmap calls libc's syscall, as gperftools' tcmalloc does
//     own_mmap_unseen    mmap has a system call instruction
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, long offset) {
#ifdef UNSEEN
  long result;
  register long r10 __asm__("r10") = flags;
  register long r8 __asm__("r8") = fd;
  register long r9 __asm__("r9") = offset;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(SYS_mmap), "D"(address), "S"(bytes), "d"((long)protection), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return (void*)result;
#else
  return (void*)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
#endif
}

static char room[1 << 20];
static size_t used;
void* malloc(size_t bytes) {
  if (bytes > sizeof room - 64 || used > sizeof room - bytes - 64) return NULL;
  char* block = room + used;
  used += (bytes + 63) & ~(size_t)63;
  return block;
}
static volatile size_t freed;
void free(void* block) {
  if (block != NULL) freed = freed + *(unsigned char*)block;
}
void* calloc(size_t count, size_t each) { return malloc(count * each); }
void* realloc(void* block, size_t bytes) {
  char* grown = malloc(bytes);
  for (size_t i = 0; grown != NULL && block != NULL && i < bytes; ++i) grown[i] = ((char*)block)[i];
  return grown;
}

int main(void) {
  const int read_write = 3, private_anonymous = 0x22;
  char* mapped = mmap(NULL, 64 << 20, read_write, private_anonymous, -1, 0);
  mapped[0] = 1;
  char* volatile block = malloc(100);
  block[0] = 1;
  return 0;
}
