#include "report/analysis/call_edges.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace holdfast {
namespace {

class Edges {
 public:
  explicit Edges(const FilteredStacks& stacks) : stacks_(stacks) {}

  void Add(uint32_t caller, uint32_t callee, size_t stack, bool residual) {
    const auto [place, added] = index_.emplace(uint64_t{caller} << 32 | callee, static_cast<uint32_t>(edges_.size()));
    if (added) {
      edges_.push_back(
          {.caller = caller, .callee = callee, .residual = false, .values = std::vector<int64_t>(stacks_.columns())});
      seen_.push_back(0);
    }
    if (seen_[place->second] == stack + 1) return;
    seen_[place->second] = static_cast<uint32_t>(stack + 1);
    CallEdge& edge = edges_[place->second];
    edge.residual = edge.residual || residual;
    const auto values = stacks_.ValuesOf(stack);
    for (size_t c = 0; c < values.size(); ++c) edge.values[c] = WrappedSum(edge.values[c], values[c]);
  }

  std::vector<CallEdge> Take() {
    std::sort(edges_.begin(), edges_.end(), [&](const CallEdge& a, const CallEdge& b) {
      const uint64_t a_size = Magnitude(a.values[0]), b_size = Magnitude(b.values[0]);
      if (a_size != b_size) return a_size > b_size;
      const auto names = [&](const CallEdge& edge) {
        return std::pair<std::string_view, std::string_view>(stacks_.nodes()[edge.caller].name,
                                                             stacks_.nodes()[edge.callee].name);
      };
      return names(a) < names(b);
    });
    return std::move(edges_);
  }

 private:
  const FilteredStacks& stacks_;
  std::vector<CallEdge> edges_;
  std::vector<uint32_t> seen_;  // number of the last stack that counted the edge
  absl::flat_hash_map<uint64_t, uint32_t> index_;
};

}  // namespace

std::vector<CallEdge> CallEdges(const FilteredStacks& stacks, const std::vector<bool>& kept) {
  Edges edges(stacks);
  for (size_t i = 0; i < stacks.size(); ++i) {
    const auto frames = stacks.FramesOf(i);
    uint32_t caller = Profile::kNone;
    bool residual = false;
    for (size_t k = frames.size(); k-- > 0;) {
      const uint32_t callee = frames[k];
      if (!kept[callee]) {
        residual = true;
        continue;
      }
      if (caller != Profile::kNone && caller != callee) edges.Add(caller, callee, i, residual);
      caller = callee;
      residual = false;
    }
  }
  return edges.Take();
}

std::vector<CallEdge> CallEdgesAround(const FilteredStacks& stacks, const std::vector<bool>& chosen) {
  Edges edges(stacks);
  for (size_t i = 0; i < stacks.size(); ++i) {
    const auto frames = stacks.FramesOf(i);
    for (size_t k = frames.size(); k-- > 1;) {
      const uint32_t caller = frames[k], callee = frames[k - 1];
      if (caller != callee && (chosen[caller] || chosen[callee])) edges.Add(caller, callee, i, false);
    }
  }
  return edges.Take();
}

}  // namespace holdfast
