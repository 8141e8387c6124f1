// A profile in the formats of other tools, filters applied. Values are the profile's own numbers (bytes, nanoseconds).
//
//   folded      root;…;leaf N          one metric; flamegraph.pl, inferno, speedscope. ';' in names becomes ':'
//   speedscope  JSON                   every metric a profile of its own, inlined functions included
//   callgrind   text                   every metric an event; callgrind_annotate, KCachegrind
//   csv         a row for each sample  every metric, every label, the stack
//   heap        text                   the old format of tcmalloc: addresses only; google-pprof, jeprof, go tool pprof
#ifndef HOLDFAST_REPORT_EXPORT_FORMATS_H_
#define HOLDFAST_REPORT_EXPORT_FORMATS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "report/view.h"

namespace holdfast {

inline constexpr std::string_view kExportFormats[] = {"folded", "speedscope", "callgrind", "csv", "heap"};

// InvalidArgument: no such format, or one that does not fit the profile.
absl::StatusOr<std::string> ExportText(std::string_view format, const View& view, const ViewOptions& options);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_FORMATS_H_
