// `holdfast lifetimes`: how long blocks lived, for each function. The command line is in add_lifetimes.cc. Exit codes:
// 0, 2 (wrong usage), 3 (a file could not be read, or there is none). Messages go to `err`, one line each.
#ifndef HOLDFAST_REPORT_SHOW_LIFETIMES_H_
#define HOLDFAST_REPORT_SHOW_LIFETIMES_H_

#include <ostream>
#include <string>

#include "report/show/selection.h"

namespace holdfast {

struct LifetimesOptions {
  ViewOptions view;
  std::string sort = "freed";  // freed, objects, temporary, mean or alive
};

int RunLifetimes(const LifetimesOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_LIFETIMES_H_
