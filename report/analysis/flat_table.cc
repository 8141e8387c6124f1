#include "report/analysis/flat_table.h"

#include <algorithm>
#include <utility>

namespace holdfast {

FlatTable::FlatTable(const FilteredStacks& stacks) : stacks_(&stacks), columns_(stacks.columns()) {
  const size_t cells = stacks.nodes().size() * columns_;
  self_.resize(cells);
  total_.resize(cells);
  if (stacks.has_variances()) {
    self_variance_.resize(cells);
    total_variance_.resize(cells);
  }
  for (size_t column = 0; column < columns_; ++column) Count(column);
}

void FlatTable::Count(size_t column) {
  // Together in memory, because each frame of each stack uses them.
  struct Counted {
    uint32_t seen = 0;  // number of the last stack that counted the node
    int64_t total = 0;
    double variance = 0;
  };
  std::vector<Counted> counted(stacks_->nodes().size());
  for (uint32_t i = 0; i < stacks_->size(); ++i) {
    const auto frames = stacks_->FramesOf(i);
    const int64_t value = stacks_->ValuesOf(i)[column];
    const double variance = stacks_->VarianceOf(i, column);
    for (const uint32_t node : frames) {
      Counted& of_node = counted[node];
      if (of_node.seen == i + 1) continue;
      of_node = {i + 1, WrappedSum(of_node.total, value), of_node.variance + variance};
    }
    if (frames.empty()) continue;
    const size_t leaf = frames[0] * columns_ + column;
    self_[leaf] = WrappedSum(self_[leaf], value);
    if (!self_variance_.empty()) self_variance_[leaf] += variance;
  }
  for (size_t node = 0; node < counted.size(); ++node) {
    total_[node * columns_ + column] = counted[node].total;
    if (!total_variance_.empty()) total_variance_[node * columns_ + column] = counted[node].variance;
  }
}

std::vector<uint32_t> FlatTable::Sorted(bool by_total, size_t column) const {
  std::vector<uint32_t> sorted;
  for (uint32_t node = 0; node < stacks_->nodes().size(); ++node) {
    if (Self(node, column) != 0 || Total(node, column) != 0) sorted.push_back(node);
  }
  std::sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) {
    const auto key = [&](uint32_t node) {
      const uint64_t self = Magnitude(Self(node, column)), total = Magnitude(Total(node, column));
      return by_total ? std::pair(total, self) : std::pair(self, total);
    };
    const auto a_key = key(a), b_key = key(b);
    return a_key != b_key ? a_key > b_key : stacks_->nodes()[a].name < stacks_->nodes()[b].name;
  });
  return sorted;
}

}  // namespace holdfast
