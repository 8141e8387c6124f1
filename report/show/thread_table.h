// `holdfast threads`: where the time of each thread went. Without wall profiles: what else is known (threads_without_looks.h).
#ifndef HOLDFAST_REPORT_SHOW_THREAD_TABLE_H_
#define HOLDFAST_REPORT_SHOW_THREAD_TABLE_H_

#include <ostream>
#include <string>
#include <vector>

#include "report/show/text_table.h"

namespace holdfast {

struct ThreadsOptions {
  std::vector<std::string> files;
  size_t count = 30;  // 0 = all
  std::string format = "table", color = "auto";
  bool each = false;  // one row per thread, instead of one for like-named threads
  bool wide = false;  // whole names, regardless of the terminal's width
  size_t width = 0;   // 0: the terminal's
  bool pager = true;
};

// The columns with which every table of threads begins, from the name to "wants CPU".
std::vector<Column> FirstThreadColumns(bool each);

// Returns the exit code: 0, 2 (wrong usage), or 3 (a file could not be read, or says nothing about threads).
int RunThreads(const ThreadsOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_THREAD_TABLE_H_
