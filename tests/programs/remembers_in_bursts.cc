// Allocates in four bursts and, with leak, never frees; with scope, frees all of it when main returns. Also has a table that
// is built at the start, and a ring that is soon full:
//
//     remembers_in_bursts leak|scope|ring SECONDS
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

struct Block {
  Block* next;
};
Block* all = nullptr;

void Keep(void* volatile block) {
  auto* link = static_cast<Block*>(block);
  link->next = all;
  all = link;
}

void Sleep(double seconds) {
  const timespec rest = {static_cast<time_t>(seconds),
                         static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  nanosleep(&rest, nullptr);
}

}  // namespace

extern "C" __attribute__((noinline)) void remember_request() { Keep(malloc(20'000)); }
extern "C" __attribute__((noinline)) void make_table() {
  for (int i = 0; i < 50; ++i) Keep(malloc(30'000));
}
extern "C" __attribute__((noinline)) void* open_session() {
  void* volatile block = malloc(20'000);
  return block;
}

int main(int argc, char** argv) {
  const bool is_scope = argc > 1 && strcmp(argv[1], "scope") == 0;
  const bool leaks = is_scope || (argc > 1 && strcmp(argv[1], "leak") == 0);
  const double seconds = argc > 2 ? atof(argv[2]) : 1;
  void* ring[20] = {};
  size_t at = 0;
  make_table();
  for (int burst = 0; burst < 4; ++burst) {
    for (int i = 0; i < 40; ++i) {
      if (leaks) remember_request();
      free(ring[at]);
      ring[at] = open_session();
      at = (at + 1) % 20;
      Sleep(seconds / 320);
    }
    Sleep(seconds / 8);
  }
  while (is_scope && all != nullptr) free(std::exchange(all, all->next));
  return 0;
}
