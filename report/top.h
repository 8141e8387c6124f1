// `holdfast top`: from files to a table of functions as text. The command line is in report/top_command.h.
//
// Which files are added up
//   - files of different processes are summed, their 95 % intervals as independent errors (root of the sum of squares)
//   - of several snapshots of one process (equal `process` comment) the newest counts and the others are named on
//     `err`: each holds all that the earlier ones held. Differences (duration not 0) and files that do not say whose
//     they are always add up
//   - files of different kinds (heap, mutex …) are an error
#ifndef HOLDFAST_REPORT_TOP_H_
#define HOLDFAST_REPORT_TOP_H_

#include <ostream>
#include <string>
#include <vector>

namespace holdfast {

struct TopOptions {
  std::vector<std::string> files;  // "-" is standard input
  std::string metric = "";         // "" = the profile's default
  std::string unit = "auto";
  size_t node_count = 30;  // 0 = all
  bool by_total = false;
};

// Exit code: 0, 2 (wrong usage), 3 (a file could not be read). Messages go to `err`, one line each.
int RunTop(const TopOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TOP_H_
