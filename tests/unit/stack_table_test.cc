// Stacks and their rows in the table, alone and with four threads.
#include "sampler/table/stack_table.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "sampler/contract/poisson_sampler.h"
#include "tests/unit/anonymous_table.h"
#include "tests/unit/single_steps.h"

namespace holdfast {
namespace {

uint64_t Objects(const Row* row) { return row->sums[kAllocObjects] >> kCountFractionBits; }

TEST(StackTable, EqualStacksAreOneAndOthersAreNot) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  Stack* a = InternStack(table, Trace({1, 2, 3}));
  EXPECT_EQ(InternStack(table, Trace({1, 2, 3})), a);
  EXPECT_NE(InternStack(table, Trace({1, 2})), a);
  EXPECT_NE(InternStack(table, Trace({2, 1, 3})), a);
  StackTrace cut = Trace({1, 2, 3});
  cut.truncated = true;
  EXPECT_NE(InternStack(table, cut), a) << "a truncated stack is not the whole one";
}

TEST(StackTable, SharedOuterFramesAreStoredOnce) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  static_assert(kNodeFrames == 4);
  std::set<Offset> nodes;
  const auto nodes_after = [&](std::initializer_list<TaggedPc> frames) {
    for (Offset at = InternStack(table, Trace(frames))->parent; at != 0; at = table->At<Node>(at)->parent)
      nodes.insert(at);
    return nodes.size();
  };
  EXPECT_EQ(nodes_after({100, 8, 7, 6, 5, 4, 3, 2, 1}), 2u);
  EXPECT_EQ(nodes_after({101, 8, 7, 6, 5, 4, 3, 2, 1}), 2u) << "the innermost frames are in the stack itself";
  EXPECT_EQ(nodes_after({8, 7, 6, 5, 4, 3, 2, 1}), 2u);
  EXPECT_EQ(nodes_after({101, 9, 7, 6, 5, 4, 3, 2, 1}), 3u);
  EXPECT_EQ(nodes_after({4, 3, 2, 1}), 3u);
}

// As LastWalk keeps it: the outer frames stay, the inner ones are others.
TEST(StackTable, APathAndATraceOfTheSameFramesAreOneStack) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  static StackPath path;
  path = {};
  std::vector<TaggedPc> frames;  // outermost first
  uint64_t random = 1;
  for (int i = 0; i < 3000; ++i) {
    const size_t kept = std::min<size_t>(NextRandom(&random) % 24, frames.size());
    const size_t added = NextRandom(&random) % 6 + (kept == 0 ? 1 : 0);
    frames.resize(kept);
    path.Cut(static_cast<int>(kept));
    for (size_t j = 0; j < added; ++j) {
      frames.push_back(NextRandom(&random) % 3 + 1);
      path.Add(frames.back());
    }
    StackTrace trace{};
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) trace.frames[trace.depth++] = *frame;
    // By turns, so that each finds what the other has made.
    Stack* by_trace = i % 2 == 0 ? InternStack(table, trace) : nullptr;
    Stack* by_path = InternStack(table, &path);
    if (by_trace == nullptr) by_trace = InternStack(table, trace);
    ASSERT_EQ(by_path, by_trace) << i;
    ASSERT_EQ(FramesOf(table, by_path), std::vector<TaggedPc>(frames.rbegin(), frames.rend())) << i;
  }
}

// Returns how often each stack with rows is in the lists. A race may leave more stacks, but they have no rows.
std::map<std::vector<TaggedPc>, int> StacksByFrames(SharedTable* table) {
  std::map<std::vector<TaggedPc>, int> by_frames;
  for (const auto& list : table->header()->stack_lists) {
    for (Offset at = list; at != 0; at = table->At<Stack>(at)->next) {
      const Stack* stack = table->At<Stack>(at);
      if (stack->rows != 0) ++by_frames[FramesOf(table, stack)];
    }
  }
  return by_frames;
}

