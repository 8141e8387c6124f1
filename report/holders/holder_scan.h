// Finds what keeps a process's memory alive: reads all blocks and pointers once, and computes what each holder retains.
//
//    ProcessAddressSpace space;  HolderScan scan(space, input, names);
//    scan.Run();                                          // 2 to 4 s of CPU for each GiB of small blocks
//    HolderTree(scan, label_of, …)                        // holder → blocks by label → blocks that these retain
//    scan.PathTo(0x5555…)                                 // session_map+16 (server) → block → block
//
// Progress is shown on the terminal. Memory: see report/holders/holder_graph.h; it is limited by `budget`.
#ifndef HOLDFAST_REPORT_HOLDERS_HOLDER_SCAN_H_
#define HOLDFAST_REPORT_HOLDERS_HOLDER_SCAN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "report/holders/big_array.h"
#include "report/holders/heap_blocks.h"
#include "report/holders/holder_graph.h"
#include "report/holders/holder_names.h"

namespace holdfast {

class HolderScan {
 public:
  HolderScan(AddressSpace* space, NameSources sources, ScanBudget* budget);

  // `wants_paths`: for HolderOfBlock and PathTo; needs 4 more bytes for each block. `progress`: called with the percentage
  // of the heap that has been read. An error says what was missing, or that the budget's `stop` was requested.
  absl::Status Run(const HeapBlocksInput& input, bool wants_paths, const std::function<void(int)>& progress = nullptr);

  const HeapBlocks& heap() const { return heap_; }
  // Whether a stop was requested (ScanBudget::stop): the caller drops the result.
  bool IsEnding() const { return space_.IsEnding(); }
  const HolderGraph& graph() const { return graph_; }
  HolderNames& names() { return names_; }

  uint64_t used_blocks() const { return used_blocks_; }
  uint64_t used_bytes() const { return used_bytes_; }
  // Of blocks that no pointer leads to. One scan of a running process says this approximately; see unreachable.h.
  uint64_t unreached_blocks() const { return unreached_blocks_; }
  uint64_t unreached_bytes() const { return unreached_bytes_; }
  uint32_t unknown_stacks() const { return unknown_stacks_; }  // see FindRoots

  uint16_t ClassOf(uint32_t block) const { return classes_[block]; }

  // Returns the holder with the shortest path to a block; nothing if it is unreachable.
  std::optional<uint32_t> HolderOfBlock(uint32_t block) const;
  struct Step {
    std::string place;         // of the first step: the root
    uint32_t block = 0;        // of the other steps
    uint64_t from_offset = 0;  // where the pointer is in the step before
    uint64_t to_offset = 0;    // where the pointer leads in this block
  };
  // Returns the shortest path from a root to the block that contains `address`. Empty: no block, or it is unreachable.
  std::vector<Step> PathTo(uint64_t address);

 private:
  absl::Status ReadPointers(const std::function<void(int)>& progress);
  bool LeaveToVariables(std::vector<std::vector<uint32_t>>* held);
  void CountReached();

  AddressSpace& space_;
  HolderNames names_;
  ScanBudget& budget_;
  HeapBlocks heap_;
  std::vector<RootRange> roots_;
  HolderGraph graph_;
  BigArray<uint16_t> classes_;
  BigArray<uint32_t> previous_;
  uint64_t used_blocks_ = 0, used_bytes_ = 0, unreached_blocks_ = 0, unreached_bytes_ = 0;
  uint32_t unknown_stacks_ = 0;
};

// The dominator tree for people: nodes with the same label below the same parent are one row, and so are chains of
// blocks with one label (the nodes of a list).
struct HolderNode {
  std::string label;
  uint64_t retained = 0, bytes = 0;  // with and without what the blocks retain
  uint64_t blocks = 0;
  std::vector<HolderNode> below;  // largest first
  uint64_t hidden = 0;            // bytes of smaller rows that are left out
};

struct HolderTreeOptions {
  double least_share = 0.005;  // of all reachable bytes
  int depth = 8;
  size_t most_rows = 20;  // below one node
};

// `label_of`: a number for each block; blocks with the same number share a row. `text_of`: the label of a number.
// Blocks that several holders retain together are below a node of their own, the last one.
HolderNode BuildHolderTree(HolderScan* scan, const std::function<uint64_t(const BlockMap::Block&)>& label_of,
                           const std::function<std::string(uint64_t)>& text_of, const HolderTreeOptions& options,
                           ScanBudget* budget);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_HOLDER_SCAN_H_
