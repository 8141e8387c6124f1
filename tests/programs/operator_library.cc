// A library with an operator new that is not the C++ library's, as some allocators have. It rejects large blocks with its
// own exception, and creates a thread if asked to, like allocators that clean up in the background.
#include "operator_library.h"

#include <pthread.h>
#include <stdlib.h>

#include <new>

bool creates_thread = false;

static void* Return(void* argument) { return argument; }
extern "C" {
KNOWN void refuses_in_new() { throw TooLarge(); }
KNOWN void creates_in_new() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Return, nullptr) != 0) abort();
  pthread_join(thread, nullptr);
}
}

void* operator new(size_t size) {
  if (size > kLargest) refuses_in_new();
  if (creates_thread) creates_in_new();
  void* block = malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void operator delete(void* block) noexcept { free(block); }
void operator delete(void* block, size_t) noexcept { free(block); }
