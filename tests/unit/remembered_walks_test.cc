// A walk that is remembered is taken for the same only where it would be: any word that it read, its start or the unwind rows
// being others, it is made anew.
#include "sampler/capture/remembered_walks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "sampler/capture/sample_stack.h"
#include "tests/unit/anonymous_table.h"
#include "tests/unit/frames.h"

namespace holdfast {
namespace {

class RememberedWalks : public ::testing::Test {
 protected:
  RememberedWalks() {
    UseAnonymousTable();
    thread_state = {};
    thread_state.owner = 1;
    memory_ = WalkMemory::Make(thread_state);
  }
  void TearDown() override { thread_state = {}; }

  // Walks from here and keeps the walk; null where it is none to be kept.
  [[gnu::noinline]] RememberedWalk* Walk() {
    caller_ = HOLDFAST_CALLER();
    if (find_) return memory_->Find(caller_);
    LittleStackLeft(kStackForCapture);  // finds out where the thread's stack lies
    CaptureStack(caller_, &thread_state.stack_bounds, &trace_);
    bool was_searched;
    return WalkAgain()
               ? memory_->Keep(caller_, memory_->SetOfLast(caller_, &was_searched), 42, *LabelWord(thread_state))
               : nullptr;
  }
  [[gnu::noinline]] static RememberedWalk* AllocatesForAll() {
    RememberedWalk* walk = fixture_->Walk();
    asm volatile("" ::: "memory");
    return walk;
  }
  template <int i>
  [[gnu::noinline]] static RememberedWalk* Caller() {
    RememberedWalk* walk = AllocatesForAll();
    asm volatile("" ::"r"(i) : "memory");  // no two of them are one
    return walk;
  }
  bool WalkAgain() {
    return CaptureStack(caller_, &thread_state.stack_bounds, memory_->last().trace(), &memory_->last());
  }

