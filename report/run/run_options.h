// The options of `holdfast run`, and the environment variables that carry them to the library in the program.
//
//     holdfast run -o DIR --heap-interval 1MiB -- redis-server --port 7000
//                  ╰──────── ours ───────────╯    ╰── the program's own ──╯
//
// One table (in the .cc) lists each option with its variable, default and values. Values are checked here and passed on
// as plain numbers, so that the library in the program never has to reject one.
#ifndef HOLDFAST_REPORT_RUN_RUN_OPTIONS_H_
#define HOLDFAST_REPORT_RUN_RUN_OPTIONS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"

namespace holdfast {

struct RunOptions {
  std::string out;     // as given; empty: ./holdfast.<program>.<pid>
  std::string tables;  // as given; empty: the default folders
  bool exec = false;
  bool html = false;
  bool leak_check = false;
  std::vector<std::string> suppressions;  // for the leak check: files
  std::string scan_memory;                // for the leak check; empty: half of the free memory
  bool quiet = false;
  int verbose = 0;
  std::map<std::string, std::string> variables;  // HOLDFAST_… of the options that were given
};

// Adds the options to the subcommand. For an invalid value, parsing throws CLI::ValidationError with a message that
// names the option and its valid values.
void AddRunOptions(CLI::App& run, RunOptions* options);

// Returns how many of `arguments` (the words after `run`) are our options and their values: all up to the first word
// that is neither, or up to `--`. Stores the rest in `program`, without that `--`. `run` knows which options take a
// value.
size_t SplitProgram(const CLI::App& run, const std::vector<std::string>& arguments, std::vector<std::string>* program);

// Converts a value to the form that the library takes: ("heap-interval", "512KiB") → "524288".
absl::StatusOr<std::string> NormalizeRunOption(std::string_view option, const std::string& value);

// Returns the program's environment: `environment` with the variables set, and with an LD_PRELOAD that begins with
// `library` (once).
std::vector<std::string> ProgramEnvironment(const char* const* environment, const std::string& library,
                                            const std::map<std::string, std::string>& variables);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_RUN_OPTIONS_H_
