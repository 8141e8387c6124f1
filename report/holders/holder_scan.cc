#include "report/holders/holder_scan.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "report/base/progress.h"
#include "report/holders/references.h"

namespace holdfast {

HolderScan::HolderScan(AddressSpace* space, NameSources sources, ScanBudget* budget)
    : space_(*space), names_(space, std::move(sources)), budget_(*budget) {
  space_.EndOn(budget->stop);
}

absl::Status HolderScan::Run(const HeapBlocksInput& input, bool wants_paths, const std::function<void(int)>& progress) {
  HeapBlocksInput limited = input;
  limited.most_bytes = budget_.most_bytes;
  absl::StatusOr<HeapBlocks> heap = FindHeapBlocks(&space_, limited);
  if (!heap.ok()) return heap.status();
  heap_ = *std::move(heap);
  if (space_.IsEnding() || !budget_.Take(heap_.map.memory_bytes())) return WhyIncomplete(budget_, heap_.map.size());
  roots_ = FindRoots(&space_, heap_, input, &unknown_stacks_);
  if (absl::Status status = ReadPointers(progress); !status.ok()) return status;
  if (wants_paths && !graph_.FindPaths(&previous_)) return graph_.Status();
  absl::Status status = graph_.FindDominators([this](BigArray<uint64_t>* bytes) {
    heap_.map.ForEach(
        [&](const BlockMap::Block& block) { (*bytes)[block.number] = block.range.end - block.range.start; });
  });
  if (!status.ok()) return status;
  CountReached();
  return absl::OkStatus();
}

absl::Status HolderScan::ReadPointers(const std::function<void(int)>& progress) {
  const BlockMap& map = heap_.map;
  uint64_t heap_words = 0;
  for (const BlockMap::Heap& heap : map.heaps()) heap_words += (heap.range.end - heap.range.start) / sizeof(uint64_t);
  if (!graph_.Begin(map.size(), heap_words, &budget_) || !classes_.Fill(map.size(), &budget_)) return graph_.Status();
  Progress on_terminal("reading the heap, MiB");
  bool fits = true;
  uint32_t block_of_last = BlockMap::kNone, last = BlockMap::kNone;
  uint64_t read = 0;
  ForEachBlockPiece(&space_, map, {}, [&](const BlockMap::Block& block, uint64_t at, std::span<const uint64_t> words) {
    if (!fits) return;
    read += words.size_bytes();
    if (block.number % 4096 == 0 || words.size_bytes() > kSmallestPage) {
      on_terminal.Show(read >> 20, heap_words >> 17);
      if (progress) progress(static_cast<int>(read / sizeof(uint64_t) * 100 / std::max<uint64_t>(heap_words, 1)));
    }
    if (at == block.range.start && !words.empty()) classes_[block.number] = names_.ClassOf(words[0]);
    if (block_of_last != block.number) last = BlockMap::kNone;
    block_of_last = block.number;
    for (const uint64_t word : words) {
      if (!map.MayContain(word)) continue;
      const BlockMap::Block to = map.Find(word);
      if (to.number == BlockMap::kNone || to.unused || to.number == block.number || to.number == last) continue;
      last = to.number;
      if (!graph_.AddPointer(block.number, to.number)) fits = false;
    }
  });
  on_terminal.Clear();
  if (space_.IsEnding() || !fits) return graph_.Status();
  std::vector<std::vector<uint32_t>> held;  // by holder
  const auto add = [&](uint32_t holder, uint32_t block) {
    if (holder >= held.size()) held.resize(holder + 1);
    if (held[holder].empty() || held[holder].back() != block) held[holder].push_back(block);
  };
  for (const RootRange& root : roots_) {
    ForEachRootWord(&space_, root, map.lowest(), map.span(), [&](uint64_t address, uint64_t word) {
      const BlockMap::Block block = map.Find(word);
      if (block.number != BlockMap::kNone && !block.unused) add(names_.HolderOf(root, address), block.number);
    });
  }
  ForEachRegister(space_, [&](uint32_t thread, uint64_t word) {
    const BlockMap::Block block = map.Find(word);
    if (block.number != BlockMap::kNone && !block.unused) add(names_.HolderOfRegister(thread), block.number);
  });
  for (const uint64_t word : space_.kernel_words()) {
    const BlockMap::Block block = map.Find(word);
    if (block.number != BlockMap::kNone && !block.unused) add(names_.HolderOfKernelWord(), block.number);
  }
  if (space_.IsEnding()) return graph_.Status();
  held.resize(names_.holders().size());
  if (!LeaveToVariables(&held)) return graph_.Status();
  for (std::vector<uint32_t>& blocks : held) {
    if (!graph_.AddHolder(blocks)) return graph_.Status();
    blocks = {};
  }
  return graph_.End() ? absl::OkStatus() : graph_.Status();
}

// A function that works with an object does not own it: drops pointers on stacks and in registers to blocks that
// variables or mappings reach. A stale word on a stack would also make a list look shared. So would memory that may be
// free.
bool HolderScan::LeaveToVariables(std::vector<std::vector<uint32_t>>* held) {
  const auto is_variable = [this](size_t holder) {
    const RootKind kind = names_.holders()[holder].kind;
    return kind == RootKind::kData || kind == RootKind::kThreadBlock || kind == RootKind::kMapping ||
           kind == RootKind::kKernel;
  };
  std::vector<bool> reached(graph_.blocks());
  BigArray<uint32_t> queue;
  if (!queue.Reserve(graph_.blocks(), &budget_)) return false;
  for (size_t i = 0; i < held->size(); ++i) {
    for (const uint32_t block : (*held)[i]) {
      if (!is_variable(i) || reached[block]) continue;
      reached[block] = true;
      if (!queue.Add(block)) return false;
    }
  }
  for (size_t done = 0; done < queue.size(); ++done) {
    for (const uint32_t next : graph_.PointersOf(queue[done])) {
      if (reached[next]) continue;
      reached[next] = true;
      if (!queue.Add(next)) return false;
    }
  }
  for (size_t i = 0; i < held->size(); ++i) {
    if (!is_variable(i)) std::erase_if((*held)[i], [&](uint32_t block) { return reached[block]; });
  }
  return true;
}

void HolderScan::CountReached() {
  heap_.map.ForEach([this](const BlockMap::Block& block) {
    if (block.unused) return;
    const uint64_t bytes = block.range.end - block.range.start;
    ++used_blocks_;
    used_bytes_ += bytes;
    if (graph_.DominatorOf(block.number) != HolderGraph::kNone) return;
    ++unreached_blocks_;
    unreached_bytes_ += bytes;
  });
}

std::optional<uint32_t> HolderScan::HolderOfBlock(uint32_t block) const {
  uint32_t node = block;
  while (node < graph_.blocks()) {
    node = previous_[node];
    if (node == HolderGraph::kNone) return std::nullopt;
  }
  return node - graph_.blocks();
}

std::vector<HolderScan::Step> HolderScan::PathTo(uint64_t address) {
  const BlockMap& map = heap_.map;
  const BlockMap::Block target = map.Find(address);
  if (target.number == BlockMap::kNone || target.unused || previous_[target.number] == HolderGraph::kNone) return {};
  std::vector<uint32_t> nodes;
  for (uint32_t node = target.number; node < graph_.blocks(); node = previous_[node]) nodes.push_back(node);
  const uint32_t holder = previous_[nodes.back()] - graph_.blocks();
  std::reverse(nodes.begin(), nodes.end());
  std::vector<Step> steps;
  // The root word that leads to the first block.
  const BlockMap::Block first = map.Get(nodes[0]);
  steps.push_back({.place = names_.holders()[holder].name});
  uint64_t to_offset = 0;
  bool found = false;
  for (const RootRange& root : roots_) {
    if (found) break;
    ForEachRootWord(&space_, root, first.range.start, first.range.end - first.range.start,
                    [&](uint64_t at, uint64_t word) {
                      if (found || names_.HolderOf(root, at) != holder) return;
                      found = true;
                      steps[0].place = names_.PlaceOf(root, at);
                      to_offset = word - first.range.start;
                    });
  }
  steps.push_back({.place = "", .block = nodes[0], .to_offset = to_offset});
  for (size_t i = 1; i < nodes.size(); ++i) {
    const BlockMap::Block from = map.Get(nodes[i - 1]), to = map.Get(nodes[i]);
    Step step{.place = "", .block = nodes[i]};
    bool is_known = false;
    ForEachPiece(&space_, from.range.start, from.range.end, [&](uint64_t at, std::span<const uint64_t> words) {
      for (size_t k = 0; k < words.size() && !is_known; ++k) {
        if (!to.range.Contains(words[k])) continue;
        is_known = true;
        step.from_offset = at + k * sizeof(uint64_t) - from.range.start;
        step.to_offset = words[k] - to.range.start;
      }
    });
    steps.push_back(step);
  }
  return steps;
}

namespace {

class TreeBuilder {
 public:
  TreeBuilder(HolderScan* scan, const std::function<uint64_t(const BlockMap::Block&)>& label_of,
              const std::function<std::string(uint64_t)>& text_of, const HolderTreeOptions& options)
      : scan_(*scan), graph_(scan->graph()), label_of_(label_of), text_of_(text_of), options_(options) {}