  static inline RememberedWalks* fixture_;
  bool find_ = false;
  WalkMemory* memory_;
  CallerRegisters caller_;
  StackTrace trace_;
};

int Count(const RememberedWalk* walk) { return walk->count; }

// The words, the innermost one first.
template <typename Visit>
void ForEachWord(const RememberedWalk& walk, Visit visit) {
  const size_t missing = -size_t{walk.count} % PlacedWords::kCount;
  for (size_t i = missing; i < missing + walk.count; ++i) {
    const PlacedWords& placed = walk.words[i / PlacedWords::kCount];
    visit(placed.places[i % PlacedWords::kCount], placed.words[i % PlacedWords::kCount]);
  }
}

TEST_F(RememberedWalks, TheSameWalkIsFound) {
  Recurse(12, [this] {
    ASSERT_NE(Walk(), nullptr);
    const RememberedWalk* found = memory_->Find(caller_);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->stack, 42u);
    EXPECT_GE(Count(found), trace_.depth - 1);
  });
}

TEST_F(RememberedWalks, NoWordThatItReadMayBeAnother) {
  std::set<size_t> half;  // as many words as fill all, and half of one more
  const auto compare = [this, &half] {
    WithFramePointer(100, [this, &half] {
      WithFramePointer(200, [this, &half] {
        RememberedWalk* walk = Walk();
        ASSERT_NE(walk, nullptr);
        ASSERT_TRUE(walk->Holds(caller_));
        half.insert(walk->count % PlacedWords::kCount);
        ForEachWord(*walk, [&](uint16_t at, uintptr_t word) {
          auto* place = reinterpret_cast<volatile uintptr_t*>(caller_.sp) + at;
          ASSERT_EQ(*place, word);
          for (const int bit : {0, 5, 17, 40, 63}) {
            *place = *place ^ uintptr_t { 1 } << bit;
            const bool holds = walk->Holds(caller_);
            *place = *place ^ uintptr_t { 1 } << bit;
            EXPECT_FALSE(holds) << "word at " << at << ", bit " << bit;
          }
        });
        EXPECT_TRUE(walk->Holds(caller_));
      });
    });
  };
  for (int depth = 5; depth < 13; ++depth) Recurse(depth, compare);
  EXPECT_EQ(half.size(), 2u);
}

// Every return address is compared, and every saved frame pointer by which an outer frame is found.
TEST_F(RememberedWalks, AllReturnAddressesAreAmongTheWords) {
  Recurse(9, [this] {
    const RememberedWalk* walk = Walk();
    ASSERT_NE(walk, nullptr);
    for (int i = 1; i < trace_.depth; ++i) {
      bool compared = false;
      ForEachWord(*walk, [&](uint16_t, uintptr_t word) { compared |= word == (trace_.frames[i] & kPcMask); });
      EXPECT_TRUE(compared) << "frame " << i;
    }
  });
}

TEST_F(RememberedWalks, NorMayTheLabelsOfItsThread) {
  Recurse(9, [this] {
    ASSERT_NE(Walk(), nullptr);
    memory_->KeepLabelsApart();
    EXPECT_EQ(memory_->Find(caller_), nullptr) << "it was kept without them";
    for (const uint16_t labels : {0, 3, 0x8000}) {
      thread_state.labels = labels;
      const RememberedWalk* walk = Walk();
      ASSERT_NE(walk, nullptr);
      EXPECT_TRUE(walk->Holds(caller_));
      for (const uint16_t others : {0, 1, 3, 0x8000}) {
        thread_state.labels = others;
        EXPECT_EQ(walk->Holds(caller_), others == labels) << labels << " " << others;
      }
    }
    thread_state.labels = 0;
  });
}

// Two words a frame and the labels: as many as there is room for, and one more.
TEST_F(RememberedWalks, TheDeepestStacksHaveRoomForLabels) {
  memory_->KeepLabelsApart();
  for (int depth = 40; depth < 130; ++depth) {
    Recurse(depth, [this] {
      const RememberedWalk* walk = Walk();
      if (walk == nullptr) return;
      EXPECT_LE(Count(walk), RememberedWalk::kMax);
      EXPECT_TRUE(walk->Holds(caller_));
    });
  }
}

TEST_F(RememberedWalks, ItsStartMayNotBeAnother) {
  WithFramePointer(64, [this] {
    const RememberedWalk* walk = Walk();
    ASSERT_NE(walk, nullptr);
    CallerRegisters other = caller_;
    other.pc += 1;
    EXPECT_FALSE(walk->Holds(other));
    other = caller_;
    other.sp -= 16;
    EXPECT_FALSE(walk->Holds(other));
    other = caller_;
    other.fp += 16;
    EXPECT_EQ(walk->Holds(other), !walk->uses_fp);
  });
}

TEST_F(RememberedWalks, RowsThatWereForgottenForgetIt) {
  Recurse(3, [this] {
    for (void (*forget)() : {&ForgetUnwindRows, &ForgetUnloadableRows}) {
      const RememberedWalk* walk = Walk();
      ASSERT_NE(walk, nullptr);
      EXPECT_TRUE(walk->Holds(caller_));
      forget();
      EXPECT_FALSE(walk->Holds(caller_));
    }
  });
}

// Not a word is read: the stack on which it lay may be gone.
TEST_F(RememberedWalks, AChildsThreadsFindNoneOfItsParents) {
  Recurse(3, [this] {
    ASSERT_NE(Walk(), nullptr);
    ASSERT_NE(memory_->Find(caller_), nullptr);
    memory_->ForgetStarts();
    EXPECT_EQ(memory_->Find(caller_), nullptr);
  });
}

// One function that allocates for all: of the walks that begin there each is found, whichever function has called it.
TEST_F(RememberedWalks, ManyCallersOfOneFunctionAreFound) {
  fixture_ = this;
  [this]<int... i>(std::integer_sequence<int, i...>) {
    RememberedWalk* (*const callers[])() = {&Caller<i>...};
    std::set<RememberedWalk*> kept;
    for (const bool find : {false, true}) {
      find_ = find;
      for (auto* caller : callers) {
        RememberedWalk* walk = caller();
        EXPECT_NE(walk, nullptr);
        EXPECT_EQ(kept.insert(walk).second, !find);
      }
    }
  }
  (std::make_integer_sequence<int, 24>());
}

// In a loop: what comes after a walk depends on those before it. So each is found without a look at where it began.
TEST_F(RememberedWalks, TheUsualNextFrameIsComparedFirst) {
  fixture_ = this;
  RememberedWalk* (*const callers[])() = {&Caller<0>, &Caller<1>, &Caller<2>};
  std::vector<RememberedWalk*> kept;
  std::vector<int> in_turn = {0, 1, 2};
  for (int round = 0; round < 20; ++round) in_turn.insert(in_turn.end(), {0, 1, 0, 2});
  for (const int caller : in_turn) {
    find_ = kept.size() == std::size(callers);
    RememberedWalk* const walk = callers[caller]();
    ASSERT_NE(walk, nullptr);
    if (!find_) kept.push_back(walk);
    EXPECT_EQ(walk, kept[static_cast<size_t>(caller)]);
  }
  for (const int other : {1, 2}) {
    const uint32_t place = memory_->PlaceOf(*kept[static_cast<size_t>(other)]);
    EXPECT_THAT(kept[0]->nexts, ::testing::Contains(place / alignof(RememberedWalk)));
  }
  // The numbers distinguish the walks before this one.
  std::set<int> numbers;
  for (const RememberedWalk* walk : kept) numbers.insert(walk->number % RememberedWalk::kNexts);
  EXPECT_EQ(numbers.size(), kept.size());
}

TEST_F(RememberedWalks, AFullSetKeepsTheWalksThatAreFound) {
  Recurse(3, [this] {
    RememberedWalk* const found = Walk();
    ASSERT_NE(found, nullptr);
    const CallerRegisters start = caller_;
    bool was_searched;
    const size_t set = memory_->SetOfLast(caller_, &was_searched);
    ASSERT_EQ(memory_->Find(start), found);
    std::vector<const RememberedWalk*> others;
    Recurse(5, [&] {
      const auto keep_more = [&] {
        for (int i = 0; i < WalkMemory::kWays; ++i) {
          ASSERT_NE(Walk(), nullptr);
          others.push_back(memory_->Keep(caller_, set, 43, *LabelWord(thread_state)));
        }
      };
      keep_more();
      EXPECT_TRUE(found->Holds(start));
      EXPECT_EQ(others.front(), others.back()) << "seven others have room beside it";
      keep_more();
      EXPECT_FALSE(found->Holds(start)) << "it was not found since";
    });
  });
}

TEST_F(RememberedWalks, OnlyAPathThatWasWalkedShortlyBeforeIsExpected) {
  const CallerRegisters here{0x1000, 0x7000, 0};
  const size_t one = 3, other = 4;
  const uint64_t path = 0x0123456789abcdef, other_path = 0x1123456789abcdef;
  EXPECT_FALSE(memory_->Expects(one, here, path));
  EXPECT_TRUE(memory_->Expects(one, here, path));
  EXPECT_FALSE(memory_->Expects(one, here, other_path)) << "recursion comes back to a place by many paths";
  EXPECT_FALSE(memory_->Expects(other, here, path));
  EXPECT_TRUE(memory_->Expects(one, here, other_path)) << "two in turn";
  for (uint64_t i = 0; i < 4; ++i) EXPECT_FALSE(memory_->Expects(one, here, i << 20));
  EXPECT_FALSE(memory_->Expects(one, here, path));
}

TEST_F(RememberedWalks, ADeepStackIsNotKept) {
  Recurse(RememberedWalk::kMax + 5, [this] { EXPECT_EQ(Walk(), nullptr); });
}

// A thread's own block must be known: another stack, as a coroutine's, may be gone the next time.
TEST_F(RememberedWalks, AStackThatMayGoIsNotKept) {
  Recurse(3, [this] {
    ASSERT_NE(Walk(), nullptr);
    ASSERT_TRUE(WalkAgain());
    thread_state.stack_bounds = {};
    EXPECT_FALSE(WalkAgain());
  });
}

TEST_F(RememberedWalks, EachSizeClassHasItsPlaceAndTheNewerOfTwoKeepsIt) {
  const auto row_of = [](uint16_t size_class) {
    Row* row = CurrentTable()->New<Row>();
    row->size_class = size_class;
    return CurrentTable()->OffsetOf(row);
  };
  constexpr uint16_t kTwin = 7 + RememberedWalk::kRows;
  RememberedWalk* walk = Walk();
  ASSERT_NE(walk, nullptr);
  const Offset seven = row_of(7), eight = row_of(8), twin = row_of(kTwin);
  EXPECT_EQ(walk->RowFor(CurrentTable(), 7), 0u);
  walk->RememberRow(7, seven);
  walk->RememberRow(8, eight);
  EXPECT_EQ(walk->RowFor(CurrentTable(), 7), seven);
  EXPECT_EQ(walk->RowFor(CurrentTable(), 8), eight);
  EXPECT_EQ(walk->RowFor(CurrentTable(), kTwin), 0u);
  walk->RememberRow(kTwin, twin);
  EXPECT_EQ(walk->RowFor(CurrentTable(), 7), 0u);
  EXPECT_EQ(walk->RowFor(CurrentTable(), 8), eight);
  EXPECT_EQ(walk->RowFor(CurrentTable(), kTwin), twin);
  walk->ForgetRow(8);
  EXPECT_EQ(walk->RowFor(CurrentTable(), 8), 0u);
}

TEST_F(RememberedWalks, AKnownRowIsThatOfItsPathSizeClassAndGeneration) {
  Recurse(3, [this] {
    ASSERT_NE(Walk(), nullptr);
    const uint64_t hash = memory_->last().path().HashWith(0);
    EXPECT_EQ(memory_->FindKnownRow(hash, 7), nullptr);
    memory_->RememberRow(hash, 7, 70, 42);
    ASSERT_NE(memory_->FindKnownRow(hash, 7), nullptr);
    EXPECT_EQ(memory_->FindKnownRow(hash, 7)->row, 70u);
    EXPECT_EQ(memory_->FindKnownRow(hash, 7)->stack, 42u);
    EXPECT_EQ(memory_->FindKnownRow(hash, 8), nullptr);
    EXPECT_EQ(memory_->FindKnownRow(hash ^ 1, 7), nullptr);
    ForgetUnwindRows();
    CaptureStack(caller_, &thread_state.stack_bounds, &trace_);  // finds the rows again
    ASSERT_TRUE(WalkAgain());
    EXPECT_EQ(memory_->FindKnownRow(hash, 7), nullptr) << "of another table, perhaps";
  });
}

TEST_F(RememberedWalks, AThreadWithoutANumberHasNoMemory) {
  thread_state.owner = 0;
  EXPECT_EQ(WalkMemory::Make(thread_state), nullptr);
  EXPECT_EQ(WalkMemory::Of(thread_state), nullptr);
}

}  // namespace
}  // namespace holdfast
