// `holdfast check`: budgets for continuous integration. Exit code 1 when one is not kept.
//
//   --max 'inuse_space:ParseJson=10MB'   all stacks through functions that match hold at most so much
//   --max 'delay=2s'                     the whole of a metric
//   --budgets FILE                       one such budget a line; # begins a comment
//   --max-optional …                     the same for a function that need not be there: where none matches, --max fails
//   --base FILE --fail-above 5%          no function that matters (1 % of the base or of the head) has grown by more,
//                                        beyond the sampling error; nor has the total
//   --max-growth 1MiB/h                  what leaks, as `holdfast leaks` finds it, is slower
// The estimate is what counts; a result whose 95 % interval holds the budget is marked as uncertain.
#ifndef HOLDFAST_REPORT_COMPARISONS_CHECK_H_
#define HOLDFAST_REPORT_COMPARISONS_CHECK_H_

#include <ostream>
#include <string>
#include <vector>

#include "report/views/selection.h"

namespace holdfast {

struct CheckOptions {
  ViewOptions view;  // format: text, markdown or junit
  std::vector<std::string> max = {}, max_optional = {};
  std::vector<std::string> budgets = {};  // files of budgets
  std::vector<std::string> base = {};
  std::string fail_above = "";  // percent
  std::string max_growth = "";  // SIZE/TIME
  std::string output = "-";
  std::string junit = "";  // also to this file
};

int RunCheck(const CheckOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMPARISONS_CHECK_H_
