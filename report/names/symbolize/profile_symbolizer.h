// Gives the locations of a profile names, source lines and inlined functions.
//
//  no name   `libfoo.so.1!0x1234` with the ELF address, equal from run to run; `[vdso]!0x…`; or `[unknown]!0x…` (the run-time
//            address) for code outside files that no perf map names
//
// Comments report missing names and lines, one for each file:
//  no names: /path: why        its locations have synthetic names
//  no lines: /path: why        names without lines despite debug information: out of time, or a part is missing
// Files without any debug information are not in the comments; SymbolizeReport lists them.
#ifndef HOLDFAST_REPORT_NAMES_SYMBOLIZE_PROFILE_SYMBOLIZER_H_
#define HOLDFAST_REPORT_NAMES_SYMBOLIZE_PROFILE_SYMBOLIZER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/base/time_budget.h"
#include "report/names/symbolize/module_symbolizer.h"
#include "report/profile/profile.h"

namespace holdfast {

struct SymbolizeOptions {
  bool lines = true;                      // false: names only
  Deadline deadline = Deadline::Never();  // for lines; names are looked up in any case
  bool perf_map = false;                  // read names of JIT-compiled code from /tmp/perf-PID.map
  // false: open no files, so that all names are synthetic; needs almost no memory.
  bool files = true;
};

struct SymbolizeReport {
  size_t locations = 0, named = 0, with_lines = 0;
  bool in_time = true;  // false: the deadline passed before all lines were read
  std::vector<std::pair<std::string, std::string>> no_names, no_lines;  // path and reason, in the order of the mappings
};

// The reason in a `no lines` comment if the deadline passed: such a file is completed later.
inline constexpr std::string_view kNotInTime = "not in time";

// Keeps locations that have source lines. Looks up the others, and keeps them unchanged if nothing is found. Sets the
// has_ flags of the mappings, and replaces our earlier comments.
SymbolizeReport Symbolize(Profile* profile, ModuleSymbolizer& symbolizer, const SymbolizeOptions& options = {});

// Removes names and lines, leaving addresses, mappings and build ids. Locations without a mapping keep their names
// (`[truncated]`, JIT-compiled code), because these could not be recovered.
void StripSymbols(Profile* profile, bool keep_names);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_SYMBOLIZE_PROFILE_SYMBOLIZER_H_
