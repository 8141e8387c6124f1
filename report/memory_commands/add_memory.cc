#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "report/base/say.h"
#include "report/commands/commands.h"
#include "report/memory/account_text.h"
#include "report/processes/find_tables.h"
#include "report/terminal/fitted_text.h"
#include "report/terminal/pager.h"

namespace holdfast {
namespace {

struct MemoryOptions {
  std::vector<std::string> pids, tables;
  bool json = false;
};

absl::Status Print(const std::string& text, const MemoryOptions& options) {
  const absl::StatusOr<pid_t> pid = ParsePid(text);
  if (!pid.ok()) return pid.status();
  if (const absl::Status status = BecomeUserOf(*pid); !status.ok()) return status;
  const absl::StatusOr<ProcessTable> process = FindTableOf(*pid, options.tables);
  if (!process.ok()) return process.status();
  const absl::StatusOr<MemoryAccount> account = ReadAccount(*pid, process->table);
  if (!account.ok()) return account.status();
  std::cout << (options.json ? AccountJson(*account, *pid)
                             : WrappedLines(AccountText(*account, process->Name()), ScreenWidth()));
  return absl::OkStatus();
}

int RunMemory(const MemoryOptions& options) {
  int code = kFine;
  for (size_t i = 0; i < options.pids.size(); ++i) {
    if (i > 0 && !options.json) std::cout << "\n";
    if (const absl::Status status = Print(options.pids[i], options); !status.ok()) code = Failed(status);
  }
  return code;
}

}  // namespace

void AddMemoryCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<MemoryOptions>();
  CLI::App* memory =
      app.add_subcommand("memory", "Where the resident memory of a running program is, to the last byte");
  memory->footer(
      "For the question after every heap profile: the process has 4 GiB resident, and the profile says 1.5. Every resident\n"
      "byte is in one line, and the lines add up to what the kernel says. The program takes no part in it and is not stopped.\n"
      "\n"
      "  holdfast memory 4242          one screen\n"
      "  holdfast memory --json 4242   for programs, a line a process; in bytes\n"
      "\n"
      "  live blocks      what was allocated and not freed, as far as it is resident: estimated from the sampled blocks, whose\n"
      "                   pages are looked up in the page table; ± is the 95 % interval\n"
      "  allocator beyond free blocks, headers, rounding: what is resident of the allocator's mappings, less the live blocks.\n"
      "                   Its mappings are those in which sampled live blocks lie, the heap, and glibc's arenas\n"
      "  the rest         mappings without a name in which no sampled block lies: the program's own, or an allocator's that are\n"
      "                   free or too small to have been sampled (a smaller --heap-interval tells more of them apart)\n"
      "\n"
      "Exit status: 0 fine, 2 wrong usage, 3 it could not be done.");
  memory->add_option("PID", options->pids, "The processes, as holdfast ls shows them")->required();
  memory->add_flag("--json", options->json, "All of it, for programs");
  memory->add_option("--tables", options->tables, "Folder of table files to look into [default: all that are in use]")
      ->allow_extra_args(false);
  memory->callback([options, invocation] { invocation->exit_code = RunMemory(*options); });
}

}  // namespace holdfast
