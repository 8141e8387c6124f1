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
// `leaks PID` and `run --leak-check` show the same report.
//
// Exit codes: 0 (none), 1 (unreachable blocks), 2, 3, 4 (cannot tell: not settled, or only uncertain rows).
#ifndef HOLDFAST_REPORT_SHOW_UNREACHABLE_VIEW_H_
#define HOLDFAST_REPORT_SHOW_UNREACHABLE_VIEW_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/analysis/growth/suppressions.h"
#include "report/holders/unreachable.h"
#include "report/show/check_formats.h"
#include "report/show/observed_process.h"
#include "report/show/tracing_rights.h"

namespace holdfast {

inline constexpr int kUnreachableUnknown = 4;

struct UnreachableOptions {
  std::string of_process;  // a PID, or a core file
  std::vector<std::string> tables, suppressions;
  bool stop = false;
  std::string format;       // text, json, csv, markdown or junit
  std::string scan_memory;  // "" = half of the free memory
  size_t rows = 20;
};

int RunUnreachable(const UnreachableOptions& options, std::ostream& out, std::ostream& err);

struct UnreachableRow {
  std::string label;             // "leak_lists ← main", a class, or "blocks of up to 64B"
  ObservedProcess::Calls stack;  // all functions, innermost first
  double bytes = 0, blocks = 0, variance = 0;
  uint64_t found = 0, direct = 0;  // blocks that were found, without weights
  bool is_certain = true;
  bool is_suppressed = false;

  bool IsFinding() const { return is_certain && !is_suppressed; }
  int64_t WholeBytes() const;
  int64_t WholeBlocks() const;
  int64_t ErrorBytes() const;  // 95 % half-width
};

// The unreachable memory of one process, or that the scans cannot tell.
struct UnreachableReport {
  int64_t pid = 0;
  std::string process;  // "server (pid 4242)"
  Unreachable found = {};
  uint64_t bytes = 0;                     // of all found blocks
  std::vector<UnreachableRow> rows = {};  // largest first
  int64_t stopped_ns = 0;                 // how long the process was stopped; 0: it was not
  bool has_table = false;
  bool is_core = false;
  bool has_suppressions = false;
  SearchLimits limits = {};

  bool FoundNoBlocks() const;
  bool Understands() const;
  // Most of the memory may be blocks of an allocator that is not understood.
  bool KnowsLittle() const;
  int ExitCode() const;
  // "no pointer found to 15.1MiB in 6012 blocks, of 20MiB in 9000 (9 scans, settled)", or why this is unknown.
  std::string Sentence() const;
  // The parts that the search did not cover, in lines; "": none.
  std::string Limits() const;
  // The answer is unknown, and a search of the stopped process would be certain.
  bool StopDecides() const;
};

struct ScanChoice {
  bool stop = false;
  uint64_t most_bytes = UINT64_MAX;       // of our memory
  const TracingRights* rights = nullptr;  // for `stop`, if we were root
};
absl::StatusOr<UnreachableReport> FindUnreachableOf(ObservedProcess* process, const Suppressions& suppressions,
                                                    const ScanChoice& choice);

// The report as text, with at most `rows` rows (0: all).
std::string UnreachableText(const UnreachableReport& report, size_t rows);
std::string UnreachableJson(const UnreachableReport& report);
// For a list of tests, or for a comment: one outcome for each row, or one for a process that has none.
std::vector<Outcome> UnreachableOutcomes(const UnreachableReport& report);

// The estimated cost of a scan.
struct ScanEstimate {
  double cpu_seconds = 0;
  uint64_t bytes = 0;  // of our memory
};
ScanEstimate EstimateScan(ObservedProcess* process);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_UNREACHABLE_VIEW_H_