  HolderNode Build(ScanBudget* budget) {
    HolderNode all;
    const uint32_t root = graph_.root();
    all.label = "all";
    all.retained = graph_.RetainedBy(root);
    all.blocks = graph_.CountRetainedBy(root);
    least_ = static_cast<uint64_t>(options_.least_share * static_cast<double>(all.retained));
    const size_t nodes = size_t{root} + 1;
    if (!first_.Fill(nodes, budget) || !sibling_.Fill(nodes, budget)) return all;
    for (uint32_t node = root; node-- > 0;) {  // so that siblings are in ascending order
      const uint32_t above = graph_.DominatorOf(node);
      if (above == HolderGraph::kNone) continue;
      sibling_[node] = first_[above];
      first_[above] = node + 1;
    }
    std::vector<uint32_t> shared;
    for (uint32_t node = first_[root]; node != 0; node = sibling_[node - 1]) {
      if (node - 1 < graph_.blocks()) {
        shared.push_back(node - 1);
        continue;
      }
      HolderNode holder;
      holder.label = scan_.names().holders()[node - 1 - graph_.blocks()].name;
      holder.retained = graph_.RetainedBy(node - 1);
      holder.blocks = graph_.CountRetainedBy(node - 1);
      if (holder.blocks == 0) continue;
      std::vector<uint32_t> below;
      for (uint32_t child = first_[node - 1]; child != 0; child = sibling_[child - 1]) below.push_back(child - 1);
      if (holder.retained >= least_) Expand(below, 1, &holder);
      all.below.push_back(std::move(holder));
    }
    if (!shared.empty()) {
      HolderNode several;
      several.label = "several holders together";
      for (const uint32_t block : shared) {
        several.retained += graph_.RetainedBy(block);
        several.blocks += graph_.CountRetainedBy(block);
      }
      Expand(shared, 1, &several);
      all.below.push_back(std::move(several));
    }
    Trim(&all);
    return all;
  }

