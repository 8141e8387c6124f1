// Deques in blocks that ended threads had in their caches. The first words of a deque's map are never written, so they are
// what the cache has left there. Everything is reachable. Prints "ready", and then waits for the end of its input. With an
// argument: all threads use one arena.
#include <malloc.h>
#include <unistd.h>

#include <deque>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 100, kCached = 7;

std::vector<std::deque<long>*> kept;

// Fills a cache with blocks as large as the map of a deque, and ends.
void fill_cache() {
  void* blocks[kCached];
  for (void*& block : blocks) block = malloc(64);
  for (void* block : blocks) free(block);
}
// Overwrites what calls have left on the stack.
__attribute__((noinline)) void clear_stack() {
  volatile char bytes[32 << 10];
  for (volatile char& byte : bytes) byte = 0;
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) mallopt(M_ARENA_MAX, 1);
  kept.reserve(size_t{kThreads} * 10);
  for (int i = 0; i < kThreads; ++i) {
    std::thread(fill_cache).join();
    for (int k = 0; k < 10; ++k) kept.push_back(new std::deque<long>(200, k));  // in four pieces
  }
  clear_stack();
  write(1, "ready\n", 6);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  _exit(0);
}
