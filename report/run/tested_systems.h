// The systems on which Holdfast was tested: the table in README.md, which a unit test compares with this one, and the
// line about it in `holdfast doctor`.
#ifndef HOLDFAST_REPORT_RUN_TESTED_SYSTEMS_H_
#define HOLDFAST_REPORT_RUN_TESTED_SYSTEMS_H_

#include <span>
#include <string>
#include <string_view>

#include "report/run/findings.h"

namespace holdfast {

struct TestedSystem {
  std::string_view system;  // "Debian 12"
  std::string_view libc;    // "glibc 2.36"
  std::string_view what, when;
};
std::span<const TestedSystem> TestedSystems();

// Returns "glibc 2.36" or "musl 1.2.3" for the file of a C library; "" if its bytes do not say so.
std::string LibcIn(std::string_view bytes);

// Says whether Holdfast was tested with the C library in this file.
void DescribeLibc(const std::string& path, Findings* findings);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_TESTED_SYSTEMS_H_
