// What still lives, as the heap profile of the same moment has it. At interval 1 that knows every block, where ages are known of few
// (1 in 384), so that what a lifetimes profile says of it alone is an estimate beside an exact one. No state; any thread.
#ifndef HOLDFAST_REPORT_LIFETIMES_ALIVE_NOW_H_
#define HOLDFAST_REPORT_LIFETIMES_ALIVE_NOW_H_

#include <map>
#include <optional>
#include <string>

#include "report/views/node_cells.h"
#include "report/views/selection.h"

namespace holdfast {

struct AliveNow {
  struct Row {
    NodeCells cells;
    double bytes = 0, variance = 0;
  };
  Row all;
  std::map<std::string, Row> rows;  // by the name of the node; none where rows are not of code
};

// Nothing where a file of `view` has none beside it (a sum of several, a name of its own), or where filters look at labels that
// heap profiles do not have.
std::optional<AliveNow> AliveInHeapProfiles(const View& view, const ViewOptions& options);

// What a stack's row is: what used the memory directly, or the label that was asked for.
inline uint32_t RowNodeOf(const FilteredStacks& stacks, std::span<const uint32_t> frames) {
  return stacks.nodes()[frames.back()].is_label ? frames.back() : frames.front();
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LIFETIMES_ALIVE_NOW_H_
