// Finds the owner of most of a profile, for the line `biggest` of `holdfast top`, and with the same rule for the page
// (report/page/web/src/core/owners.ts; a test compares both). The owner of a stack is the first function from the leaf that
// is not plumbing (report/analysis/profiles/plumbing.h).
//
//     main ─ Serve ┬ Login ── Sessions::Add ── std::map::emplace      Sessions::Add: 60MiB, 60%, mostly for Login
//                  └ Logout
//
// The direct owner rarely explains the memory of a C program. C has no standard containers, so next to the allocator is
// the program's own string or table, which everything uses. There the *branch* that leads to a stack counts:
//
//     main ─ processCommand ─ call ┬ hsetCommand ── hashTypeSet ┬ sdsdup ── _sdsnewlen ── zmalloc
//                                  ├ pushGenericCommand ── …    └ dictAdd ── …
//                                  └ setCommand ── … ── sdsdup ── _sdsnewlen ── zmalloc
//     hsetCommand: 50MiB, 32%, mostly by _sdsnewlen
//
//   - walk from the outermost function inwards, without plumbing, while nine tenths of a function's value come from the
//     previous function (_sdsnewlen is called from everywhere: the walk ends there)
//   - a function that gets a quarter to three quarters of the previous one's value is a branch; the innermost one on the walk
//     counts, if its value without inner branches is at least three quarters of its total
//   - functions with more than nine tenths, or less than a tenth, of the total are no branches
//   - the largest branch replaces the largest owner if both are C functions, and the branch has at least half as much
#ifndef HOLDFAST_REPORT_ANALYSIS_OWNERS_H_
#define HOLDFAST_REPORT_ANALYSIS_OWNERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/flat_table.h"
#include "report/analysis/locks/wait_rank.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/analysis/profiles/plumbing.h"

namespace holdfast {

struct Biggest {
  std::string name;
  int64_t value = 0;
  // For an owner: the function responsible for at least half of it; for a branch: its largest owner. "" = none.
  std::string other;
  bool is_branch = false;  // a branch of C code, not the innermost function
};

// Whether a name is of code in C, such as "hashTypeSet" and "inflate.part.0", and not of C++ or Rust.
bool IsC(std::string_view name);

// For the first column. All arguments must outlive this object.
class Owners {
 public:
  // `ranks`: for each sample, or empty. Waits without a holder have no owner.
  Owners(const FilteredStacks& stacks, const std::vector<WaitRank>& ranks, Plumbing* plumbing);

  std::optional<Biggest> BiggestOf(const FlatTable& flat, bool with_branches) const;
  int64_t unheld() const { return unheld_; }
  int64_t idle() const { return idle_; }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;  // only plumbing, or no lock
  struct Sum {
    StringId function = 0;  // its name; 0 = unnamed code of the object
    uint32_t mapping = 0;
    int64_t value = 0;
    size_t sample = 0;  // one of its samples
  };
  std::string NameOf(uint32_t owner) const;
  std::string MainCallerOf(uint32_t owner, const FlatTable& flat) const;
  std::optional<Biggest> LargestBranch(const FlatTable& flat) const;

  const FilteredStacks& stacks_;
  Plumbing* plumbing_;
  std::vector<Sum> sums_;
  std::vector<uint32_t> of_;         // index into sums_, by stack
  std::vector<bool> is_plumbing_;    // by node
  std::vector<bool> unheld_stacks_;  // by stack: waits for something without a holder
  int64_t unheld_ = 0, idle_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_OWNERS_H_
