// Who calls whom, and what flows along each call: one edge for each pair of nodes, as pprof's graph has it.
//
// An edge counts a stack once, however often the pair stands in it; a call of itself is no edge. Nodes that are not
// kept are passed over: the edge from the last kept node above to the next below is `residual` then (drawn dashed).
// Memory: by the number of different edges between kept nodes. Any thread once made.
#ifndef HOLDFAST_REPORT_ANALYSIS_CALL_EDGES_H_
#define HOLDFAST_REPORT_ANALYSIS_CALL_EDGES_H_

#include <cstdint>
#include <vector>

#include "report/profiles/filtered_stacks.h"

namespace holdfast {

struct CallEdge {
  uint32_t caller, callee;
  bool residual = false;
  std::vector<int64_t> values;  // one for each column
};

// Edges between kept nodes, the largest (in the first column) first.
std::vector<CallEdge> CallEdges(const FilteredStacks& stacks, const std::vector<bool>& kept);

// Edges into and out of the chosen nodes, all other nodes standing where they stand.
std::vector<CallEdge> CallEdgesAround(const FilteredStacks& stacks, const std::vector<bool>& chosen);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_CALL_EDGES_H_
