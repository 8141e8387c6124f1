// The options that several commands share, named as in pprof. Each option means the same in every command.
#ifndef HOLDFAST_REPORT_COMMAND_LINE_VIEW_OPTIONS_H_
#define HOLDFAST_REPORT_COMMAND_LINE_VIEW_OPTIONS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "report/views/selection.h"

namespace holdfast {

void AddFileOptions(CLI::App* command, ViewOptions* options);             // FILE…, --metric, --kind, --unit
void AddPeak(CLI::App* command, ViewOptions* options);                    // --peak
void AddFilterOptions(CLI::App* command, ViewOptions* options);           // --focus … --by
void AddStyleOptions(CLI::App* command, ViewOptions* options);            // --format, --color, --width, --no-pager
void AddPager(CLI::App* command, bool* pager);                            // --no-pager
void AddCount(CLI::App* command, size_t* count, const char* what);        // -n; `what`: "How many functions, 0 = all"
void AddOutput(CLI::App* command, std::string* path);                     // -o FILE
void AddCumulative(CLI::App* command, ViewOptions* options);              // --cum
void AddPlumbing(CLI::App* command, std::vector<std::string>* patterns);  // --plumbing, and the patterns in .holdfast
// --fold none or plumbing; call AddPlumbing as well. `what`: what is left out, for the help text.
void AddFold(CLI::App* command, bool* folds, std::vector<std::string>* patterns, const char* what);
void AddErrors(CLI::App* command, ViewOptions* options);  // --error
void AddFraction(CLI::App* command, double* fraction);    // --nodefraction

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMAND_LINE_VIEW_OPTIONS_H_
