// The flat table of nodes: what `top` prints, and what every other view takes its percentages from.
//
// self   what a node used directly: it stands at the leaf of the stack (innermost inlined function there)
// total  what it and all that it called used; a node that stands in a stack twice (recursion) counts once
// Σ self over all nodes = the selected total. Any thread once made; 1,000,000 stacks of 30 frames: 0.1 s.
#ifndef HOLDFAST_REPORT_ANALYSIS_FLAT_TABLE_H_
#define HOLDFAST_REPORT_ANALYSIS_FLAT_TABLE_H_

#include <cstdint>
#include <vector>

#include "report/profiles/filtered_stacks.h"

namespace holdfast {

class FlatTable {
 public:
  explicit FlatTable(const FilteredStacks& stacks);

  int64_t Self(uint32_t node, size_t column = 0) const { return self_[node * columns_ + column]; }
  int64_t Total(uint32_t node, size_t column = 0) const { return total_[node * columns_ + column]; }
  double SelfVariance(uint32_t node, size_t column = 0) const {
    return self_variance_.empty() ? 0 : self_variance_[node * columns_ + column];
  }
  double TotalVariance(uint32_t node, size_t column = 0) const {
    return total_variance_.empty() ? 0 : total_variance_[node * columns_ + column];
  }

  // Largest first, by self, or by total; then by the other one; then by name. Nodes of zeros are left out.
  std::vector<uint32_t> Sorted(bool by_total, size_t column = 0) const;

 private:
  void Count(size_t column);

  const FilteredStacks* stacks_;
  size_t columns_;
  std::vector<int64_t> self_, total_;
  std::vector<double> self_variance_, total_variance_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_FLAT_TABLE_H_
