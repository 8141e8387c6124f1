// Programs that report more than is visible from outside through include/holdfast.h: the published examples in C, C++
// and Rust.
#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class Api : public Profiled {
 protected:
  Values DelaysBelow(const std::string& kind, const std::string& function, const std::string& label) const {
    Values sum = {{"contentions", 0}, {"delay", 0}};
    for (const Decoded& profile : Newest(out(), kind)) {
      for (const DecodedSample& sample : profile.samples) {
        const auto found = sample.labels.find(kind == "mutex" ? "lock" : "wait");
        if (!sample.Has(function) || found == sample.labels.end() || found->second != label) continue;
        for (const auto& [name, value] : sample.values) sum[name] += value;
      }
    }
    return sum;
  }
};

// However the program was compiled and linked: the address of the table comes from the dynamic linker.
class ApiPrograms : public Api, public ::testing::WithParamInterface<const char*> {};

TEST_P(ApiPrograms, AnAnnouncedPoolHasItsBlocksInTheProfile) {
  const RunResult bare = RunAs(Launch::kBare, {GetParam()});
  ASSERT_TRUE(bare.exited(0)) << bare.Describe();
  const RunResult profiled = RunAs(Launch::kPreload, {GetParam()}, {{"heap-interval", "1"}});
  ASSERT_TRUE(profiled.exited(0)) << profiled.Describe();
  EXPECT_EQ(profiled.out, bare.out);
  // Below the function, which calls the pool, which tells of it.
  for (const Known& known : KnownHeap(profiled.out)) {
    Values sum;
    for (const Decoded& profile : NewestHeap()) {
      for (const DecodedSample& sample : profile.samples) {
        if (!sample.Has(known.function)) continue;
        for (const auto& [name, value] : sample.values) sum[name] += value;
      }
    }
    EXPECT_EQ(sum["alloc_objects"], known.alloc_objects) << known.function;
    EXPECT_EQ(sum["alloc_space"], known.alloc_space) << known.function;
    EXPECT_EQ(sum["inuse_objects"], known.inuse_objects) << known.function;
    EXPECT_EQ(sum["inuse_space"], known.inuse_space) << known.function;
  }
  EXPECT_GE(KnownHeap(profiled.out).size(), 1u);
}
INSTANTIATE_TEST_SUITE_P(All, ApiPrograms,
                         ::testing::Values("api_pool", "api_pool_no_pie", "api_pool_unoptimized", "api_pool_in_library",
                                           "api_pool_rust"));

TEST_F(Api, ASampledPoolIsEstimated) {
  // 5,200 blocks of 1.1 MB, one sample in 4 KiB: some 270; 6 sigma of 200 blocks of 3,000 B kept are ±45 % of 600,000.
  RunAs(Launch::kPreload, {"api_pool"}, {{"heap-interval", "4KiB"}, {"seed", "7"}});
  int64_t kept = 0, transient = 0;
  for (const Decoded& profile : NewestHeap()) {
    for (const DecodedSample& sample : profile.samples) {
      if (sample.Has("keep_session")) kept += sample.values.at("inuse_space");
      if (sample.Has("serve_request")) transient += sample.values.at("inuse_space");
    }
  }
  EXPECT_NEAR(kept, 600'000, 270'000);
  EXPECT_EQ(transient, 0);
}

TEST_F(Api, ASnapshotComesWhenItIsAskedFor) {
  const RunResult result = RunAs(Launch::kPreload, {"api_pool"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  // The end may come before the exporter has looked: then one file answers both.
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(out())) {
    if (entry.path().string().ends_with(".heap.pb.gz")) ++files;
  }
  EXPECT_GE(files, 1);
  EXPECT_THAT(RunTool({"info", out()}).out, ::testing::Not(::testing::HasSubstr("lost")));
}

TEST_F(Api, ALockOfTheProgramsOwnHasItsHolderAndItsWaiter) {
  const RunResult result = RunAs(Launch::kPreload, {"api_own_lock"}, {{"lock-interval", "1ns"}});
  ASSERT_TRUE(result.exited(0)) << result.Describe();
  const Values waited = DelaysBelow("block", "impatient_reader()", "custom");
  EXPECT_EQ(waited.at("contentions"), 3);
  EXPECT_GE(waited.at("delay"), 300'000'000);
  EXPECT_GE(DelaysBelow("mutex", "slow_update(std::atomic<bool>*)", "custom").at("delay"), 300'000'000);
  // What the lock is made of is not counted beside it.
  EXPECT_EQ(DelaysBelow("block", "impatient_reader()", "futex").at("contentions"), 0);
}

}  // namespace
}  // namespace holdfast::testing
