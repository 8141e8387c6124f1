// `holdfast graph`: writes the call graph as DOT, as SVG, PNG or PDF (with graphviz' dot), or for callgrind_annotate
// and KCachegrind.
//
// Boxes are nodes with their self and total values; arrows carry the value that flows along a call. Cuts the graph as
// pprof does: keeps the `node_count` nodes with the largest totals that have at least `node_fraction`, and arrows of at
// least `edge_fraction`. An arrow that skips nodes is dashed. The heaviest path is bold and red.
#ifndef HOLDFAST_REPORT_SHOW_CALL_GRAPH_H_
#define HOLDFAST_REPORT_SHOW_CALL_GRAPH_H_

#include <ostream>
#include <string>

#include "report/show/selection.h"

namespace holdfast {

struct GraphOptions {
  ViewOptions view;
  std::string format = "";  // dot, svg, png, pdf, callgrind; "" = by the extension of `output`, else dot
  std::string output = "-";
  double node_fraction = 0.005, edge_fraction = 0.001;
};

int RunGraph(const GraphOptions& options, std::ostream& out, std::ostream& err);

// Returns the call graph as DOT text.
std::string DotOf(const View& view, const FilteredStacks& stacks, const GraphOptions& options);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_CALL_GRAPH_H_
