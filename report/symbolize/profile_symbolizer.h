// Gives the locations of a profile names, source lines and inlined functions.
//
//   no name   `libfoo.so.1!0x1234`, the ELF address: equal from run to run. `[vdso]!0x…`; `[unknown]!0x…` (the runtime
//             address) for code in no file that no perf map names
//
// What could not be had is said in comments, one for each file:
//   no names: /path: why        its locations have synthetic names
//   no lines: /path: why        names without lines, though debug information is there: not in time, a part is missing
// A file that simply has no debug information is not a comment; Report has it.
#ifndef HOLDFAST_REPORT_SYMBOLIZE_PROFILE_SYMBOLIZER_H_
#define HOLDFAST_REPORT_SYMBOLIZE_PROFILE_SYMBOLIZER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/base/time_budget.h"
#include "report/pprof/profile.h"
#include "report/symbolize/module_symbolizer.h"

namespace holdfast {

struct SymbolizeOptions {
  bool lines = true;                      // names only without
  Deadline deadline = Deadline::Never();  // for lines; names come in any case
  bool perf_map = false;                  // names of JIT code from /tmp/perf-PID.map
  bool files = true;                      // false: opens none, so that all names are synthetic; next to no memory
};

struct SymbolizeReport {
  size_t locations = 0, named = 0, with_lines = 0;
  bool in_time = true;  // false: the deadline came before all lines were read
  std::vector<std::pair<std::string, std::string>> no_names, no_lines;  // path, why; in the order of the mappings
};

// How a `no lines` comment says that the deadline came first: such a file is completed later.
inline constexpr std::string_view kNotInTime = "not in time";

// Locations that have lines of source keep what they have. The others are looked up, and keep what they have when
// nothing is found. Sets the has_ flags of the mappings, and replaces earlier comments of ours.
SymbolizeReport Symbolize(Profile* profile, ModuleSymbolizer& symbolizer, const SymbolizeOptions& options = {});

// Takes names and lines away: what is left is addresses, mappings and build ids. Locations in no mapping keep theirs
// (`[truncated]`, JIT code): nobody could find those out again.
void StripSymbols(Profile* profile, bool keep_names);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SYMBOLIZE_PROFILE_SYMBOLIZER_H_
