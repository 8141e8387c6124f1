// `holdfast leaks`: finds stacks that hold more and more memory over the snapshots of a process.
//
// The bytes and objects in use of each stack in every snapshot are a series; report/analysis/growth/growth.h decides whether a
// series grows. Growing stacks are leaks, ranked by the lower end of the 95 % interval of their slope, so that a
// certain small leak precedes an uncertain large one. A stack is identified by its function names (only the innermost
// `depth`), so that it is the same in every snapshot, whatever was loaded in between. Exit codes: 0 (level), 1
// (growing, or in steps), 2 (wrong usage), 3 (a file cannot be read), 4 (cannot tell).
#ifndef HOLDFAST_REPORT_SHOW_LEAKS_H_
#define HOLDFAST_REPORT_SHOW_LEAKS_H_

#include <ostream>
#include <string>
#include <vector>

#include "report/show/selection.h"

namespace holdfast {

struct LeaksOptions {
  ViewOptions view;         // files, filters, unit, format; node_count: the number of leaks
  size_t depth = 0;         // number of innermost functions that identify a stack; 0 = all
  size_t shown_frames = 4;  // more if needed to distinguish two rows
  std::string kind = "";    // only heap or only threads
  std::string limit = "";   // prints when this much will be in use
  std::vector<std::string> suppressions = {};
  bool all = false;     // include what does not grow
  bool follow = false;  // continue with each new snapshot
};

int RunLeaks(const LeaksOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_LEAKS_H_
