#include <iostream>
#include <memory>

#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/run/doctor_surroundings.h"
#include "report/show/holders_view.h"
#include "report/show/pager.h"

namespace holdfast {

void AddHoldersCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<HoldersOptions>();
  auto pager = std::make_shared<bool>(true);
  auto is_json = std::make_shared<bool>(false);
  CLI::App* holders =
      app.add_subcommand("holders", "Show what keeps the memory of a running program, or in a core file, alive");
  holders->footer(
      "Answers: this memory is in use, but why? Reads the program's heap from outside, follows all pointers, and shows a\n"
      "tree by retained size: what would become free without this holder. A holder is a global variable, a function's\n"
      "frame on a thread's stack, thread-local variables, or a mapping. Below it are the blocks that it retains, by the\n"
      "calls that allocated them, by their class, or by their size. Blocks with several holders are listed once, below\n"
      "several holders together. The program is not stopped, unless --stop asks for it, and runs nothing for it.\n"
      "\n"
      "  holdfast holders 4242                      what holds the memory of process 4242\n"
      "  holdfast holders --of Session::Log 4242    what holds the blocks that this function allocated\n"
      "  holdfast holders --address 0x55550010 4242 the path from a root to the block at this address\n"
      "  holdfast holders --json 4242               the tree as JSON; --format csv: one line per row\n"
      "  holdfast holders --stop 4242               stops the program while its memory is copied: about 0.2 s for each GiB\n"
      "  holdfast holders core.4242                 the same from a core file\n"
      "\n"
      "Works for every program on glibc's malloc, also if Holdfast was not loaded. Profiled programs also show the calls\n"
      "that allocated the blocks: all with holdfast run --exact, otherwise the sampled ones. For other allocators the sizes\n"
      "of blocks are guessed from the pointers, and the answer says: approximate.\n"
      "\n"
      "Exit status: 0 fine, 2 wrong usage, 3 the process or the core file cannot be read.");
  holders->add_option("PID", options->of_process, "A process id, as holdfast ls lists them, or a core file")
      ->required();
  holders->add_option("--of", options->function, "Show only what holds blocks that this function allocated")
      ->type_name("FUNCTION");
  holders->add_option("--address", options->address, "Show the path from a root to the block at this address")
      ->type_name("ADDRESS");
  holders->add_option("--format", options->format, "Print as text, json or csv")
      ->type_name("FORMAT")
      ->check(OneOf({"text", "json", "csv"}));
  holders->add_flag("--json", *is_json, "The same as --format json");
  holders->add_option("--depth", options->depth, "Show at most N levels")
      ->check(WholeNumber())
      ->type_name("N")
      ->capture_default_str();
  holders->add_option("-n,--nodecount", options->rows, "Show at most N rows below each row")
      ->check(WholeNumber())
      ->type_name("N")
      ->capture_default_str();
  holders->add_flag("--stop", options->stop,
                    "Stop the process while its memory is copied: all of one moment, and finds pointers in registers");
  holders
      ->add_option("--scan-memory", options->scan_memory,
                   "Use at most this much memory, with --stop also for the copy [default: half of what is free]")
      ->type_name("SIZE");
  holders->add_option("--tables", options->tables, "The folder of the table files [default: all that are in use]")
      ->allow_extra_args(false);
  AddPager(holders, pager.get());
  holders->callback([options, pager, is_json, invocation] {
    SayIfEmulated();
    if (*is_json) options->format = "json";
    invocation->exit_code = Paged(*pager, [&](std::ostream& out) { return RunHolders(*options, out, std::cerr); });
  });
}

}  // namespace holdfast
