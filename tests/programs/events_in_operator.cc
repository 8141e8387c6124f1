// Known numbers of throws and threads in an operator new that is not the C++ library's. Prints them like known_throws and
// known_threads.
#include <stdio.h>
#include <stdlib.h>

#include <new>

#include "operator_library.h"

extern "C" KNOWN void* allocates(size_t bytes) {
  void* block = ::operator new(bytes);
  Use(block);
  return block;
}

int main() {
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    try {
      allocates(2 * kLargest);
    } catch (const TooLarge&) {
      ++refused;
    }
  }
  if (refused != 20) abort();
  printf("throws refuses_in_new TooLarge - %d\n", refused);
  creates_thread = true;
  for (int i = 0; i < 5; ++i) ::operator delete(allocates(100));
  printf("threads creates_in_new 5 0\n");
  return 0;
}
