// An executable with its own malloc, which checks its blocks: no function of the family may pass it a block from another
// heap, and operators new and delete must use it. With DLSYM it imports what a malloc that passes its calls on imports, and
// takes one block from the next malloc.
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>

alignas(16) static char arena[8 << 20];
static size_t used = 0;
static int foreign = 0;

static bool IsOwn(const void* p) {
  return static_cast<const char*>(p) >= arena && static_cast<const char*>(p) < arena + sizeof arena;
}

extern "C" void* malloc(size_t size) {
  const size_t whole = (size + 31) & ~size_t{15};
  if (size > sizeof arena || used + whole > sizeof arena) {
    errno = ENOMEM;
    return nullptr;
  }
  char* block = arena + used + 16;
  memcpy(block - 16, &size, sizeof size);
  used += whole;
  return block;
}
extern "C" void free(void* p) { foreign += p != nullptr && !IsOwn(p); }
extern "C" void* calloc(size_t count, size_t each) {
  return malloc(count * each);
}  // the arena is zero, and never reused
extern "C" void* realloc(void* p, size_t size) {
  foreign += p != nullptr && !IsOwn(p);
  void* moved = malloc(size);
  if (p != nullptr && moved != nullptr) {
    size_t old;
    memcpy(&old, static_cast<char*>(p) - 16, sizeof old);
    memcpy(moved, p, old < size ? old : size);
  }
  return moved;
}

int main(int argc, char**) {
  auto* text = static_cast<char*>(malloc(6));
  strcpy(text, "hello");
  for (int i = 1; i < 50; ++i) text = static_cast<char*>(reallocarray(text, 10, static_cast<size_t>(i)));
  int own_new = 0;
  for (int i = 0; i < 1000; ++i) {
    void* volatile block = ::operator new(40);
    own_new += IsOwn(block);
    ::operator delete(block);
  }
  printf("%s, %d blocks of new are own, %d foreign\n", text, own_new, foreign);
#ifdef DLSYM
  auto* next = reinterpret_cast<void* (*)(size_t)>(dlsym(RTLD_NEXT, "malloc"));
  if (next == nullptr || next(100) == nullptr) return 1;
#endif
  if (argc > 1) {
    puts("worked");
    fflush(stdout);
    getchar();
  }
  return 0;
}
