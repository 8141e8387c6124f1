// The short path at interval 1 (sampler/record/exact.h) records the same as the long path: stack by stack, block by
// block.
#include <algorithm>
#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

// What a profile says, without what differs from run to run: addresses, process ids, and inlined functions, which come with lines:
// under load a profile is written without.
std::map<std::string, Values> ByStack(const Decoded& heap) {
  std::map<std::string, Values> stacks;
  for (const DecodedSample& sample : heap.samples) {
    std::string key;
    for (const DecodedFrame& frame : sample.frames) {
      if (!frame.functions.empty()) key += frame.functions.back() + ";";
    }
    for (const auto& [name, value] : sample.numbers) key += " " + name + "=" + std::to_string(value);
    for (const auto& [type, value] : sample.values) stacks[key][type] += value;
  }
  return stacks;
}

class Exact : public Profiled {
 protected:
  // Of each process, by the name of its program: two runs of one program leave as many.
  std::vector<std::map<std::string, Values>> Record(const std::vector<std::string>& argv, const char* replay,
                                                    Options options = {}) {
    std::filesystem::remove_all(out());
    options["heap-interval"] = "1";
    options["max-memory"] = "512MiB";
    options["replay"] = replay;
    const RunResult r = RunAs(Launch::kPreload, argv, options);
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    std::vector<std::map<std::string, Values>> all;
    for (const Decoded& heap : NewestHeap()) {
      if (!too_deep_) {
        EXPECT_EQ(heap.Comment("losses"), "none") << heap.path;
      }
      const Values total = heap.Total();
      EXPECT_EQ(heap.CommentNumber("alloc_calls"), total.at("alloc_objects")) << heap.path;
      EXPECT_EQ(heap.CommentNumber("alloc_bytes"), total.at("alloc_space"));
      EXPECT_EQ(heap.CommentNumber("free_calls"), total.at("alloc_objects") - total.at("inuse_objects"));
      EXPECT_EQ(heap.CommentNumber("free_bytes"), total.at("alloc_space") - total.at("inuse_space"));
      all.push_back(ByStack(heap));
      std::erase_if(all.back(),
                    [this](const auto& of) { return !by_address_.empty() && of.first.starts_with(by_address_); });
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  void ExpectTheSame(const std::vector<std::string>& argv) {
    const auto by_long_way = Record(argv, "0"), by_short_way = Record(argv, "1");
    ASSERT_FALSE(by_long_way.empty());
    ASSERT_EQ(by_short_way.size(), by_long_way.size());
    for (size_t i = 0; i < by_long_way.size(); ++i) {
      EXPECT_EQ(by_short_way[i].size(), by_long_way[i].size());
      int differing = 0;
      for (const auto& [stack, values] : by_long_way[i]) {
        const auto found = by_short_way[i].find(stack);
        if (found != by_short_way[i].end() && found->second == values) continue;
        if (++differing > 3) continue;
        ADD_FAILURE() << stack << "\n  long way:  " << ::testing::PrintToString(values) << "\n  short way: "
                      << (found == by_short_way[i].end() ? "missing" : ::testing::PrintToString(found->second));
      }
      EXPECT_EQ(differing, 0) << "of " << by_long_way[i].size();
      for (const auto& [stack, values] : by_short_way[i]) {
        if (by_long_way[i].count(stack) != 0) continue;
        ADD_FAILURE() << "by the short way only: " << stack;
        break;
      }
    }
  }

  bool too_deep_ = false;   // some of its stacks are cut off
  std::string by_address_;  // how stacks begin if the size of their blocks depends on the length of an address
};

class ExactPrograms : public Exact, public ::testing::WithParamInterface<const char*> {};

TEST_P(ExactPrograms, TheShortWayRecordsWhatTheLongWayDoes) { ExpectTheSame({GetParam()}); }

INSTANTIATE_TEST_SUITE_P(All, ExactPrograms,
                         ::testing::Values("threads_exact", "realloc_cases", "allocators", "edge_sizes",
                                           "cross_thread_free", "operators_new", "fork_profiles", "short_threads",
                                           "mixed_sizes", "uses_libraries"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(Exact, PythonIsRecordedTheSame) {
  const std::string python = "/usr/bin/python3";
  if (access(python.c_str(), X_OK) != 0) GTEST_SKIP() << "no python3";
  // Not -E, which would ignore both: its own allocator makes a node for each 16 GiB in which an arena happens to lie.
  std::vector<std::string> argv = {"/usr/bin/setarch",
                                   "-R",
                                   "/usr/bin/env",
                                   "PYTHONHASHSEED=0",
                                   "PYTHONMALLOC=malloc",
                                   python,
                                   "-S",
                                   "-s",
                                   "-c",
                                   "d = {}\n"
                                   "for i in range(3000):\n"
                                   "    d[i % 500] = [str(i) * 3, {'a': i}, (i, i + 1)]\n"
                                   "    ''.join(['ab', str(i)])\n"
                                   "def deep(n): return [n, deep(n - 1)] if n else ['leaf']\n"
                                   "for i in range(200): deep(i % 40)\n"};
  // It makes numbers of addresses, as its compiler knows nodes by them, and types their subclasses: of 28 bytes below 1 GiB, where its heap
  // lies once in a while, else of 32. So they are not drawn; but where a container forbids that.
  const bool drawn = !RunAs(Launch::kBare, argv, {}).exited(0);
  if (drawn) argv.erase(argv.begin(), argv.begin() + 2);
  // The first reader of a file may change its time of access, which python makes a block of where it is no small number.
  ASSERT_TRUE(RunAs(Launch::kBare, argv, {}).exited(0));
  by_address_ = "PyLong_FromUnsignedLong;";
  ExpectTheSame(argv);
}

// Each stack has the same outer frames as the previous one, or almost.
TEST_F(Exact, RandomTreesAreRecordedTheSame) {
  too_deep_ = true;
  ExpectTheSame({"random_trees"});
}

// Above interval 1 stacks are remembered, too, up to kLargestReplayed: the same samples are drawn, and stand on the same stacks.
TEST_F(Exact, SamplesOfASmallIntervalHaveTheSameStacks) {
  for (const char* program : {"random_trees", "realloc_cases", "mixed_sizes", "uses_libraries", "fork_profiles"}) {
    std::vector<std::map<std::string, Values>> by_way[2];
    for (const int replay : {0, 1}) {
      std::filesystem::remove_all(out());
      const RunResult r = RunAs(Launch::kPreload, {program},
                                {{"heap-interval", "500"}, {"seed", "7"}, {"replay", std::to_string(replay)}});
      ASSERT_TRUE(r.exited(0)) << r.Describe();
      for (const Decoded& heap : NewestHeap()) by_way[replay].push_back(ByStack(heap));
      std::sort(by_way[replay].begin(), by_way[replay].end());
      ASSERT_FALSE(by_way[replay].empty());
    }
    EXPECT_EQ(by_way[0], by_way[1]) << program;
  }
}

// Blocks that the shadow map has no room for, or that it does not take, are live samples as ever.
TEST_F(Exact, LittleMemoryLosesNoFree) {
  const RunResult r = RunAs(Launch::kPreload, {"threads_exact"}, {{"heap-interval", "1"}, {"max-memory", "16MiB"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  ExpectKnownHeap(r.out);
}

// Blocks that find the table full are in [overflow], each once, with its free, and counted as lost once. The same applies while the
// index of stacks grows, with more threads than have rows of their own, and while children are forked.
TEST_F(Exact, EverNewStacksLoseNothingWhetherTheTableIsFullOrNot) {
  struct Case {
    std::vector<std::string> argv;
    const char* memory;
    bool fills;
  };
  for (const Case& of :
       {Case{{"new_paths", "3", "20000", "fork"}, "512MiB", false}, Case{{"new_paths", "1", "20000"}, "1MiB", true},
        Case{{"new_paths", "50", "400"}, "2MiB", true}}) {
    for (const char* replay : {"0", "1"}) {
      SCOPED_TRACE(::testing::PrintToString(of.argv) + " in " + of.memory + ", replay " + replay);
      std::filesystem::remove_all(out());
      // Heap alone: what a full table loses is one number for all kinds.
      const RunResult r =
          RunAs(Launch::kPreload, of.argv,
                {{"heap-interval", "1"}, {"max-memory", of.memory}, {"replay", replay}, {"profiles", "heap"}});
      ASSERT_TRUE(r.exited(0)) << r.Describe();
      const std::vector<Known> known = KnownHeap(r.out);
      ASSERT_EQ(known.size(), 1u);
      int parents = 0;
      for (const Decoded& heap : NewestHeap()) {
        const Values total = heap.Total();
        EXPECT_EQ(heap.CommentNumber("alloc_calls"), total.at("alloc_objects"));
        EXPECT_EQ(heap.CommentNumber("alloc_bytes"), total.at("alloc_space"));
        EXPECT_EQ(heap.CommentNumber("free_calls"), total.at("alloc_objects") - total.at("inuse_objects"));
        EXPECT_EQ(heap.CommentNumber("free_bytes"), total.at("alloc_space") - total.at("inuse_space"));
        if (total.at("alloc_objects") < known[0].alloc_objects) continue;  // a child's
        ++parents;
        // Some blocks of the C library's beside them.
        EXPECT_LE(total.at("alloc_objects"), known[0].alloc_objects + 1000);
        const Values made = heap.SumLeaf("make_block"), overflow = heap.SumAny("[overflow]");
        EXPECT_EQ(made.at("inuse_objects"), 0);
        EXPECT_EQ(made.at("inuse_space"), 0);
        EXPECT_LE(overflow.at("inuse_objects"), 60);
        EXPECT_LE(overflow.at("inuse_space"), 60'000);
        if (of.fills) {
          EXPECT_GE(made.at("alloc_objects") + overflow.at("alloc_objects"), known[0].alloc_objects);
          EXPECT_EQ(heap.CommentNumber("lost stack-table-full"), overflow.at("alloc_objects"));
        } else {
          EXPECT_EQ(made.at("alloc_objects"), known[0].alloc_objects);
          EXPECT_EQ(made.at("alloc_space"), known[0].alloc_space);
          EXPECT_EQ(heap.Comment("losses"), "none");
        }
      }
      EXPECT_EQ(parents, 1);
    }
  }
}

// Each thread has made its row of [overflow] before the table is full: what comes later is in the shadow map, as ever. As live samples the
// blocks would have an age each, for which there is no room.
TEST_F(Exact, AllThreadsGoTheShortWayWhereTheTableIsFull) {
  const RunResult r = RunAs(Launch::kPreload, {"new_paths", "2", "150000"},
                            {{"heap-interval", "1"}, {"max-memory", "16MiB"}, {"profiles", "heap"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u);
  const int64_t lost = heap[0].CommentNumber("lost stack-table-full");
  EXPECT_GT(lost, 100'000);
  EXPECT_LE(heap[0].Comment("lost ages-full").has_value() ? heap[0].CommentNumber("lost ages-full") : 0, lost / 50);
  // Small and large blocks of them have rows of their own, and are one sample.
  const Values overflow = heap[0].SumAny("[overflow]");
  EXPECT_LE(overflow.at("inuse_objects"), 60);
  EXPECT_LE(overflow.at("inuse_space"), 60'000);
  EXPECT_EQ(
      std::count_if(heap[0].samples.begin(), heap[0].samples.end(),
                    [](const DecodedSample& sample) { return sample.frames.size() == 1 && sample.numbers.empty(); }),
      1);
}

// Of blocks that another allocator's free, say, has taken back as many are found when others take their place as by the long way; and
// what took their place is known as it is.
TEST_F(Exact, AnUnseenFreeIsFoundByTheNextBlockAtItsAddress) {
  std::map<std::string, Values> small;
  for (const char* replay : {"0", "1"}) {
    std::filesystem::remove_all(out());
    const RunResult r = RunAs(Launch::kPreload, {"unseen_frees"}, {{"heap-interval", "1"}, {"replay", replay}});
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    const std::vector<Decoded> heap = NewestHeap();
    ASSERT_EQ(heap.size(), 1u);
    for (const Known& known : KnownHeap(r.out)) {
      const Values made = heap[0].SumLeaf(known.function);
      EXPECT_EQ(made.at("alloc_objects"), known.alloc_objects);
      EXPECT_EQ(made.at("alloc_space"), known.alloc_space);
    }
    EXPECT_EQ(heap[0].SumLeaf("make_large").at("inuse_objects"), 0);
    EXPECT_EQ(heap[0].SumLeaf("make_large").at("inuse_space"), 0);
    small[replay] = heap[0].SumLeaf("make_small");
    EXPECT_EQ(small[replay]["inuse_space"], small[replay]["inuse_objects"] * 8);
  }
  EXPECT_LE(small["1"]["inuse_objects"], small["0"]["inuse_objects"]);
}

// Some allocators put several blocks into the bytes of one word.
TEST_F(Exact, TinyBlocksOfEachAllocatorAreExact) {
  for (const char* allocator : {"", "libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"}) {
    for (const char* memory : {"512MiB", "1MiB"}) {
      SCOPED_TRACE(std::string(allocator) + ", " + memory);
      std::filesystem::remove_all(out());
      // In 1 MiB there is no shadow map.
      Command command = CommandFor(Launch::kPreload, {"tiny_blocks", *memory == '1' ? "1000" : "20000"},
                                   {{"heap-interval", "1"}, {"max-memory", memory}});
      if (*allocator != 0) command.env["LD_PRELOAD"] += std::string(":") + allocator;
      const RunResult r = RunAndSettle(command);
      ASSERT_TRUE(r.exited(0)) << r.Describe();
      if (r.err.find("cannot be preloaded") != std::string::npos) continue;  // not installed
      ExpectKnownHeap(r.out);
    }
  }
}

// What a thread's first allocation is, and what brought it here before that, is no matter.
TEST_F(Exact, ThreadsThatWaitBeforeTheyAllocateLoseNothing) {
  for (const char* replay : {"0", "1"}) {
    std::filesystem::remove_all(out());
    const RunResult r = RunAs(Launch::kPreload, {"wait_then_allocate"}, {{"heap-interval", "1"}, {"replay", replay}});
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    ExpectKnownHeap(r.out);
  }
}

// A child's page names no owner and no time, so a thread that was never introduced has no owner either.
TEST_F(Exact, AChildWithoutATableRunsOn) {
  for (const char* children : {"yes", "no"}) {
    std::filesystem::remove_all(out());
    const RunResult r =
        RunAs(Launch::kPreload, {"exact_children", "thread"}, {{"heap-interval", "1"}, {"children", children}});
    EXPECT_TRUE(r.exited(0)) << children << r.Describe();
    ExpectKnownHeap(r.out);
  }
}

TEST_F(Exact, AChildOfAThreadThatNeverAllocatedTakesNothingFromItsParent) {
  const RunResult r =
      RunAs(Launch::kPreload, {"exact_children", "stranger"}, {{"heap-interval", "1"}, {"children", "no"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  ExpectKnownHeap(r.out);
}

// Whoever of them finds out first that this is a child begins its profile; the others wait for it.
TEST_F(Exact, ThreadsThatBeginAtOnceInAChildLoseNothing) {
  for (const char* replay : {"0", "1"}) {
    std::filesystem::remove_all(out());
    const RunResult r = RunAs(Launch::kPreload, {"exact_children", "threads"},
                              {{"heap-interval", "1"}, {"replay", replay}, {"profiles", "heap"}});
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    const std::vector<Known> known = KnownHeap(r.out);
    ASSERT_EQ(known.size(), 1u);
    const std::vector<Decoded> heap = NewestHeap();
    EXPECT_EQ(heap.size(), 2u);
    for (const Decoded& of : heap) {
      EXPECT_EQ(of.SumLeaf("make_block").at("alloc_objects"), known[0].alloc_objects) << "replay " << replay;
      EXPECT_EQ(of.SumLeaf("make_block").at("alloc_space"), known[0].alloc_space);
    }
  }
}

TEST_F(Exact, AHandlerMayForkOrAllocateAtAnyInstruction) {
  for (const char* what : {"fork", "allocate"}) {
    const RunResult r = RunAs(Launch::kPreload, {"stepped_allocations", "libholdfast.so", what},
                              {{"heap-interval", "1"}, {"children", "no"}});
    EXPECT_TRUE(r.exited(0)) << what << r.Describe();
    EXPECT_THAT(r.out, ::testing::Not(::testing::HasSubstr("came 0 "))) << "no handler came: this shows nothing";
  }
}

}  // namespace
}  // namespace holdfast::testing
