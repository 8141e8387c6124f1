// Computes the call edges between nodes and their values: one edge for each pair of nodes, as in pprof's graph.
//
// An edge counts a stack once, even if the pair occurs there several times; a direct recursion is no edge. Nodes that
// are not kept are skipped: the edge from the last kept node above to the next one below is then `residual` (drawn
// dashed). Memory: proportional to the number of different edges between kept nodes. Any thread, once constructed.
#ifndef HOLDFAST_REPORT_ANALYSIS_CALL_EDGES_H_
#define HOLDFAST_REPORT_ANALYSIS_CALL_EDGES_H_

#include <cstdint>
#include <vector>

#include "report/analysis/profiles/filtered_stacks.h"

namespace holdfast {

struct CallEdge {
  uint32_t caller, callee;
  bool residual = false;
  std::vector<int64_t> values;  // one for each column
};

// Returns the edges between kept nodes, largest first by the first column.
std::vector<CallEdge> CallEdges(const FilteredStacks& stacks, const std::vector<bool>& kept);

// Returns the edges into and out of the chosen nodes. All other nodes are kept, too.
std::vector<CallEdge> CallEdgesAround(const FilteredStacks& stacks, const std::vector<bool>& chosen);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_CALL_EDGES_H_
