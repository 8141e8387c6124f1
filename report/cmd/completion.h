// Shell completions and man pages, generated from the description of the commands that CLI11 holds. A new command or
// option needs no change here. The commands are in add_completion.cc.
//
//   holdfast completion bash|zsh|fish      prints a completion script
//   holdfast man-pages DIR                 writes holdfast.1 and holdfast-<command>.1 (hidden; the build calls it)
#ifndef HOLDFAST_REPORT_CMD_COMPLETION_H_
#define HOLDFAST_REPORT_CMD_COMPLETION_H_

#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"

namespace holdfast {

// Returns InvalidArgument for an unknown shell.
absl::StatusOr<std::string> CompletionFor(std::string_view shell, const CLI::App& app);

// Returns the name (such as holdfast.1) and the text of each page.
std::vector<std::pair<std::string, std::string>> ManPages(const CLI::App& app);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_CMD_COMPLETION_H_
