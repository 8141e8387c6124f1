// Loading, unloading and exceptions while threads allocate. `hard_loading CASE PLUGIN...`; prints what happened.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "known.h"

namespace {

KNOWN void* beside_the_loader(size_t bytes) { return malloc(bytes); }

void Work() {
  for (size_t i = 0; i < 50; ++i) free(beside_the_loader(64 + i * 7));
}

using Allocate = void* (*)(size_t);
using Release = void (*)(void*);

// Threads load and unload, walk the list of objects under the loader's lock, throw, and allocate in all of these.
void Churn(const std::vector<const char*>& plugins) {
  std::atomic<int> loaded{0}, thrown{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 30; ++i) {
        void* plugin = dlopen(plugins[static_cast<size_t>(i) % plugins.size()], RTLD_NOW | RTLD_LOCAL);
        if (plugin == nullptr) continue;
        free(reinterpret_cast<Allocate>(dlsym(plugin, "Allocate"))(100));
        ++loaded;
        dlclose(plugin);
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        dl_iterate_phdr([](dl_phdr_info*, size_t, void*) { return Work(), 0; }, nullptr);
        try {
          Work();
          throw std::runtime_error(std::string(100, 'x'));
        } catch (const std::exception&) {
          ++thrown;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  printf("loaded %d, thrown %d\n", loaded.load(), thrown.load());
}

// A library that binds to its own before it looks at ours: blocks go both ways.
void DeepBind(const std::vector<const char*>& plugins) {
  for (const char* path : plugins) {
    void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (plugin == nullptr) {
      printf("%s\n", dlerror());
      continue;
    }
    const auto allocate = reinterpret_cast<Allocate>(dlsym(plugin, "Allocate"));
    const auto release = reinterpret_cast<Release>(dlsym(plugin, "Release"));
    for (size_t i = 0; i < 500; ++i) {
      release(allocate(i * 10));
      void* theirs = allocate(i);
      operator delete(theirs);
      release(operator new(i));
    }
    printf("deepbind fine\n");
  }
}

// More thread-local data than what is left of the static block; and some that the loader allocates at its first use.
void ThreadLocal(const std::vector<const char*>& plugins) {
  for (const char* path : plugins) {
    void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
      printf("not loaded\n");
      continue;
    }
    const auto touch = reinterpret_cast<int (*)()>(dlsym(plugin, "Touch"));
    std::atomic<int> sum{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back([&] { sum += touch(); });
    for (std::thread& thread : threads) thread.join();
    printf("touched %d\n", sum.load());
  }
}

// Other namespaces of the dynamic linker, with a libc of their own: nothing of it is ours to see or to free.
void Namespaces(const std::vector<const char*>& libraries) {
  for (int round = 0; round < 3; ++round) {
    for (const char* library : libraries) {
      void* other = dlmopen(LM_ID_NEWLM, library, RTLD_NOW);
      if (other == nullptr) {
        printf("%s\n", dlerror());
        continue;
      }
      const auto allocate = reinterpret_cast<Allocate>(dlsym(other, "malloc"));
      const auto release = reinterpret_cast<Release>(dlsym(other, "free"));
      for (size_t i = 0; i < 500; ++i) {
        void* block = allocate(i);
        memset(block, 1, i);
        release(block);
      }
      std::thread beside([] { Work(); });
      Work();
      beside.join();
      dlclose(other);
    }
  }
  printf("namespaces fine\n");
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IONBF, 0);
  const std::string which = argc > 1 ? argv[1] : "";
  const std::vector<const char*> plugins(argv + 2, argv + argc);
  if (which == "churn") return Churn(plugins), 0;
  if (which == "deepbind") return DeepBind(plugins), 0;
  if (which == "thread_local") return ThreadLocal(plugins), 0;
  if (which == "namespaces") return Namespaces(plugins), 0;
  return 99;
}
