#include <iostream>
#include <memory>

#include "report/command_line/help.h"
#include "report/command_line/view_options.h"
#include "report/commands/commands.h"
#include "report/lifetimes/lifetimes.h"
#include "report/terminal/pager.h"

namespace holdfast {

void AddLifetimesCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<LifetimesOptions>();
  options->view.stacks.fold_plumbing = true;
  CLI::App* lifetimes = app.add_subcommand("lifetimes", "How long blocks live: who allocates what is freed at once");
  lifetimes->footer(
      "One row for each function: what was freed of its blocks, and at which age. Blocks that live for a microsecond could be\n"
      "on the stack, or be kept and used again; temporaries (freed before their thread allocated anything else) nearly always.\n"
      "Blocks that live long and are freed by another thread cost most: their memory is cold and far away.\n"
      "\n"
      "  holdfast lifetimes holdfast.app.4242                    by the function that allocated; most bytes first\n"
      "  holdfast lifetimes --sort temporary holdfast.app.4242   who makes most temporaries\n"
      "  holdfast lifetimes --by freed holdfast.app.4242         by whom they are freed\n"
      "  holdfast lifetimes --by age holdfast.app.4242           by age, on a scale of 1, 2, 5, 10\n"
      "  holdfast lifetimes --tagfocus freed=temporary --by line holdfast.app.4242\n"
      "                                                          temporaries alone, by source line\n"
      "  holdfast top --by age holdfast.app.4242                 how old what is in use is: the oldest is often the leak\n"
      "\n"
      "freed%   of all freed bytes           ≤1us ≤1ms ≤1s   of its freed bytes, at most so old when they were freed\n"
      "median   half of its blocks lived no longer, within their bucket; mean: of all its freed blocks\n"
      "temp%    of its freed blocks, temporaries; other%: freed by another thread than the one that allocated\n"
      "±ages    half of the 95 % interval of each of these shares, in percentage points: ages are known of some blocks only\n"
      "alive    live blocks, as the heap profile of the same moment has them: not in the ages, as nobody knows yet how long\n"
      "         they will live. JSON and CSV: bytes and ns; null or nothing if it is not known\n"
      "\n"
      "Estimates from sampled blocks; ± is the 95 % interval. The files: *.lifetimes.pb.gz, of processes that last a second\n"
      "(holdfast run --lifetimes yes: of all). A realloc ends one life and begins another.\n"
      "Exit status: 0 fine, 2 wrong usage, 3 it could not be done.");
  lifetimes
      ->add_option("FILE", options->view.files,
                   "Lifetimes profiles, or any profile of the process beside one; a folder of them")
      ->required();
  lifetimes->add_option("--sort", options->sort, "freed, objects, temporary, mean or alive")
      ->type_name("WHAT")
      ->capture_default_str();
  AddCount(lifetimes, &options->view.node_count, "How many rows, 0 = all");
  AddFilterOptions(lifetimes, &options->view);
  AddStyleOptions(lifetimes, &options->view);
  lifetimes->callback([options, invocation] {
    invocation->exit_code =
        Paged(options->view.pager, [&](std::ostream& out) { return RunLifetimes(*options, out, std::cerr); });
  });
}

}  // namespace holdfast
