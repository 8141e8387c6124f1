#include "report/holders/holder_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace holdfast {
namespace {

// The part of the depth-first tree that is already processed, with paths compressed.
class ProcessedForest {
 public:
  ProcessedForest(BigArray<uint32_t>* ancestor, BigArray<uint32_t>* label, const BigArray<uint32_t>& semi)
      : ancestor_(*ancestor), label_(*label), semi_(semi) {}

  // Returns the node with the smallest semidominator on the path from `node` to its processed root. Nodes from
  // `first_processed` on are processed.
  uint32_t Evaluate(uint32_t node, uint32_t first_processed) {
    if (ancestor_[node] < first_processed) return label_[node];
    path_.clear();
    do {
      path_.push_back(node);
      node = ancestor_[node];
    } while (ancestor_[node] >= first_processed);
    uint32_t above = node;
    while (!path_.empty()) {
      node = path_.back();
      path_.pop_back();
      ancestor_[node] = ancestor_[above];
      if (semi_[label_[above]] < semi_[label_[node]]) label_[node] = label_[above];
      above = node;
    }
    return label_[node];
  }

 private:
  BigArray<uint32_t>&ancestor_, &label_;
  const BigArray<uint32_t>& semi_;
  std::vector<uint32_t> path_;
};

}  // namespace

absl::Status WhyIncomplete(const ScanBudget& budget, uint64_t blocks) {
  if (budget.stop.stop_requested()) return absl::CancelledError("the search was ended");
  return absl::ResourceExhaustedError(absl::StrCat("the scan needs more than ", budget.most_bytes >> 20, " MiB for ",
                                                   blocks, " blocks. Allow more with --scan-memory"));
}

// Returns whether the scan must end. Asks once in kAskEvery steps.
bool HolderGraph::IsEnding(uint64_t step) const { return step % kAskEvery == 0 && budget_->stop.stop_requested(); }

bool HolderGraph::Begin(uint32_t blocks, uint64_t most_pointers, ScanBudget* budget) {
  blocks_ = blocks;
  budget_ = budget;
  most_pointers = std::min<uint64_t>(most_pointers + kMaxHolders * uint64_t{16}, kNone - 1);
  return to_.Reserve(most_pointers, budget) && start_.Reserve(uint64_t{blocks} + kMaxHolders + 2, budget);
}

bool HolderGraph::AddPointer(uint32_t block, uint32_t to) {
  for (; next_node_ <= block; ++next_node_) {
    if (!start_.Add(static_cast<uint32_t>(to_.size()))) return false;
  }
  return to_.Add(to);
}

bool HolderGraph::AddHolder(const std::vector<uint32_t>& to) {
  for (; next_node_ <= blocks_ + holders_; ++next_node_) {
    if (!start_.Add(static_cast<uint32_t>(to_.size()))) return false;
  }
  if (holders_ >= kMaxHolders) return false;
  ++holders_;
  for (const uint32_t block : to) {
    if (!to_.Add(block)) return false;
  }
  return true;
}

std::span<const uint32_t> HolderGraph::PointersOf(uint32_t block) const {
  if (size_t{block} >= start_.size()) return {};  // the last blocks have none
  const uint64_t end = size_t{block} + 1 < start_.size() ? start_[block + 1] : to_.size();
  return {to_.begin() + start_[block], to_.begin() + end};
}

bool HolderGraph::End() {
  for (; next_node_ <= root(); ++next_node_) {
    if (!start_.Add(static_cast<uint32_t>(to_.size()))) return false;
  }
  for (uint32_t holder = 0; holder < holders_; ++holder) {
    if (!to_.Add(blocks_ + holder)) return false;
  }
  return start_.Add(static_cast<uint32_t>(to_.size()));
}

bool HolderGraph::FindPaths(BigArray<uint32_t>* previous) const {
  BigArray<uint32_t> queue;
  const size_t nodes = size_t{root()} + 1;
  if (!previous->Fill(nodes, budget_) || !queue.Reserve(nodes, budget_)) return false;
  for (size_t i = 0; i < nodes; ++i) (*previous)[i] = kNone;
  if (!queue.Add(root())) return false;
  (*previous)[root()] = root();
  for (size_t done = 0; done < queue.size(); ++done) {
    const uint32_t node = queue[done];
    if (IsEnding(done)) return false;
    for (uint64_t i = StartOf(node); i < EndOf(node); ++i) {
      if ((*previous)[to_[i]] != kNone) continue;
      (*previous)[to_[i]] = node;
      if (!queue.Add(to_[i])) return false;
    }
  }
  return true;
}

