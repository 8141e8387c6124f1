// Shell completions and man pages (the commands: add_completion.cc), made from the one description of the commands: what
// CLI11 was told. A new command or option needs no line here.
//
//   holdfast completion bash|zsh|fish      prints a completion script
//   holdfast man-pages DIR                 writes holdfast.1 and holdfast-<command>.1 (hidden; the build calls it)
#ifndef HOLDFAST_REPORT_COMMAND_LINE_COMPLETION_H_
#define HOLDFAST_REPORT_COMMAND_LINE_COMPLETION_H_

#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"

namespace holdfast {

// InvalidArgument for a shell that is not known.
absl::StatusOr<std::string> CompletionFor(std::string_view shell, const CLI::App& app);

// Name (holdfast.1) and text of each page.
std::vector<std::pair<std::string, std::string>> ManPages(const CLI::App& app);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMAND_LINE_COMPLETION_H_
