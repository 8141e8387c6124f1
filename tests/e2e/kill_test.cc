// kill -9 at a random moment: the tables contain what the program did, except for calls in progress. 100 kills with
// each way of launching; 500 with HOLDFAST_TEST_FULL=1.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <random>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

struct Counts {  // as in tests/programs/shared_counts.c
  std::atomic<uint64_t> allocs_begun, allocs, alloc_bytes, frees_begun, frees, free_bytes;
  char rest[4096 - 48];
};
constexpr int kThreads = 2;

class SharedCounts {
 public:
  explicit SharedCounts(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, kThreads * sizeof(Counts))) abort();
    counts_ = static_cast<Counts*>(mmap(nullptr, kThreads * sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
  }
  ~SharedCounts() { munmap(counts_, kThreads * sizeof(Counts)); }
  int64_t Sum(std::atomic<uint64_t> Counts::*field) const {
    uint64_t sum = 0;
    for (int i = 0; i < kThreads; ++i) sum += counts_[i].*field;
    return static_cast<int64_t>(sum);
  }

 private:
  Counts* counts_;
};

class Kill : public Profiled, public ::testing::WithParamInterface<Launch> {};

TEST_P(Kill, LosesNothingCountedAtAnyMoment) {
  constexpr int kAtOnce = 4;
  const int kills = Full() ? 500 : 100;
  std::mt19937 random(20260101);  // the moments, from before main to some thousand calls later
  std::uniform_int_distribution<int> moment_us(0, 40000);
  int with_profile = 0, left_to_collect = 0;
  for (int done = 0; done < kills; done += kAtOnce) {
    struct Victim {
      std::string folder;
      std::unique_ptr<SharedCounts> counts;
      std::unique_ptr<Running> running;
    };
    std::vector<Victim> victims;
    for (int i = 0; i < kAtOnce; ++i) {
      Victim victim;
      victim.folder = out() + "/" + std::to_string(done + i);
      const std::string file = folder() + "/counts." + std::to_string(done + i);
      victim.counts = std::make_unique<SharedCounts>(file);
      victim.running = std::make_unique<Running>(
          CommandFor(GetParam(), {"shared_counts", file}, {{"heap-interval", "1"}, {"out", victim.folder}}));
      victims.push_back(std::move(victim));
    }
    for (Victim& victim : victims) {
      // Three in four are killed at a moment after their first allocation, however slow the machine; one at any moment.
      if (&victim != &victims.front()) {
        for (int ms = 0; ms < 5000 && victim.counts->Sum(&Counts::allocs) == 0; ++ms) usleep(1000);
      }
      usleep(static_cast<useconds_t>(moment_us(random)));
      victim.running->Signal(SIGKILL);
      const RunResult r = victim.running->Wait();
      EXPECT_TRUE(r.killed_by(SIGKILL)) << r.Describe();
    }
    if (!Settled()) {
      // Preloaded alone, the first sample starts the exporter: killed in that very millisecond, the table stays behind
      // and `collect` makes the profile of it. It must not happen more often than that is likely.
      left_to_collect += static_cast<int>(Tables().size());
      std::string said;
      for (Victim& victim : victims) said += RunTool({"collect", victim.folder, "--tables", tables()}).Describe();
      ASSERT_TRUE(Tables().empty()) << ::testing::PrintToString(Tables()) << said;
    }
    for (Victim& victim : victims) {
      const SharedCounts& counts = *victim.counts;
      std::vector<std::string> others;
      const std::vector<ProfileName> names = ListProfiles(victim.folder, &others);
      for (const std::string& other : others) EXPECT_EQ(other[0], '.') << other;
      const std::vector<Decoded> heaps = Newest(victim.folder, "heap");
      if (heaps.empty()) {
        // Killed before its first allocation, or while that one was being recorded.
        EXPECT_LE(counts.Sum(&Counts::allocs), 0) << "no profile";
        continue;
      }
      ++with_profile;
      ASSERT_EQ(heaps.size(), 1u);
      const Decoded& heap = heaps[0];
      ASSERT_EQ(heap.error, "") << heap.path;
      const Values sum = heap.SumLeaf("counted_allocation");
      const int64_t frees = sum.at("alloc_objects") - sum.at("inuse_objects");
      // A sample is counted before the program learns of its block, so `allocs` ≤ counted ≤ `allocs_begun`.
      EXPECT_GE(sum.at("alloc_objects"), counts.Sum(&Counts::allocs)) << heap.Summary();
      EXPECT_LE(sum.at("alloc_objects"), counts.Sum(&Counts::allocs_begun));
      EXPECT_GE(sum.at("alloc_space"), counts.Sum(&Counts::alloc_bytes));
      EXPECT_LE(sum.at("alloc_space"), counts.Sum(&Counts::alloc_bytes) + kThreads * 97);
      EXPECT_GE(frees, counts.Sum(&Counts::frees));
      EXPECT_LE(frees, counts.Sum(&Counts::frees_begun));
      // The exact counters: the same, and the few calls that starting a thread takes.
      EXPECT_GE(heap.CommentNumber("alloc_calls"), counts.Sum(&Counts::allocs)) << heap.Summary();
      EXPECT_LE(heap.CommentNumber("alloc_calls"), counts.Sum(&Counts::allocs_begun) + 8);
      EXPECT_GE(heap.CommentNumber("alloc_bytes"), counts.Sum(&Counts::alloc_bytes));
      EXPECT_GE(heap.CommentNumber("free_calls"), counts.Sum(&Counts::frees));
      EXPECT_LE(heap.CommentNumber("free_calls"), counts.Sum(&Counts::frees_begun) + 8);
    }
  }
  EXPECT_LE(left_to_collect, GetParam() == Launch::kPreload ? kills / 20 : 0);
  EXPECT_GE(with_profile, kills * 3 / 4);
}
INSTANTIATE_TEST_SUITE_P(BothWays, Kill, ::testing::Values(Launch::kPreload, Launch::kExec), LaunchName);

}  // namespace
}  // namespace holdfast::testing
