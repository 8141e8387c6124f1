// `holdfast leaks --unreachable`: blocks that no root reaches, by the stack that allocated them.
//
//   server (pid 4242): no pointer found to 15.1MiB in 6012 blocks (9 scans, settled)
//        bytes   blocks  direct  allocated by
//      12.1MiB     6000    2000  leak_lists ← main
//
// If the only pointer to a block may be in a register of a sleeping thread, the block is not certain: the kernel shows
// these registers only of stopped threads. A thread has six of them. So a row with at most that many direct blocks is listed as
// uncertain, and --stop decides.
//
// Exit codes: 0 (none), 1 (unreachable blocks), 2, 3, 4 (cannot tell: not settled, or only uncertain rows).
#ifndef HOLDFAST_REPORT_SHOW_UNREACHABLE_VIEW_H_
#define HOLDFAST_REPORT_SHOW_UNREACHABLE_VIEW_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace holdfast {

inline constexpr int kUnreachableUnknown = 4;

struct UnreachableOptions {
  std::string of_process;  // a PID, or a core file
  std::vector<std::string> tables, suppressions;
  bool stop = false;
  std::string format;       // text, json or csv
  std::string scan_memory;  // "" = half of the free memory
  size_t rows = 20;
};

int RunUnreachable(const UnreachableOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_UNREACHABLE_VIEW_H_