 private:
  struct Group {
    HolderNode row;
    std::vector<uint32_t> next;   // blocks to add
    std::vector<uint32_t> below;  // what they retain, with other labels
  };

  void Expand(const std::vector<uint32_t>& nodes, int depth, HolderNode* parent) {
    absl::flat_hash_map<uint64_t, Group> groups;
    for (const uint32_t node : nodes) {
      Group& group = groups[label_of_(scan_.heap().map.Get(node))];
      group.row.retained += graph_.RetainedBy(node);
      group.next.push_back(node);
    }
    for (auto& [label, group] : groups) {
      const bool is_shown = group.row.retained >= least_;
      while (!group.next.empty() && !scan_.IsEnding()) {
        const uint32_t node = group.next.back();
        group.next.pop_back();
        const BlockMap::Block block = scan_.heap().map.Get(node);
        ++group.row.blocks;
        group.row.bytes += block.range.end - block.range.start;
        if (!is_shown) continue;
        for (uint32_t child = first_[node]; child != 0; child = sibling_[child - 1]) {
          const bool is_alike = label_of_(scan_.heap().map.Get(child - 1)) == label;
          (is_alike ? group.next : group.below).push_back(child - 1);
        }
      }
      if (!is_shown) {
        parent->hidden += group.row.retained;
        continue;
      }
      group.row.label = text_of_(label);
      if (depth < options_.depth && !group.below.empty()) Expand(group.below, depth + 1, &group.row);
      parent->below.push_back(std::move(group.row));
    }
    Trim(parent);
  }

  void Trim(HolderNode* node) const {
    std::sort(node->below.begin(), node->below.end(), [](const HolderNode& a, const HolderNode& b) {
      return a.retained != b.retained ? a.retained > b.retained : a.label < b.label;
    });
    while (!node->below.empty() && (node->below.size() > options_.most_rows || node->below.back().retained < least_)) {
      node->hidden += node->below.back().retained;
      node->below.pop_back();
    }
  }

  HolderScan& scan_;
  const HolderGraph& graph_;
  const std::function<uint64_t(const BlockMap::Block&)>& label_of_;
  const std::function<std::string(uint64_t)>& text_of_;
  const HolderTreeOptions& options_;
  uint64_t least_ = 0;
  BigArray<uint32_t> first_, sibling_;  // node + 1; 0: none
};

}  // namespace

HolderNode BuildHolderTree(HolderScan* scan, const std::function<uint64_t(const BlockMap::Block&)>& label_of,
                           const std::function<std::string(uint64_t)>& text_of, const HolderTreeOptions& options,
                           ScanBudget* budget) {
  return TreeBuilder(scan, label_of, text_of, options).Build(budget);
}

}  // namespace holdfast
