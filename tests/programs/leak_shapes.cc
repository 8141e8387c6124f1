// Runs one shape of tests/support/leak_shapes.h as a real program, and requests its snapshots itself:
//
//     leak_shapes NAME SEED BYTES BLOCK SNAPSHOTS [SECONDS [kept] [paced]]
//
// The shape's whole time passes in SECONDS, 1 by default. SNAPSHOTS 0: requests none. kept: leaked memory remains reachable.
// paced: exit status 3 if the machine was too slow for that pace.
//
//     leak_shapes --list                                        NAME and leaks or healthy, a line each
#include "tests/support/leak_shapes.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "heap_files.h"
#include "include/holdfast.h"

using namespace holdfast::testing;

namespace {

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void Sleep(double seconds) {
  if (seconds <= 0) return;
  timespec rest = {static_cast<time_t>(seconds),
                   static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  nanosleep(&rest, nullptr);
}

}  // namespace

// One function for each Who, so that profiles name it. The volatile keeps each call a frame of its own.
#define ALLOCATES(name)                                           \
  extern "C" __attribute__((noinline)) void* name(size_t bytes) { \
    void* volatile block = malloc(bytes);                         \
    return block;                                                 \
  }
ALLOCATES(leak_here)
ALLOCATES(fill_table)
ALLOCATES(put_into_cache)
ALLOCATES(open_session)
ALLOCATES(use_scratch)
ALLOCATES(keep_reserve)

template <int kNumber>
__attribute__((noinline)) void* Healthy(size_t bytes) {
  void* volatile block = malloc(bytes + kNumber % 2);
  return block;
}
template <size_t... kNumbers>
constexpr auto MakeHealthy(std::index_sequence<kNumbers...>) {
  return std::array<void* (*)(size_t), sizeof...(kNumbers)>{Healthy<static_cast<int>(kNumbers)>...};
}
constexpr auto kHealthyOnes = MakeHealthy(std::make_index_sequence<kHealthyFunctions>());
void* (*const kOthers[])(size_t) = {leak_here, fill_table, put_into_cache, open_session, use_scratch, keep_reserve};

struct Block {
  Block *next, *before;
};
Block* all = nullptr;

class RealWorld : public World {
 public:
  RealWorld(int snapshots, double seconds, bool kept)
      : snapshots_(snapshots), kept_(kept), seconds_(seconds), start_(Now()) {}

  // Blocks are in a list, so that tools that search memory reach them. What leaks is lost, unless it is to be kept as well.
  Handle Alloc(int who, size_t bytes) override {
    changed_ = true;
    bytes = std::max(bytes, sizeof(Block));
    auto* block = static_cast<Block*>(who < kHealthy ? kOthers[who](bytes)
                                                     : kHealthyOnes[static_cast<size_t>(who - kHealthy)](bytes));
    block->next = block->before = nullptr;
    if (who == kLeaker && !kept_) return reinterpret_cast<Handle>(block);
    block->next = all;
    block->before = nullptr;
    if (all != nullptr) all->before = block;
    all = block;
    return reinterpret_cast<Handle>(block);
  }
  void Free(Handle handle) override {
    changed_ = true;
    auto* block = reinterpret_cast<Block*>(handle);
    if (block->next != nullptr) block->next->before = block->before;
    if (block->before != nullptr) block->before->next = block->next;
    if (all == block) all = block->next;
    free(block);
  }
  void Tick(double time) override {
    const bool asks = snapshots_ > 1 && getenv("HOLDFAST_OUT") != nullptr;
    if (taken_ == 0 && asks) AwaitExporter();
    latest_ = std::max(latest_, Now() - (start_ + time * seconds_));
    Sleep(start_ + time * seconds_ - Now());
    if (!asks || time + 1e-9 < static_cast<double>(taken_) / (snapshots_ - 1)) return;
    const double asked = Now(), interval = seconds_ / (snapshots_ - 1);
    longest_ = taken_ == 0 ? 0 : std::max(longest_, asked - last_);
    last_ = asked;
    const size_t before = HeapFiles();
    holdfast_snapshot();
    // Nothing new makes no file.
    const double until = asked + (exact_ && changed_ ? 5 : 0.7 * interval);
    while (HeapFiles() == before && Now() < until) Sleep(0.001);
    changed_ = false;
    // A slow machine has more time, not fewer snapshots.
    start_ = std::max(start_, Now() - (time + 1.0 / (snapshots_ - 1)) * seconds_);
    ++taken_;
  }
  // Whether the machine kept the pace: else the course is another one.
  bool is_even() const {
    return snapshots_ < 2 ? latest_ < 0.1 * seconds_ : longest_ < 1.7 * seconds_ / (snapshots_ - 1);
  }

 private:
  // The first file takes until the exporter has started. It is removed, so that the time until then is not part of the course.
  void AwaitExporter() {
    const char* out = getenv("HOLDFAST_OUT");
    free(keep_reserve(1 << 24));
    holdfast_snapshot();
    for (const double until = Now() + 20; HeapFiles() == 0 && Now() < until;) Sleep(0.001);
    Sleep(0.05);  // its other kinds
    if (DIR* folder = opendir(out); folder != nullptr) {
      while (const dirent* entry = readdir(folder)) {
        if (strstr(entry->d_name, ".pb.gz") != nullptr) unlinkat(dirfd(folder), entry->d_name, 0);
      }
      closedir(folder);
    }
    start_ = Now();
  }

  int snapshots_, taken_ = 0;
  bool kept_, changed_ = false;
  double seconds_, start_, last_ = 0, longest_ = 0;
  double latest_ = 0;  // how late a tick was, at most
  const bool exact_ = getenv("HOLDFAST_HEAP_INTERVAL") != nullptr && strcmp(getenv("HOLDFAST_HEAP_INTERVAL"), "1") == 0;
};

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "";
  const auto is_given = [&](const char* word) {
    return std::any_of(argv + std::min(argc, 7), argv + argc,
                       [&](const char* each) { return strcmp(each, word) == 0; });
  };
  for (const Shape& shape : LeakShapes()) {
    if (strcmp(name, "--list") == 0) printf("%s %s\n", shape.name, shape.leaks ? "leaks" : "healthy");
    if (argc < 6 || strcmp(name, shape.name) != 0) continue;
    RealWorld world(atoi(argv[5]), argc > 6 ? atof(argv[6]) : 1, is_given("kept"));
    std::mt19937_64 random(static_cast<uint64_t>(atoi(argv[2])));
    shape.run(world, random, atof(argv[3]), static_cast<size_t>(atol(argv[4])));
    fflush(stdout);
    if (getenv("HOLDFAST_OUT") == nullptr) exit(0);  // other tools report in an exit handler
    _Exit(world.is_even() || !is_given("paced") ? 0 : 3);
  }
  return strcmp(name, "--list") == 0 ? 0 : 2;
}
