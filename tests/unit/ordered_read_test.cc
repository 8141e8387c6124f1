// A program adds records to a table while it is copied. The model of a processor loads the words of a read in any order.
#include "report/observe/table/ordered_read.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace holdfast {
namespace {

// A table with one list of stacks, each with a list of rows, as in layout.h. Words have 8 bytes, and an offset is a word's
// number.
//
//     word 0: newest stack        stack: next, newest row, content        row: next, content
//
// The program makes one store a step, in its own order, which release stores preserve.
class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed), words_(kWords) {}

  void Step() {
    if (stores_.empty() && !Begin()) return;
    words_[stores_.front().first] = stores_.front().second;
    stores_.erase(stores_.begin());
    if (stores_.empty()) ++(is_row_ ? rows_ : stacks_);
  }

  uint64_t word(size_t at) const { return words_[at]; }
  size_t words() const { return words_.size(); }
  uint64_t stacks() const { return stacks_; }
  uint64_t rows() const { return rows_; }
  static uint64_t ContentAt(uint64_t at) { return at * 0x9e3779b97f4a7c15 | 1; }

 private:
  static constexpr size_t kWords = 2048;  // four parts

  bool Begin() {
    if (free_ + 3 > words_.size()) return false;
    const uint64_t at = free_;
    is_row_ = !places_.empty() && random_() % 4 != 0;
    if (is_row_) {
      const uint64_t head = places_[random_() % places_.size()] + 1;
      stores_ = {{at, words_[head]}, {at + 1, ContentAt(at)}, {head, at}};
      free_ += 2;
    } else {
      stores_ = {{at, words_[0]}, {at + 2, ContentAt(at)}, {0, at}};
      places_.push_back(at);
      free_ += 3;
    }
    // The program fills a record in any order, and then publishes it.
    if (random_() % 2 == 0) std::swap(stores_[0], stores_[1]);
    return true;
  }

  std::mt19937_64 random_;
  std::vector<uint64_t> words_;
  std::vector<std::pair<uint64_t, uint64_t>> stores_;  // those of the record that is being made
  std::vector<uint64_t> places_;                       // of stacks
  uint64_t free_ = 1, stacks_ = 0, rows_ = 0;
  bool is_row_ = false;
};

// A processor that loads the words of one read in any order. The program makes a few steps meanwhile. A fence ends the read.
class Processor {
 public:
  Processor(Program* program, uint64_t seed) : program_(*program), random_(seed) {}

  bool Read(char* to, uint64_t start, uint64_t end) {
    std::vector<uint64_t> order((end - start) / 8);
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    for (const uint64_t i : order) {
      const uint64_t word = program_.word(start / 8 + i);
      memcpy(to + i * 8, &word, sizeof word);
      // A read of 512 words takes about 2 steps, so that every third read or so sees no record.
      if (random_() % 256 == 0) program_.Step();
    }
    return true;
  }

 private:
  Program& program_;
  std::mt19937_64 random_;
};

struct Found {
  uint64_t stacks = 0, rows = 0, damaged = 0;
};

Found Walk(const std::vector<uint64_t>& copy) {
  Found found;
  for (uint64_t stack = copy[0]; stack != 0; stack = copy[stack]) {
    ++found.stacks;
    found.damaged += copy[stack + 2] != Program::ContentAt(stack);
    for (uint64_t row = copy[stack + 1]; row != 0; row = copy[row]) {
      ++found.rows;
      found.damaged += copy[row + 1] != Program::ContentAt(row);
    }
  }
  return found;
}

template <typename Copy>
uint64_t DamagedCopies(Copy copy_by) {
  uint64_t damaged = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Program program(seed);
    Processor processor(&program, seed + 1000);
    for (uint64_t steps = seed * 2; steps > 0; --steps) program.Step();
    const uint64_t stacks = program.stacks(), rows = program.rows();
    std::vector<uint64_t> copy(program.words());
    copy_by(&processor, reinterpret_cast<char*>(copy.data()), copy.size() * 8);
    const Found found = Walk(copy);
    damaged += found.damaged != 0 || found.stacks < stacks || found.rows < rows;
  }
  return damaged;
}

TEST(OrderedRead, ARecordOfWhichTheCopyHasTheOffsetIsWhole) {
  const auto checked = [](Processor* processor, char* to, uint64_t bytes) {
    const auto read = [processor](char* into, uint64_t start, uint64_t end) {
      return processor->Read(into, start, end);
    };
    EXPECT_TRUE(CopyUpwardsAndCheck(read, to, 0, bytes));
  };
  EXPECT_EQ(DamagedCopies(checked), 0u);
}

// The model finds what the checks are for.
TEST(OrderedRead, OneReadOfEachPartIsNotEnough) {
  const auto once = [](Processor* processor, char* to, uint64_t bytes) {
    for (uint64_t start = 0; start < bytes; start += 4096) processor->Read(to + start, start, start + 4096);
  };
  EXPECT_GT(DamagedCopies(once), 10u);
}

TEST(OrderedRead, ATruncatedFileIsAnError) {
  char copy[8192];
  const auto read = [](char*, uint64_t, uint64_t end) { return end <= 4096; };
  EXPECT_TRUE(CopyUpwardsAndCheck(read, copy, 0, 4096));
  EXPECT_FALSE(CopyUpwardsAndCheck(read, copy, 0, 4100));
}

}  // namespace
}  // namespace holdfast
