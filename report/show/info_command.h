// `holdfast info`: prints what a profile says about itself. The command line is in report/cmd/add_info.cc.
#ifndef HOLDFAST_REPORT_SHOW_INFO_COMMAND_H_
#define HOLDFAST_REPORT_SHOW_INFO_COMMAND_H_

#include <ostream>
#include <string>
#include <vector>

namespace holdfast {

// Prints a block per file: value types, times, counts, totals with their 95 % interval, mappings, all comments. A
// folder means the newest file of each process and kind in it. Returns exit code 0, or 3 if a file could not be
// read; the others are still shown. Messages go to `err`.
int RunInfo(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_INFO_COMMAND_H_
