// `holdfast locks`: lists the hottest locks of a profile, and who waited for whom.
#ifndef HOLDFAST_REPORT_SHOW_LOCKS_H_
#define HOLDFAST_REPORT_SHOW_LOCKS_H_

#include <ostream>
#include <string>
#include <vector>

namespace holdfast {

struct LocksOptions {
  std::vector<std::string> files;
  std::string holder, waiter;  // patterns; "" = the table of locks
  size_t count = 20;           // 0 = all
  std::string format = "table", color = "auto";
  bool fold = true;                        // show the first function that is not plumbing
  std::vector<std::string> plumbing = {};  // additional patterns for plumbing
  bool each = false;                       // list each lock of a class separately
  bool wide = false;                       // whole names, regardless of the terminal's width
  bool details = false;                    // a lock's unabridged texts under its row
  size_t width = 0;                        // 0: the terminal's
  bool pager = true;                       // use a pager if the output is longer than the screen
};

// Returns the exit code: 0, 2 (wrong usage), or 3 (a file could not be read or has no single locks).
int RunLocks(const LocksOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_LOCKS_H_