// Numbers the reachable nodes in the order of a depth-first search from root(). `parent`: by these numbers.
bool HolderGraph::Search(BigArray<uint32_t>* parent) {
  const size_t nodes = size_t{root()} + 1;
  BigArray<uint32_t> cursor;
  if (!number_.Fill(nodes, budget_) || !order_.Reserve(nodes, budget_) || !parent->Reserve(nodes, budget_) ||
      !cursor.Reserve(nodes, budget_))
    return false;
  for (size_t i = 0; i < nodes; ++i) number_[i] = kNone;
  const auto enter = [&](uint32_t node, uint32_t from) {
    number_[node] = static_cast<uint32_t>(order_.size());
    return order_.Add(node) && parent->Add(from) && cursor.Add(static_cast<uint32_t>(StartOf(node)));
  };
  if (!enter(root(), 0)) return false;
  for (uint32_t at = 0;;) {
    const uint64_t end = EndOf(order_[at]);
    while (cursor[at] < end && number_[to_[cursor[at]]] != kNone) ++cursor[at];
    if (cursor[at] < end) {
      if (!enter(to_[cursor[at]++], at)) return false;
      at = static_cast<uint32_t>(order_.size() - 1);
    } else if (at == 0) {
      return true;
    } else if (IsEnding(at)) {
      return false;
    } else {
      at = (*parent)[at];
    }
  }
}

// Turns the pointers around, by the numbers of the search: those of node w come from from[first[w]] … .
bool HolderGraph::CollectPredecessors(BigArray<uint32_t>* first, BigArray<uint32_t>* from) {
  const size_t reached = order_.size();
  if (!first->Fill(reached + 1, budget_)) return false;
  uint64_t count = 0;
  for (size_t w = 0; w < reached; ++w) {
    if (IsEnding(w)) return false;
    for (uint64_t i = StartOf(order_[w]); i < EndOf(order_[w]); ++i) {
      ++(*first)[number_[to_[i]]];
      ++count;
    }
  }
  if (!from->Fill(count, budget_)) return false;
  uint32_t sum = 0;
  for (size_t w = 0; w < reached; ++w) {
    sum += (*first)[w];
    (*first)[w] = sum;  // filled from the end
  }
  (*first)[reached] = sum;
  for (size_t w = reached; w-- > 0;) {
    if (IsEnding(w)) return false;
    for (uint64_t i = StartOf(order_[w]); i < EndOf(order_[w]); ++i)
      (*from)[--(*first)[number_[to_[i]]]] = static_cast<uint32_t>(w);
  }
  return true;
}

absl::Status HolderGraph::FindDominators(const std::function<void(BigArray<uint64_t>*)>& fill_sizes) {
  BigArray<uint32_t> ancestor, first, from, semi, label, dominator;
  if (!Search(&ancestor) || !CollectPredecessors(&first, &from)) return Status();
  to_.Free();
  start_.Free();
  number_.Free();
  const auto reached = static_cast<uint32_t>(order_.size());
  if (!semi.Fill(reached, budget_) || !label.Fill(reached, budget_) || !dominator.Fill(reached, budget_))
    return Status();
  for (uint32_t w = 0; w < reached; ++w) {
    semi[w] = label[w] = w;
    dominator[w] = ancestor[w];
  }
  ProcessedForest forest(&ancestor, &label, semi);
  for (uint32_t w = reached - 1; w > 0; --w) {
    if (IsEnding(w)) return Status();
    uint32_t least = dominator[w];
    for (uint32_t i = first[w]; i < first[w + 1]; ++i) least = std::min(least, semi[forest.Evaluate(from[i], w + 1)]);
    semi[w] = least;
  }
  first.Free();
  from.Free();
  label.Free();
  ancestor.Free();
  // Usually a few steps for each node; a graph made on purpose may need the square of its size.
  uint64_t steps = uint64_t{1000} * reached + 1'000'000;
  for (uint32_t w = 1; w < reached; ++w) {
    uint32_t above = dominator[w];
    while (above > semi[w]) {
      above = dominator[above];
      if (--steps == 0) return absl::ResourceExhaustedError("the pointers form a graph that is too deep to analyze");
    }
    dominator[w] = above;
  }
  semi.Free();
  const size_t nodes = size_t{root()} + 1;
  if (!dominator_.Fill(nodes, budget_) || !retained_.Fill(nodes, budget_) || !retained_count_.Fill(nodes, budget_))
    return Status();
  for (size_t i = 0; i < nodes; ++i) dominator_[i] = kNone;
  fill_sizes(&retained_);
  for (uint32_t w = 0; w < reached; ++w) {
    dominator_[order_[w]] = order_[dominator[w]];
    retained_count_[order_[w]] += order_[w] < blocks_ ? 1 : 0;
  }
  for (uint32_t w = reached - 1; w > 0; --w) {
    retained_[order_[dominator[w]]] += retained_[order_[w]];
    retained_count_[order_[dominator[w]]] += retained_count_[order_[w]];
  }
  order_.Free();
  return absl::OkStatus();
}

}  // namespace holdfast
