// A walk that joins the last one gives the frames that the whole walk gives, whatever is on the stack by then.
#include "sampler/capture/last_walk.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "sampler/capture/little_stack.h"
#include "sampler/capture/row_cache.h"
#include "sampler/capture/stack_trace.h"
#include "sampler/contract/poisson_sampler.h"
#include "tests/unit/anonymous_table.h"
#include "tests/unit/frames.h"

namespace holdfast {
namespace {

class LastWalks : public ::testing::Test {
 protected:
  LastWalks() {
    UseAnonymousTable();
    thread_state = {};
  }
  void TearDown() override { thread_state = {}; }

  // Walks from `caller` in both ways. False: `last_` did not keep it.
  bool Compare(const CallerRegisters& caller) {
    CaptureStack(caller, &thread_state.stack_bounds, &whole_);
    const bool kept = CaptureStack(caller, &thread_state.stack_bounds, last_->trace(), last_.get());
    const std::vector<TaggedPc> expected(whole_.frames, whole_.frames + whole_.depth);
    std::vector<TaggedPc> found;
    if (kept) {
      const StackPath& path = last_->path();
      for (int i = path.depth; i > 0; --i) found.push_back(path.frames[i - 1]);
      uint64_t hash = 0;
      for (int i = 0; i < path.depth; ++i) {
        hash = HashFrame(hash, path.frames[i]);
        EXPECT_EQ(path.hashes[i], hash) << i;
      }
      EXPECT_FALSE(whole_.truncated);
    } else {
      found.assign(last_->trace()->frames, last_->trace()->frames + last_->trace()->depth);
      EXPECT_EQ(last_->trace()->truncated, whole_.truncated);
    }
    EXPECT_EQ(found, expected);
    return kept;
  }
  [[gnu::noinline]] bool Walk() {
    caller_ = HOLDFAST_CALLER();
    LittleStackLeft(kStackForCapture);  // finds out where the thread's stack lies
    return Compare(caller_);
  }

