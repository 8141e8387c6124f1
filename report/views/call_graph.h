// `holdfast graph`: the call graph as DOT, as SVG, PNG or PDF (by graphviz' dot), or for callgrind_annotate and KCachegrind.
//
// Boxes are nodes with self and total, arrows carry what flows along the call. As pprof cuts: the `node_count` nodes
// with the largest totals that hold `node_fraction`, arrows of at least `edge_fraction`; what was passed over is
// dashed. The heaviest path is drawn bold and red.
#ifndef HOLDFAST_REPORT_VIEWS_CALL_GRAPH_H_
#define HOLDFAST_REPORT_VIEWS_CALL_GRAPH_H_

#include <ostream>
#include <string>

#include "report/views/selection.h"

namespace holdfast {

struct GraphOptions {
  ViewOptions view;
  std::string format = "";  // dot, svg, png, pdf, callgrind; "" = by the ending of `output`, else dot
  std::string output = "-";
  double node_fraction = 0.005, edge_fraction = 0.001;
};

int RunGraph(const GraphOptions& options, std::ostream& out, std::ostream& err);

// DOT text of the stacks.
std::string DotOf(const View& view, const FilteredStacks& stacks, const GraphOptions& options);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_VIEWS_CALL_GRAPH_H_
