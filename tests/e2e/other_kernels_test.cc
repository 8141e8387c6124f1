// Older and emulated kernels, simulated by a seccomp filter: what they reject, and what they only claim to have done.
#include <sys/syscall.h>

#include <cerrno>
#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

constexpr int kDontFork = 10, kDontNeed = 4, kWipeOnFork = 18, kPopulateWrite = 23;  // advice of madvise

// As under_filter takes it.
std::string Answer(long call, int argument, int value, int error) {
  return std::to_string(call) + "/" + std::to_string(argument) + "/" + std::to_string(value) + "/" +
         std::to_string(error);
}
std::string Advice(int advice, int error) { return Answer(SYS_madvise, 2, advice, error); }
std::string Always(long call, int error) { return Answer(call, 9, 0, error); }

struct Kernel {
  std::string name;
  std::vector<std::string> answers;
  bool knows_vfork = true;  // a child that shares its parent's memory can be told from one that has a copy
};
std::ostream& operator<<(std::ostream& out, const Kernel& kernel) { return out << kernel.name; }

class OtherKernels : public Profiled, public ::testing::WithParamInterface<Kernel> {
 protected:
  // Under the kernel of this test; all has settled.
  RunResult RunThere(std::vector<std::string> argv) {
    const Command command = CommandFor(Launch::kPreload, std::move(argv), {{"heap-interval", "1"}});
    std::vector<std::string> all = {ProgramPath("under_filter"), "answer"};
    all.insert(all.end(), GetParam().answers.begin(), GetParam().answers.end());
    all.insert(all.end(), {"--", "env"});
    for (const auto& [name, value] : command.env) all.push_back(name + "=" + value);
    all.insert(all.end(), command.argv.begin(), command.argv.end());
    return RunAndSettle({.argv = all});
  }
};

TEST_P(OtherKernels, ForkedChildrenHaveProfilesOfTheirOwn) {
  const RunResult r = RunThere({"fork_profiles"});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.err, "");
  ExpectKnownHeap(r.out);
  EXPECT_EQ(NewestHeap().size(), 3u) << AllSummaries();
  ExpectAllWhole();
}

TEST_P(OtherKernels, ChildrenOfRawSystemCallsNeverRecordAsTheirParent) {
  const RunResult r = RunThere({"raw_children"});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  ExpectKnownHeap(r.out);
  int raw = 0;
  for (const Decoded& heap : NewestHeap()) {
    const bool is_parents = heap.Names("parent_allocates");
    for (const char* function : {"raw_fork_allocates", "raw_clone_allocates", "called_fork_allocates"}) {
      if (!heap.Names(function)) continue;
      ++raw;
      EXPECT_FALSE(is_parents) << heap.Summary();
      EXPECT_EQ(heap.SumLeaf(function).at("alloc_objects"), 10) << heap.Summary();
    }
    const bool has_sharing = heap.Names("sharing_child_allocates");
    EXPECT_EQ(has_sharing, is_parents && GetParam().knows_vfork) << heap.Summary();
    if (has_sharing) {
      EXPECT_EQ(heap.SumLeaf("sharing_child_allocates").at("alloc_objects"), 10) << heap.Summary();
    }
  }
  // Where nothing tells such a child from one that shares the memory, neither is recorded.
  EXPECT_EQ(raw, GetParam().knows_vfork ? 3 : 0) << AllSummaries();
}

TEST_P(OtherKernels, ChildrenThatShareTheirParentsMemoryAreRecordedAsTheParent) {
  const RunResult r = RunThere({"hard_processes", "first_in_vfork"});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  if (!GetParam().knows_vfork) return;
  const std::vector<ProfileName> names = ListProfiles(out());
  ASSERT_EQ(names.size(), 1u) << AllSummaries();
  EXPECT_EQ(names[0].pid, r.pid);
  EXPECT_EQ(NewestHeap().at(0).SumLeaf("child_allocates").at("alloc_objects"), 200);
}

TEST_P(OtherKernels, AChildOfVforkMayBeTheFirstToCall) {
  const RunResult r = RunThere({"vfork_in_child"});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  ExpectKnownHeap(r.out);
}

TEST_P(OtherKernels, NobodyElseHoldsOnToThePipesOfTheProgram) {
  const RunResult r = RunThere({"hard_processes", "pipe_end"});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.out, "read 0\nchild 0\n");
}

// The library replaces entries in pages that the dynamic linker has made read-only.
TEST_P(OtherKernels, CallsOfAnAllocatorByItsOwnNamesAreRecorded) {
  const std::string program = "own_names_mimalloc_now";
  if (!std::filesystem::exists(ProgramPath(program))) GTEST_SKIP() << "mimalloc is not installed";
  const RunResult r = RunThere({program});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_NE(r.out.find("found 1, as it is 1"), std::string::npos) << r.out;
  EXPECT_EQ(NewestHeap().size(), 1u) << AllSummaries();
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, OtherKernels,
    ::testing::Values(Kernel{"of_before_4_14", {Advice(kWipeOnFork, EINVAL), Advice(kPopulateWrite, EINVAL)}},
                      Kernel{"of_before_5_9", {Advice(kPopulateWrite, EINVAL), Always(SYS_close_range, ENOSYS)}},
                      Kernel{"that_only_says_it_empties_pages", {Advice(kWipeOnFork, 0)}},
                      Kernel{"that_only_says_it_makes_pages", {Advice(kPopulateWrite, 0), Always(SYS_fallocate, 0)}},
                      Kernel{"that_only_says_it_keeps_pages_from_children",
                             {Advice(kWipeOnFork, EINVAL), Advice(kDontFork, 0), Advice(kDontNeed, 0)},
                             false},
                      Kernel{"that_ignores_all_advice", {Always(SYS_madvise, 0), Always(SYS_close_range, 0)}, false}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace holdfast::testing
