// The views that keep the order of calls: `holdfast tree` (from the outermost function to its callees) and `holdfast
// callers` (from the leaves, or from chosen functions, to their callers). Exit codes: 0, 2 (wrong usage), 3 (a file
// could not be read). Messages go to `err`, one line each.
#ifndef HOLDFAST_REPORT_SHOW_TREE_H_
#define HOLDFAST_REPORT_SHOW_TREE_H_

#include <ostream>
#include <string>

#include "report/show/selection.h"

namespace holdfast {

struct TreeOptions {
  ViewOptions view;              // node_count: the largest branches; 0 = all
  double node_fraction = 0.005;  // branches with less of the total are summed up
  size_t depth = 0;              // 0 = all
  std::string of = "";           // callers: begin at matching functions; "" = at the leaves
};

int RunTree(const TreeOptions& options, std::ostream& out, std::ostream& err);
int RunCallers(const TreeOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_TREE_H_
