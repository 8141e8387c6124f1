// `holdfast check`: budgets for continuous integration. Exit code 1 if a budget is exceeded.
//
//  --max 'inuse_space:ParseJson=10MB'   all stacks through matching functions have at most this much
//  --max 'delay=2s'                     the whole of a metric
//  --budgets FILE                       one such budget a line; # begins a comment
//  --max-optional …                     the same, but no function need match; --max fails if none matches
//  --base FILE --fail-above 5%          no significant function (1 % of the base or the head) has grown by more, beyond
//                                       the sampling error; nor has the total
//  --max-growth 1MiB/h                  leaks, as found by `holdfast leaks`, are slower
//  --max-unreachable 0                  no pointer leads to at most this much, as found by `holdfast run --leak-check`
// The estimate decides; a result is marked as uncertain if its 95 % interval contains the budget.
#ifndef HOLDFAST_REPORT_SHOW_CHECK_H_
#define HOLDFAST_REPORT_SHOW_CHECK_H_

#include <ostream>
#include <string>
#include <vector>

#include "report/show/selection.h"

namespace holdfast {

struct CheckOptions {
  ViewOptions view;  // format: text, markdown or junit
  std::vector<std::string> max = {}, max_optional = {};
  std::vector<std::string> budgets = {};  // files with budgets
  std::vector<std::string> base = {};
  std::string fail_above = "";       // percent
  std::string max_growth = "";       // SIZE/TIME
  std::string max_unreachable = "";  // SIZE
  std::string output = "-";
  std::string junit = "";  // an additional output file
};

int RunCheck(const CheckOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_CHECK_H_
