// The options of `holdfast run`, and the environment through which they reach the library in the program.
//
//     holdfast run -o DIR --heap-interval 1MiB -- redis-server --port 7000
//                  ╰──────── ours ───────────╯    ╰── the program's own ──╯
//
// One table (in the .cc) has each option with its variable, its default and what it takes. Values are checked here, and
// handed on as plain numbers, so that the library in the program never has to refuse one.
#ifndef HOLDFAST_REPORT_PROCESSES_RUN_OPTIONS_H_
#define HOLDFAST_REPORT_PROCESSES_RUN_OPTIONS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"

namespace holdfast {

struct RunOptions {
  std::string out;     // as given; empty: ./holdfast.<program>.<pid>
  std::string tables;  // as given; empty: the default places
  bool exec = false;
  bool html = false;
  bool quiet = false;
  int verbose = 0;
  std::map<std::string, std::string> variables;  // HOLDFAST_…, of the options that were given
};

// Adds them to the subcommand. Parsing throws CLI::ValidationError for a bad value, with a message that names the
// option and what it takes.
void AddRunOptions(CLI::App& run, RunOptions* options);

// How many of `arguments` (what stands behind `run`) are options of ours and their values: up to the first word that is
// neither, or `--`. `program` gets the rest, without that `--`. `run` knows which options take a value.
size_t SplitProgram(const CLI::App& run, const std::vector<std::string>& arguments, std::vector<std::string>* program);

// The value that the library takes for this option, e.g. ("heap-interval", "512KiB") → "524288".
absl::StatusOr<std::string> NormalizeRunOption(std::string_view option, const std::string& value);

// What the program gets: `environment` with LD_PRELOAD beginning with `library` (once) and the variables set.
std::vector<std::string> ProgramEnvironment(const char* const* environment, const std::string& library,
                                            const std::map<std::string, std::string>& variables);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_RUN_OPTIONS_H_
