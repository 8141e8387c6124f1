// Fragments glibc's heap with small blocks of four owners among larger ones that are freed again, trims, and prints
// "ready". Then frees what an owner holds for each line "free OWNER" of its input, trims, and prints how many bytes of
// memory that returned: "returned BYTES".
//
//     pins_pages SEED
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

// Visible outside this file, so that each is an owner's variable.
std::vector<void*> held_by_log, held_by_cache, held_by_index, held_by_names;

namespace {

std::vector<void*>* const kHeld[] = {&held_by_log, &held_by_cache, &held_by_index, &held_by_names};
constexpr const char* kNames[] = {"log", "cache", "index", "names"};

__attribute__((noinline)) void* log_line(size_t size) { return memset(malloc(size), 1, size); }
__attribute__((noinline)) void* cache_entry(size_t size) { return memset(malloc(size), 2, size); }
__attribute__((noinline)) void* index_entry(size_t size) { return memset(malloc(size), 3, size); }
__attribute__((noinline)) void* add_name(size_t size) { return memset(malloc(size), 4, size); }
constexpr void* (*kAllocate[])(size_t) = {log_line, cache_entry, index_entry, add_name};

size_t Resident() {
  size_t pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (fscanf(file, "%zu %zu", &pages, &resident) != 2) exit(2);
  fclose(file);
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

int main(int argc, char** argv) {
  std::mt19937 random(static_cast<unsigned>(atoi(argv[argc - 1])));
  const auto below = [&](size_t n) { return random() % n; };
  Resident();  // allocates what later calls need
  std::vector<void*> buffers;
  // Each owner has a phase of its own with much garbage, and a share of a mixed one.
  for (int phase = 0; phase < 5; ++phase) {
    const size_t rounds = 1500 + below(3000), garbage = 1 + below(6);
    for (size_t i = 0; i < rounds; ++i) {
      for (size_t k = 0; k < garbage; ++k) {
        const size_t size = 200 + below(3000);
        buffers.push_back(memset(malloc(size), 5, size));
      }
      const size_t owner = phase < 4 ? static_cast<size_t>(phase) : below(4);
      kHeld[owner]->push_back(kAllocate[owner](16 + below(200)));
    }
  }
  for (void* buffer : buffers) free(buffer);
  std::vector<void*>().swap(buffers);
  malloc_trim(0);
  puts("ready");
  fflush(stdout);
  char line[64];
  while (fgets(line, sizeof line, stdin) != nullptr) {
    for (size_t owner = 0; owner < 4; ++owner) {
      if (std::string(line) != std::string("free ") + kNames[owner] + "\n") continue;
      const size_t before = Resident();
      for (void* block : *kHeld[owner]) free(block);
      malloc_trim(0);
      printf("returned %zu\n", before - Resident());
      fflush(stdout);
    }
  }
  _exit(0);
}
