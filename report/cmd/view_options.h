// The options that several commands share, named as in pprof. Each option means the same in every command. A command
// adds only the options that have an effect there, so that its --help lists no others.
#ifndef HOLDFAST_REPORT_CMD_VIEW_OPTIONS_H_
#define HOLDFAST_REPORT_CMD_VIEW_OPTIONS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "report/show/selection.h"

namespace holdfast {

// `what` is the help text, as in "Show at most N functions; 0 = all".
void AddFileOptions(CLI::App* command, ViewOptions* options);                  // FILE…, --kind
void AddMetric(CLI::App* command, ViewOptions* options, const char* what);     // --metric
void AddUnit(CLI::App* command, ViewOptions* options);                         // --unit
void AddEnded(CLI::App* command, ViewOptions* options);                        // --ended
void AddPeak(CLI::App* command, ViewOptions* options);                         // --peak
void AddFilterOptions(CLI::App* command, ViewOptions* options);                // --focus … --no-inlines
void AddWaitingNow(CLI::App* command, ViewOptions* options);                   // --only; after AddFilterOptions
void AddRowOption(CLI::App* command, ViewOptions* options, const char* also);  // --by; `also`: more values of it
void AddStyleOptions(CLI::App* command, ViewOptions* options);                 // --format, --color, --width, --no-pager
void AddFullNames(CLI::App* command, ViewOptions* options);                    // --verbose
void AddPager(CLI::App* command, bool* pager);                                 // --no-pager
void AddCount(CLI::App* command, size_t* count, const char* what);             // -n
void AddOutput(CLI::App* command, std::string* path);                          // -o FILE
void AddCumulative(CLI::App* command, ViewOptions* options);                   // --cum
void AddPlumbing(CLI::App* command, std::vector<std::string>* patterns);  // --plumbing, and the patterns in .holdfast
// --fold none or plumbing, and --plumbing.
void AddFold(CLI::App* command, bool* folds, std::vector<std::string>* patterns, const char* what);
void AddErrors(CLI::App* command, ViewOptions* options);  // --error
void AddFraction(CLI::App* command, double* fraction);    // --nodefraction

// The options of a view of one set of profiles: AddFileOptions, AddMetric, AddEnded and AddPeak.
void AddViewedFiles(CLI::App* command, ViewOptions* options);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_CMD_VIEW_OPTIONS_H_
