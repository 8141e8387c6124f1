// Writes a profile in the formats of other tools, with filters applied. Values keep the profile's own units (bytes,
// nanoseconds).
//
//   folded      root;…;leaf N          one metric; flamegraph.pl, inferno, speedscope. ';' in names becomes ':'
//   speedscope  JSON                   each metric is a profile of its own; includes inlined functions
//   callgrind   text                   each metric is an event; callgrind_annotate, KCachegrind
//   csv         a row for each sample  every metric, every label, the stack
//   heap        text                   the old format of tcmalloc: addresses only; google-pprof, jeprof, go tool pprof
#ifndef HOLDFAST_REPORT_SHOW_EXPORT_FORMATS_H_
#define HOLDFAST_REPORT_SHOW_EXPORT_FORMATS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "report/show/selection.h"
#include "report/show/text_writer.h"

namespace holdfast {

inline constexpr std::string_view kExportFormats[] = {"folded", "speedscope", "callgrind", "csv", "heap"};

// Writes the profile to `sink`. Returns InvalidArgument for an unknown format, or one that does not fit the profile;
// then the sink was not called. 1,000,000 stacks of 30 frames are 0.2 to 1 GB of text; at most 2 MB of it are in
// memory.
absl::Status ExportTo(std::string_view format, const View& view, const ViewOptions& options, const TextSink& sink);
// The same, as one string.
absl::StatusOr<std::string> ExportText(std::string_view format, const View& view, const ViewOptions& options);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_EXPORT_FORMATS_H_