// They meet at the same stack all the time, also while the index grows, which it does seven times.
TEST(StackTable, NewStacksThatFourThreadsAddAtOnceAreThereOnceEach) {
  constexpr TaggedPc kStacks = 200'000;
  for (int round = 0; round < 3; ++round) {
    SharedTable* table = UseAnonymousTable(size_t{256} << 20);
    ASSERT_TRUE(MakeSpecialStacks(table));
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
      threads.emplace_back([table, number] {
        StackPath path;
        path.Add(7);
        for (TaggedPc i = 0; i < kStacks; ++i) {
          path.Cut(1);
          path.Add(i + 1);
          Stack* stack = number == 3 ? InternStack(table, Trace({i + 1, 7})) : InternStack(table, &path);
          FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, 1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const std::map<std::vector<TaggedPc>, int> stacks = StacksByFrames(table);
    EXPECT_EQ(stacks.size(), kStacks);
    for (const auto& [frames, times] : stacks) ASSERT_EQ(times, 1) << frames[0];
  }
}

TEST(StackTable, NothingOfTheParentIsFoundInAChild) {
  SharedTable* table = UseAnonymousTable(size_t{64} << 20);
  ASSERT_TRUE(MakeSpecialStacks(table));
  std::vector<Stack*> of_parent;
  for (TaggedPc pc = 1; pc <= 50'000; ++pc) of_parent.push_back(InternStack(table, Trace({pc, 2, 3, 4, 5})));
  ForgetStacks();
  for (TaggedPc pc = 1; pc <= 50'000; ++pc) ASSERT_NE(InternStack(table, Trace({pc, 2, 3, 4, 5})), of_parent[pc - 1]);
}

TEST(StackTable, FramesCanBeReadBack) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  for (uint16_t depth = 1; depth <= 3 * kNodeFrames; ++depth) {
    StackTrace trace{};
    for (trace.depth = 0; trace.depth < depth; ++trace.depth) trace.frames[trace.depth] = trace.depth + 10u;
    EXPECT_EQ(FramesOf(table, InternStack(table, trace)), std::vector<TaggedPc>(trace.frames, trace.frames + depth));
  }
}

TEST(StackTable, FullTableSpillsIntoOverflowAndCounts) {
  SharedTable* table = UseAnonymousTable((sizeof(TableHeader) + 16384 + 4095) / 4096 * 4096);
  ASSERT_TRUE(MakeSpecialStacks(table));
  Stack* stack = nullptr;
  for (TaggedPc pc = 1; pc < 2000; ++pc) stack = InternStack(table, Trace({pc}));
  EXPECT_EQ(table->OffsetOf(stack), table->header()->overflow_stack);
  EXPECT_GT(table->shard().stack_lost, 0u);
  Row* row = FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, 12);
  EXPECT_EQ(table->OffsetOf(row), table->header()->overflow_row[static_cast<int>(ProfileKind::kHeap)]);
  // What was there before is still found, not replaced.
  EXPECT_NE(table->OffsetOf(InternStack(table, Trace({1}))), table->header()->overflow_stack);
}

TEST(StackTable, AFullTableCountsOnceAndUsesOneRowOfEachKind) {
  SharedTable* table = UseAnonymousTable((sizeof(TableHeader) + 16384 + 4095) / 4096 * 4096);
  ASSERT_TRUE(MakeSpecialStacks(table));
  Stack* overflow = table->At<Stack>(table->header()->overflow_stack);
  for (int kind = 0; kind < kProfileKinds; ++kind) {
    Row* row = FindMarkedRow(table, overflow, static_cast<ProfileKind>(kind), 3, 7);
    EXPECT_EQ(table->OffsetOf(row), table->header()->overflow_row[kind]) << "while there is room for another one";
  }
  while (table->New<Offset>() != nullptr) {
  }
  const std::atomic<uint64_t>& lost = table->shard().stack_lost;
  TaggedPc pc = 0;
  for (int kind = 0; kind < kProfileKinds; ++kind) {
    for (int i = 0; i < 3; ++i) {
      const uint64_t before = lost;
      Stack* stack = InternStack(table, Trace({++pc}));
      Row* row = FindMarkedRow(table, stack, static_cast<ProfileKind>(kind), static_cast<uint8_t>(i), 7);
      EXPECT_EQ(table->OffsetOf(row), table->header()->overflow_row[kind]);
      EXPECT_EQ(lost, before + 1) << kind;
    }
  }
}

TEST(StackTable, AmongAMillionNodesEachIsThereOnce) {
  SharedTable* table = UseAnonymousTable(256 << 20);
  ASSERT_TRUE(MakeSpecialStacks(table));
  constexpr TaggedPc kNodes = 1'000'000;
  std::vector<std::thread> threads;
  std::vector<std::vector<Offset>> leaves(4);
  for (auto& of_thread : leaves) {
    // All of them all nodes, in the same order: so that they meet.
    threads.emplace_back([table, &of_thread] {
      for (TaggedPc pc = 1; pc <= kNodes; ++pc)
        of_thread.push_back(InternStack(table, Trace({4, pc, 3, 2, 1}))->parent);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_thread : leaves) ASSERT_EQ(of_thread, leaves[0]);
  std::sort(leaves[0].begin(), leaves[0].end());
  EXPECT_EQ(std::unique(leaves[0].begin(), leaves[0].end()), leaves[0].end());
}

TEST(StackTable, RowsAreByKindWaitAndSizeClass) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  Stack* stack = InternStack(table, Trace({5}));
  std::set<Row*> rows;
  for (int round = 0; round < 2; ++round) {
    rows.insert(FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, 1));
    rows.insert(FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, 2));
    rows.insert(FindRow(table, stack, ProfileKind::kBlock, WaitKind::kMutex, 0));
    rows.insert(FindRow(table, stack, ProfileKind::kBlock, WaitKind::kFutex, 0));
  }
  EXPECT_EQ(rows.size(), 4u);
}

TEST(StackTable, AFullRowIsFollowedByAnotherAndNoSumBeginsAnew) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  Stack* stack = InternStack(table, Trace({5}));
  Row* first = FindRow(table, stack, ProfileKind::kBlock, WaitKind::kMutex, 0);
  first->sums[kDelay] = kFullSum - 1;
  EXPECT_EQ(FindRow(table, stack, ProfileKind::kBlock, WaitKind::kMutex, 0), first);
  AddTo(table, &first->sums[kDelay], 5);
  Row* second = FindRow(table, stack, ProfileKind::kBlock, WaitKind::kMutex, 0);
  EXPECT_NE(second, first);
  second->sums[kContentions] = kFullSum;
  EXPECT_NE(FindRow(table, stack, ProfileKind::kBlock, WaitKind::kMutex, 0), second);
  // Who has known the first one for long.
  first->sums[kDelay] = kMaxSum - 1;
  for (int i = 0; i < 100; ++i) AddTo(table, &first->sums[kDelay], kFullSum / 100);
  EXPECT_GE(first->sums[kDelay], kMaxSum);
  EXPECT_EQ(table->header()->losses[static_cast<int>(Loss::kSumFull)], 99u);
}

TEST(StackTable, TheOverflowRowIsFollowedByAnotherToo) {
  SharedTable* table = UseAnonymousTable();
  ASSERT_TRUE(MakeSpecialStacks(table));
  Stack* overflow = table->At<Stack>(table->header()->overflow_stack);
  Row* first = FindRow(table, overflow, ProfileKind::kBlock, WaitKind::kMutex, 3);
  EXPECT_EQ(table->OffsetOf(first), table->header()->overflow_row[static_cast<int>(ProfileKind::kBlock)]);
  first->sums[kContentions] = kFullSum;
  Row* second = FindRow(table, overflow, ProfileKind::kBlock, WaitKind::kFutex, 0);
  EXPECT_NE(second, first);
  EXPECT_EQ(FindRow(table, overflow, ProfileKind::kBlock, WaitKind::kMutex, 0), second);
}

TEST(StackTable, FourThreadsAgreeOnStacksRowsAndSums) {
  SharedTable* table = UseAnonymousTable(64 << 20);
  ASSERT_TRUE(MakeSpecialStacks(table));
  constexpr int kStacks = 2000, kRounds = 20;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([table] {
      for (int round = 0; round < kRounds; ++round) {
        for (TaggedPc pc = 1; pc <= kStacks; ++pc) {
          Stack* stack = InternStack(table, Trace({pc, pc % 7, 1}));
          Row* row = FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, static_cast<uint16_t>(pc % 3));
          row->sums[kAllocObjects].fetch_add(uint64_t{1} << kCountFractionBits);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  // All heap rows are in the list of their own, once, and the overflow stack's; races may have left some that nobody uses.
  std::set<Offset> rows;
  for (const RecordShard& shard : table->header()->record_shards) {
    for (Offset at = shard.newest_row; at != 0; at = table->At<Row>(at)->older) {
      EXPECT_EQ(table->At<Row>(at)->profile, ProfileKind::kHeap);
      ASSERT_TRUE(rows.insert(at).second);
    }
  }
  EXPECT_TRUE(rows.contains(table->header()->overflow_row[static_cast<int>(ProfileKind::kHeap)]));
  size_t found = 0;
  for (TaggedPc pc = 1; pc <= kStacks; ++pc) {
    Stack* stack = InternStack(table, Trace({pc, pc % 7, 1}));
    found += rows.contains(stack->rows.load());
  }
  EXPECT_EQ(found, kStacks + 0u);
  for (TaggedPc pc = 1; pc <= kStacks; ++pc) {
    Stack* stack = InternStack(table, Trace({pc, pc % 7, 1}));
    EXPECT_EQ(Objects(FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, static_cast<uint16_t>(pc % 3))),
              4u * kRounds);
  }
}

// Stacks under one node: of a whole piece more, or of their innermost frames alone. And sizes of one stack: rows.
enum class Child { kNode, kStack, kRow };
struct Children {
  Children(SharedTable* in, Child of, TaggedPc under) : table(in), kind(of) {
    for (TaggedPc& frame : outer.frames) frame = under;
    outer.depth = kNodeFrames;
    if (kind == Child::kRow) stack = InternStack(table, outer);
  }
  // What `number` has led to: it is the same each time.
  Offset Find(uint16_t number) {
    if (kind == Child::kRow) return table->OffsetOf(FindOwnRow(table, stack, 1, number));
    StackTrace trace{};
    trace.frames[trace.depth++] = 7;
    for (int i = 0; kind == Child::kNode && i < kNodeFrames; ++i) trace.frames[trace.depth++] = 100u + number;
    if (kind == Child::kStack) trace.frames[0] = 100u + number;
    for (int i = 0; i < kNodeFrames; ++i) trace.frames[trace.depth++] = outer.frames[i];
    // As a walk at interval 1 does: not by the hash of the whole.
    StackPath path;
    for (int i = trace.depth; i > 0; --i) path.Add(trace.frames[i - 1]);
    Stack* found = InternStack(table, &path);
    if (by_trace) EXPECT_EQ(InternStack(table, trace), found);
    return kind == Child::kNode ? found->parent : table->OffsetOf(found);
  }
  SharedTable* table;
  Child kind;
  StackTrace outer{};
  Stack* stack = nullptr;
  bool by_trace = true;  // is to be the same
};
constexpr uint16_t kMaxChildren = 2 * kListedCalls + 3;

TEST(StackTable, ChildrenOfOneAreFoundHoweverManyThereAreAndThreadsAgree) {
  constexpr int kParents = 300;
  for (const Child kind : {Child::kNode, Child::kStack, Child::kRow}) {
    SharedTable* table = UseAnonymousTable(64 << 20);
    ASSERT_TRUE(MakeSpecialStacks(table));
    std::vector<std::vector<Offset>> found(4);
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < found.size(); ++thread) {
      threads.emplace_back([&, thread] {
        found[thread].resize(kParents * kMaxChildren);
        for (int parent = 0; parent < kParents; ++parent) {
          Children children(table, kind, 1000u + static_cast<TaggedPc>(parent));
          for (size_t i = 0; i < kMaxChildren; ++i) {
            const size_t number = thread < 2 ? i : kMaxChildren - 1 - i;
            found[thread][static_cast<size_t>(parent) * kMaxChildren + number] =
                children.Find(static_cast<uint16_t>(number));
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& of_thread : found) ASSERT_EQ(of_thread, found[0]);
    EXPECT_EQ(std::set<Offset>(found[0].begin(), found[0].end()).size(), found[0].size());
    EXPECT_FALSE(std::set<Offset>(found[0].begin(), found[0].end()).contains(0));
  }
}

TEST(StackTable, AFullTableSearchesOnlyTheList) {
  for (const Child kind : {Child::kNode, Child::kStack, Child::kRow}) {
    SharedTable* table = UseAnonymousTable(8 << 20);
    ASSERT_TRUE(MakeSpecialStacks(table));
    const uint16_t listed = kind == Child::kRow ? kListedRows : kListedCalls;
    const TaggedPc parents = kind == Child::kRow ? 2'000 : 500;
    const std::atomic<uint64_t>& grown = table->header()->counters[0].table_steps;
    std::vector<Children> all;
    for (TaggedPc parent = 0; parent < parents; ++parent) {
      Children& children = all.emplace_back(table, kind, 1000 + parent);
      children.by_trace = false;
      for (uint16_t i = 0; i < listed; ++i) children.Find(i);
    }
    while (table->New<Offset>() != nullptr) {
    }
    // The first index has 4,096 slots: all that is listed does not fit.
    const uint64_t before = grown;
    for (Children& children : all) {
      StackTrace other = children.outer;
      for (int i = 0; i < kNodeFrames; ++i) other.frames[other.depth++] = 5;
      StackPath path;
      for (int i = 0; i < other.depth; ++i) path.Add(other.frames[i]);
      if (kind == Child::kNode) path.Add(6);
      if (kind == Child::kRow) {
        EXPECT_EQ(FindOwnRow(table, children.stack, 1, kMaxChildren), nullptr);
      } else {
        EXPECT_EQ(table->OffsetOf(InternStack(table, &path)), table->header()->overflow_stack);
      }
    }
    EXPECT_EQ(grown, before) << static_cast<int>(kind);
  }
}

// Interrupts the code that finds or makes a child after each of its instructions, beside this number of other children: another
// thread makes more, among them the same one, or the thread jumps out of a signal handler.
TEST(StackTable, AStoppedOrEscapedThreadDuplicatesNoChild) {
  HOLDFAST_NEEDS_SINGLE_STEPS();
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer's own code cannot be stopped at each instruction";
#endif
  constexpr uint64_t kBytes = 256 << 10;
  constexpr uint16_t kOwn = 500;
  for (const Child kind : {Child::kNode, Child::kStack, Child::kRow}) {
    const int listed = kind == Child::kRow ? kListedRows : kListedCalls;
    for (const bool jumps : {false, true}) {
      for (const int before : {0, listed - 1, listed, listed + 1}) {
        int runs = 0;
        for (SingleSteps steps(before < listed ? 13 : 31);; steps.Next(), ++runs) {
          SharedTable* table = UseAnonymousTable(kBytes);
          ASSERT_TRUE(MakeSpecialStacks(table));
          Children children(table, kind, 1000);
          children.by_trace = false;
          std::vector<Offset> made;
          const auto make_until = [&](int count) {
            while (made.size() < static_cast<size_t>(count))
              made.push_back(children.Find(static_cast<uint16_t>(made.size())));
          };
          make_until(before);
          std::atomic<Offset> own{0};
          Offset of_other = 0;
          if (sigsetjmp(steps.out, 1) == 0) {
            steps.Run([&] { own = children.Find(kOwn); },
                      [&] {
                        if (jumps) siglongjmp(steps.out, 1);
                        make_until(before + 2);
                        of_other = children.Find(kOwn);
                        make_until(before + 4);
                      });
          }
          if (steps.WorkIsOver()) break;
          const auto at = [&] {
            return ::testing::Message() << static_cast<int>(kind) << jumps << before << " after instruction "
                                        << steps.step();
          };
          if (jumps)
            own = children.Find(kOwn);
          else
            ASSERT_EQ(of_other, own.load()) << at();
          make_until(before + 8);
          ASSERT_EQ(children.Find(kOwn), own.load()) << at();
          for (size_t i = 0; i < made.size(); ++i)
            ASSERT_EQ(children.Find(static_cast<uint16_t>(i)), made[i]) << i << at();
          made.push_back(own.load());
          children.by_trace = true;
          children.Find(kOwn);
          ASSERT_EQ(std::set<Offset>(made.begin(), made.end()).size(), made.size()) << at();
          // Readers find each.
          if (kind == Child::kRow) {
            size_t in_list = 0;
            for (Offset row = children.stack->rows; row != 0; row = table->At<Row>(row)->next)
              in_list += std::find(made.begin(), made.end(), row) != made.end();
            ASSERT_EQ(in_list, made.size()) << at();
          }
          munmap(table, kBytes);
        }
        EXPECT_GT(runs, 5);
      }
    }
  }
}

}  // namespace
}  // namespace holdfast
