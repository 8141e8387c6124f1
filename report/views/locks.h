// `holdfast locks`: the hottest locks of a profile, and who waited for whom.
#ifndef HOLDFAST_REPORT_VIEWS_LOCKS_H_
#define HOLDFAST_REPORT_VIEWS_LOCKS_H_

#include <ostream>
#include <string>
#include <vector>

namespace holdfast {

struct LocksOptions {
  std::vector<std::string> files;
  std::string holder, waiter;  // patterns; "" = the table of locks
  size_t count = 20;           // 0 = all
  std::string format = "table", color = "auto";
  bool fold = true;                        // functions are the first that are not plumbing
  std::vector<std::string> plumbing = {};  // what else is
  bool each = false;                       // each lock of a class by itself
  bool wide = false;                       // whole names, whatever the terminal's width
  bool details = false;                    // a lock's full texts under its row
  size_t width = 0;                        // 0: the terminal's
  bool pager = true;                       // where the terminal is too low
};

// Exit codes: 0, 2 (wrong usage), 3 (a file could not be read, or knows no single locks).
int RunLocks(const LocksOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_VIEWS_LOCKS_H_