  const std::unique_ptr<LastWalk> last_{new LastWalk()};
  StackTrace whole_;
  CallerRegisters caller_;
};

TEST_F(LastWalks, OnlyTheInnerFramesAreWalkedAnew) {
  Recurse(30, [this] {
    ASSERT_TRUE(Walk());
    EXPECT_EQ(last_->walked(), last_->path().depth);
    for (int inner = 0; inner < 8; ++inner) {
      Recurse(inner, [this] { ASSERT_TRUE(Walk()); });
      ASSERT_TRUE(Walk());
      EXPECT_LE(last_->walked(), 3);
      EXPECT_GT(last_->path().depth, 30);
    }
  });
}

TEST_F(LastWalks, TheSameWalkIsJoinedAtItsCaller) {
  Recurse(5, [this] {
    ASSERT_TRUE(Walk());
    ASSERT_TRUE(Compare(caller_));
    EXPECT_EQ(last_->walked(), 0);
  });
}

// Frames with frame pointers and without, at places where others lay before.
TEST_F(LastWalks, RandomTreesAreWalkedAsAWhole) {
  uint64_t random = 7;
  int left = 20'000, joined = 0;
  const auto walk = [&] {
    if (Walk()) joined += last_->walked() < last_->path().depth;
    --left;
  };
  struct Tree {
    const decltype(walk)& visit;
    uint64_t& random;
    int& left;
    void Grow(int depth) const {  // NOLINT(misc-no-recursion)
      visit();
      if (depth == 0) return;
      for (uint64_t children = NextRandom(&random) % 3; children > 0 && left > 0; --children) {
        const auto grow = [this, depth] { Grow(depth - 1); };
        if (NextRandom(&random) % 2 == 0)
          WithFramePointer(static_cast<int>(NextRandom(&random) % 4) * 16, grow);
        else
          Recurse(static_cast<int>(NextRandom(&random) % 4), grow);
        if (NextRandom(&random) % 3 == 0) visit();
      }
    }
  };
  while (left > 0) Tree{walk, random, left}.Grow(12);
  EXPECT_GT(joined, 10'000);
}

TEST_F(LastWalks, NoWordThatItReadMayBeAnother) {
  Recurse(5, [this] {
    WithFramePointer(100, [this] {
      WithFramePointer(200, [this] {
        Recurse(3, [this] {
          ASSERT_TRUE(Walk());
          struct Word {
            volatile uintptr_t* place;
            uintptr_t word;
          };
          std::vector<Word> words;
          for (const auto& [place, word] : last_->words())
            words.push_back({reinterpret_cast<volatile uintptr_t*>(place), word});
          ASSERT_GT(words.size(), 12u);
          for (const Word& each : words) {
            ASSERT_EQ(*each.place, each.word);
            for (const int bit : {0, 3, 5, 17, 40, 63}) {
              ASSERT_TRUE(Compare(caller_));
              *each.place = each.word ^ uintptr_t { 1 } << bit;
              Compare(caller_);
              EXPECT_GT(last_->walked(), 0) << "word " << &each - words.data() << ", bit " << bit;
              *each.place = each.word;
            }
            // A return address of 0 is an end, too, while it is there.
            *each.place = 0;
            Compare(caller_);
            *each.place = each.word;
            Compare(caller_);
          }
        });
      });
    });
  });
}

// Whichever word of the stack is another one: what the whole walk finds then is what the joined one finds.
TEST_F(LastWalks, AnyWordOfTheStackMayBeAnother) {
  for (int inner = 0; inner < 4; ++inner) {
    WithFramePointer(100, [this, inner] {
      WithFramePointer(200, [this, inner] {
        Recurse(inner, [this] {
          auto* const test = this;  // outer frames have the other one
          ASSERT_TRUE(test->Walk());
          // Those of the frames between here and the outermost ones; this one's own words are in use.
          const uintptr_t begin = test->last_->words().back().place + sizeof(uintptr_t);
          int others = 0;
          for (uintptr_t at = begin; at < begin + 800; at += sizeof(uintptr_t)) {
            auto* place = reinterpret_cast<volatile uintptr_t*>(at);
            for (const uintptr_t change : {uintptr_t{0x20}, uintptr_t{0x1000}}) {
              const uintptr_t before = *place;
              ASSERT_TRUE(test->Compare(test->caller_));
              *place = before ^ change;
              others += !test->Compare(test->caller_) || test->last_->walked() > 0;
              *place = before;
            }
          }
          EXPECT_GE(others, 6);
        });
      });
    });
  }
}

TEST_F(LastWalks, ItsStartMayBeAnyOther) {
  Recurse(4, [this] {
    WithFramePointer(64, [this] {
      ASSERT_TRUE(Walk());
      const CallerRegisters real = caller_;
      for (const intptr_t by : {-4096, -64, -16, -8, -1, 1, 8, 16, 64, 512}) {
        for (uintptr_t CallerRegisters::*which : {&CallerRegisters::pc, &CallerRegisters::sp, &CallerRegisters::fp}) {
          CallerRegisters other = real;
          other.*which += static_cast<uintptr_t>(by);
          Compare(other);
          Compare(real);
        }
      }
    });
  });
}

TEST_F(LastWalks, RowsThatWereForgottenForgetIt) {
  Recurse(3, [this] {
    for (void (*forget)() : {&ForgetUnwindRows, &ForgetUnloadableRows}) {
      ASSERT_TRUE(Walk());
      ASSERT_TRUE(Walk());
      EXPECT_LT(last_->walked(), last_->path().depth);
      forget();
      Walk();
      EXPECT_EQ(last_->walked(), whole_.depth);
    }
  });
}

TEST_F(LastWalks, DeepStacksAreTruncatedAsUsual) {
  Recurse(kMaxDepth - 60, [this] {
    ASSERT_TRUE(Walk());
    for (int inner = 0; inner < 90; inner += 5) Recurse(inner, [this] { Walk(); });
    ASSERT_TRUE(Walk());
    EXPECT_LE(last_->walked(), 3);
  });
}

// Another stack, as a coroutine's, may be gone the next time.
TEST_F(LastWalks, AStackThatMayGoIsNeitherKeptNorRead) {
  Recurse(3, [this] {
    ASSERT_TRUE(Walk());
    thread_state.stack_bounds = {};
    EXPECT_FALSE(Compare(caller_));
    EXPECT_EQ(last_->walked(), whole_.depth);
  });
}

}  // namespace
}  // namespace holdfast
