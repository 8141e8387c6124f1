#include "report/analysis/call_tree.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace holdfast {

CallTree::CallTree(const FilteredStacks& stacks, const CallTreeOptions& options)
    : stacks_(&stacks), columns_(stacks.columns()), slots_(stacks.nodes().size(), Profile::kNone) {
  if (options.begin_at.empty()) {
    order_.resize(stacks.size());
    std::iota(order_.begin(), order_.end(), 0);
  } else {
    begins_.resize(stacks.size());
    for (size_t i = 0; i < stacks.size(); ++i) {
      const auto frames = stacks.FramesOf(i);
      const auto at = std::find_if(frames.begin(), frames.end(), [&](uint32_t node) { return options.begin_at[node]; });
      if (at == frames.end()) continue;
      begins_[i] = static_cast<uint32_t>(at - frames.begin());
      order_.push_back(static_cast<uint32_t>(i));
    }
  }
  scratch_.resize(order_.size());
  branches_.push_back({});
  ranges_.push_back({0, order_.size()});
  self_.resize(columns_);
  total_.resize(columns_);
  small_.resize(columns_);
  variance_.resize(columns_);
  uint64_t largest = 0;
  for (size_t c = 0; c < columns_; ++c) {
    for (const uint32_t stack : order_) {
      total_[c] = WrappedSum(total_[c], stacks.ValuesOf(stack)[c]);
      variance_[c] += stacks.VarianceOf(stack, c);
    }
    largest = std::max(largest, Magnitude(stacks.Selected(c)));
  }
  cut_ = static_cast<uint64_t>(std::ceil(static_cast<double>(largest) * options.min_fraction));
  // Depth first, so that a subtree's stacks stay in the cache.
  std::vector<uint32_t> open = {kRoot};
  while (!open.empty()) {
    const uint32_t branch = open.back();
    open.pop_back();
    Expand(branch, options);
    const Branch& made = branches_[branch];
    for (uint32_t i = made.children; i-- > 0;) open.push_back(made.first_child + i);
  }
  ranges_ = {};
  order_ = scratch_ = begins_ = slots_ = slot_of_ = {};
}

void CallTree::Expand(uint32_t branch, const CallTreeOptions& options) {
  const Range range = ranges_[branch];
  const uint32_t depth = branches_[branch].depth;
  const auto ended = [&](uint32_t stack, uint32_t* node) {
    const auto frames = stacks_->FramesOf(stack);
    const size_t begin = begins_.empty() ? 0 : begins_[stack];
    if (begin + depth >= frames.size()) return true;
    *node = options.bottom_up ? frames[begin + depth] : frames[frames.size() - 1 - depth];
    return false;
  };
  // The child of each stack. slots_[node] is a child's number while this branch is expanded.
  std::vector<Child> children;
  std::vector<int64_t> totals;
  std::vector<double> variances;
  slot_of_.resize(range.end - range.begin);
  for (size_t i = range.begin; i < range.end; ++i) {
    const uint32_t stack = order_[i];
    const auto values = stacks_->ValuesOf(stack);
    uint32_t node = 0;
    if (ended(stack, &node)) {
      slot_of_[i - range.begin] = Profile::kNone;
      for (size_t c = 0; c < columns_; ++c) {
        self_[branch * columns_ + c] = WrappedSum(self_[branch * columns_ + c], values[c]);
      }
      continue;
    }
    uint32_t& slot = slots_[node];
    if (slot == Profile::kNone) {
      slot = static_cast<uint32_t>(children.size());
      children.push_back({node});
      totals.resize(totals.size() + columns_);
      variances.resize(variances.size() + columns_);
    }
    slot_of_[i - range.begin] = slot;
    ++children[slot].count;
    for (size_t c = 0; c < columns_; ++c) {
      totals[slot * columns_ + c] = WrappedSum(totals[slot * columns_ + c], values[c]);
      if (stacks_->has_variances()) variances[slot * columns_ + c] += stacks_->VarianceOf(stack, c);
    }
  }
  for (const Child& child : children) slots_[child.node] = Profile::kNone;
  const auto size_of = [&](uint32_t slot) {
    uint64_t size = 0;
    for (size_t c = 0; c < columns_; ++c) size = std::max(size, Magnitude(totals[slot * columns_ + c]));
    return size;
  };
  // Keep the large children, sorted; add up the rest.
  std::vector<uint32_t> kept;
  const bool deep = depth >= options.max_depth;
  for (uint32_t slot = 0; slot < children.size(); ++slot) {
    if (!deep && size_of(slot) >= cut_ && branches_.size() < options.max_branches) {
      kept.push_back(slot);
      continue;
    }
    ++branches_[branch].small;
    for (size_t c = 0; c < columns_; ++c) {
      small_[branch * columns_ + c] = WrappedSum(small_[branch * columns_ + c], totals[slot * columns_ + c]);
    }
  }
  std::sort(kept.begin(), kept.end(), [&](uint32_t a, uint32_t b) {
    const uint64_t a_size = size_of(a), b_size = size_of(b);
    if (a_size != b_size) return a_size > b_size;
    return stacks_->nodes()[children[a].node].name < stacks_->nodes()[children[b].node].name;
  });
  // Group the stacks by child, in their previous order.
  std::vector<size_t> place(children.size(), SIZE_MAX);
  size_t next = range.begin;
  branches_[branch].first_child = static_cast<uint32_t>(branches_.size());
  branches_[branch].children = static_cast<uint32_t>(kept.size());
  for (const uint32_t slot : kept) {
    place[slot] = next;
    branches_.push_back({.node = children[slot].node, .parent = branch, .depth = depth + 1});
    ranges_.push_back({next, next + children[slot].count});
    next += children[slot].count;
    for (size_t c = 0; c < columns_; ++c) {
      total_.push_back(totals[slot * columns_ + c]);
      variance_.push_back(variances[slot * columns_ + c]);
      self_.push_back(0);
      small_.push_back(0);
    }
  }
  std::copy(order_.begin() + static_cast<ptrdiff_t>(range.begin), order_.begin() + static_cast<ptrdiff_t>(range.end),
            scratch_.begin() + static_cast<ptrdiff_t>(range.begin));
  for (size_t i = range.begin; i < range.end; ++i) {
    const uint32_t slot = slot_of_[i - range.begin];
    if (slot != Profile::kNone && place[slot] != SIZE_MAX) order_[place[slot]++] = scratch_[i];
  }
}

}  // namespace holdfast
