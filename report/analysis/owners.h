// Whose most of a profile is, in one sentence: the line `biggest` of `holdfast top`, and of the page by the same rule
// (report/web/src/core/owners.ts; a test holds the two together). A stack is its owner's: the first function from the leaf on
// that is no plumbing (report/profiles/plumbing.h).
//
//     main ─ Serve ┬ Login ── Sessions::Add ── std::map::emplace      Sessions::Add: 60MiB, 60%, mostly for Login
//                  └ Logout
//
// The memory of a C program is rarely its owner's: C has no standard containers, so what lies next to the allocator is the
// program's own string or table, which everything is made of. There what counts is the *branch* that a stack came by:
//
//     main ─ processCommand ─ call ┬ hsetCommand ── hashTypeSet ┬ sdsdup ── _sdsnewlen ── zmalloc
//                                  ├ pushGenericCommand ── …    └ dictAdd ── …
//                                  └ setCommand ── … ── sdsdup ── _sdsnewlen ── zmalloc
//     hsetCommand: 50MiB, 32%, mostly by _sdsnewlen
//
//   - from the outermost function inwards, plumbing left out, as long as nine tenths of a function come from the one before
//     it (_sdsnewlen comes from everywhere: there the way ends)
//   - a function to which a quarter to three quarters of the one before it go is a branch; the innermost one on the way counts,
//     if what it has in it, inner branches apart, is three quarters of its total
//   - functions that more than nine tenths of everything, or less than a tenth, goes through are none
//   - the largest branch is said instead of the largest owner where both are C's, and it has at least half as much
#ifndef HOLDFAST_REPORT_ANALYSIS_OWNERS_H_
#define HOLDFAST_REPORT_ANALYSIS_OWNERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/analysis/flat_table.h"
#include "report/analysis/wait_rank.h"
#include "report/profiles/filtered_stacks.h"
#include "report/profiles/plumbing.h"

namespace holdfast {

struct Biggest {
  std::string name;
  int64_t value = 0;
  std::string other;       // of an owner: for whom at least half of it was; of a branch: its largest owner. "" = none
  bool is_branch = false;  // of code in C, not the innermost function
};

// Of the first column. All arguments outlive it.
class Owners {
 public:
  // `ranks`: of each sample, or empty. What nobody holds has no owner.
  Owners(const FilteredStacks& stacks, const std::vector<WaitRank>& ranks, Plumbing* whose);

  std::optional<Biggest> BiggestOf(const FlatTable& flat, bool with_branches) const;
  int64_t unheld() const { return unheld_; }
  int64_t idle() const { return idle_; }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;  // all plumbing, or no lock
  struct Sum {
    StringId function = 0;  // its name; 0 = none, of the object
    uint32_t mapping = 0;
    int64_t value = 0;
    size_t sample = 0;  // one of its
  };
  std::string NameOf(uint32_t owner) const;
  std::string MostlyFor(uint32_t owner) const;
  std::optional<Biggest> LargestBranch(const FlatTable& flat) const;

  const FilteredStacks& stacks_;
  Plumbing* whose_;
  std::vector<Sum> sums_;
  std::vector<uint32_t> of_;         // by stack: index into sums_
  std::vector<bool> is_plumbing_;    // by node
  std::vector<bool> unheld_stacks_;  // by stack: waits for what nobody holds
  int64_t unheld_ = 0, idle_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_OWNERS_H_
