// What scripts/systems profiles: known blocks, contended locks, exceptions, and a plugin that is loaded 100 times.
#include <dlfcn.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

static std::mutex mutex;

__attribute__((noinline)) static void HoldBlocks(std::vector<std::unique_ptr<char[]>>* blocks) {
  blocks->reserve(20000);
  for (int i = 0; i < 20000; ++i) blocks->emplace_back(new char[10000]);
}

// glibc's word of the mutex: 2 while a thread waits.
static bool SomebodyWaits() { return __atomic_load_n(&mutex.native_handle()->__data.__lock, __ATOMIC_RELAXED) == 2; }

// The first thread holds the mutex until the second waits, however late that one starts.
__attribute__((noinline)) static void TakeTurns() {
  static bool met = false;
  for (int i = 0; i < 50; ++i) {
    const std::lock_guard<std::mutex> locked(mutex);
    const timespec pause = {0, 1000000};
    do {
      nanosleep(&pause, nullptr);
    } while (!met && !SomebodyWaits());
    met = true;
  }
}

__attribute__((noinline)) static int Throw() {
  int caught = 0;
  for (int i = 0; i < 20; ++i) {
    try {
      throw std::runtime_error("known");
    } catch (const std::exception&) {
      ++caught;
    }
  }
  return caught;
}

int main(int, char** arguments) {
  auto& blocks = *new std::vector<std::unique_ptr<char[]>>;  // still held at the end
  HoldBlocks(&blocks);
  std::thread first(TakeTurns), second(TakeTurns);
  first.join();
  second.join();
  if (Throw() != 20) return 1;
  for (int i = 0; i < 100; ++i) {
    void* plugin = dlopen(arguments[1], RTLD_NOW);
    if (plugin == nullptr) return 2;
    auto* allocate = reinterpret_cast<void* (*)(size_t)>(dlsym(plugin, "AllocateInPlugin"));
    for (int j = 0; j < 20; ++j) free(allocate(50000));
    dlclose(plugin);
  }
  puts("ended well");
  return 7;
}
