// Finds which holder keeps which blocks alive: a graph of pointers and its dominator tree.
//
//    session_map (a global) ──► block A ──► block B ──► block C        A, B and C are retained by session_map: without it
//                                  └──────────────────────┘            they would all be unreachable
//    config (a global)      ──► block D ◄── session_map                D is held by both: no single holder retains it
//
// Nodes: blocks 0 … B−1, then holders (roots, grouped by the caller, for example by variable). A block's dominator is
// the last node that all paths from the roots to the block share. Its retained size is its own size and that of all
// blocks that it dominates.
//
// Finding dominators needs at most 20 bytes for each block and 8 for each pointer, or 24 and 4: 340 MiB for 10 million
// blocks with 20 million pointers. Semi-NCA (Georgiadis, Tarjan, Werneck:
// "Finding Dominators in Practice", 2006), without recursion, so any graph is safe.
#ifndef HOLDFAST_REPORT_HOLDERS_HOLDER_GRAPH_H_
#define HOLDFAST_REPORT_HOLDERS_HOLDER_GRAPH_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "report/holders/big_array.h"

namespace holdfast {

// Says why a scan of this many blocks could not be completed: it was ended (ScanBudget::stop), or it needs more memory.
absl::Status WhyIncomplete(const ScanBudget& budget, uint64_t blocks);

class HolderGraph {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  // The pointers of each block are added together, blocks in ascending order. Functions that return false ran out of
  // memory, or were ended; Status() says which.
  bool Begin(uint32_t blocks, uint64_t most_pointers, ScanBudget* budget);
  bool AddPointer(uint32_t block, uint32_t to);
  // After all blocks: the holders and their pointers. Returns false if there are too many.
  bool AddHolder(const std::vector<uint32_t>& to);
  bool End();
  // Where the pointers of a block lead. Once all blocks are added, before FindDominators.
  std::span<const uint32_t> PointersOf(uint32_t block) const;

  uint32_t blocks() const { return blocks_; }
  uint32_t holders() const { return holders_; }
  uint64_t pointers() const { return to_.size(); }
  uint32_t root() const { return blocks_ + holders_; }

  // Finds the shortest path from a holder to each block: for each node the node before it. kNone: unreachable. Call
  // before FindDominators.
  bool FindPaths(BigArray<uint32_t>* previous) const;

  // Finds the dominators. `fill_sizes` sets the bytes of each block in an array of zeros. Afterwards the pointers are
  // gone.
  absl::Status FindDominators(const std::function<void(BigArray<uint64_t>*)>& fill_sizes);

  // The dominator of a node: kNone if it is unreachable, root() if no single holder retains it.
  uint32_t DominatorOf(uint32_t node) const { return dominator_[node]; }
  // The bytes and blocks that a node retains, with itself; of root(): everything reachable.
  uint64_t RetainedBy(uint32_t node) const { return retained_[node]; }
  uint32_t CountRetainedBy(uint32_t node) const { return retained_count_[node]; }

  absl::Status Status() const { return WhyIncomplete(*budget_, blocks_); }  // after Begin

 private:
  static constexpr uint32_t kMaxHolders = 1 << 22;
  static constexpr uint64_t kAskEvery = 1 << 12;

  bool IsEnding(uint64_t step) const;
  bool Search(BigArray<uint32_t>* parent);
  bool CollectPredecessors(BigArray<uint32_t>* first, BigArray<uint32_t>* from);
  uint64_t StartOf(uint32_t node) const { return start_[node]; }
  uint64_t EndOf(uint32_t node) const { return start_[node + 1]; }

  uint32_t blocks_ = 0, holders_ = 0, next_node_ = 0;
  ScanBudget* budget_ = nullptr;
  BigArray<uint32_t> to_, start_;  // of node i: to_[start_[i]] … to_[start_[i + 1] - 1]
  BigArray<uint32_t> order_;       // nodes in the order of the depth-first search; the first is root()
  BigArray<uint32_t> number_;      // node → place in order_
  BigArray<uint32_t> dominator_;
  BigArray<uint64_t> retained_;
  BigArray<uint32_t> retained_count_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_HOLDER_GRAPH_H_
