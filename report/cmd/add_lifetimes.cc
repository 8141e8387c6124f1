#include <iostream>
#include <memory>

#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/show/lifetimes.h"
#include "report/show/pager.h"

namespace holdfast {

void AddLifetimesCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<LifetimesOptions>();
  options->view.stacks.fold_plumbing = true;
  CLI::App* lifetimes =
      app.add_subcommand("lifetimes", "Show how long blocks live, and which functions allocate temporaries");
  lifetimes->footer(
      "Prints one row per allocating function: the bytes of its blocks that were freed, and their ages. Blocks that live for a\n"
      "microsecond can usually move to the stack or be reused, and temporaries (freed before their thread allocated again)\n"
      "nearly always. Old blocks that another thread frees cost most, because their memory is cold and remote.\n"
      "\n"
      "  holdfast lifetimes holdfast.app.4242                    by allocating function; most bytes first\n"
      "  holdfast lifetimes --sort temporary holdfast.app.4242   most temporaries first\n"
      "  holdfast lifetimes --by freed holdfast.app.4242         by freeing thread: temporary, same, other\n"
      "  holdfast lifetimes --by age holdfast.app.4242           by age, on a scale of 1, 2, 5, 10\n"
      "  holdfast lifetimes --tagfocus freed=temporary --by line holdfast.app.4242\n"
      "                                                          only temporaries, by source line\n"
      "  holdfast top --by age holdfast.app.4242                 the age of memory in use: the oldest is often the leak\n"
      "\n"
      "freed%   share of all freed bytes     ≤1us ≤1ms ≤1s   share of its freed bytes that were at most this old\n"
      "median   median age of its freed blocks, to the precision of a bucket; mean: mean age\n"
      "temp%    share of its freed blocks that were temporaries; other%: share freed by another thread\n"
      "±ages    95 % half-width of each of these shares, in percentage points: only some blocks have a known age\n"
      "alive    live blocks, as in the heap profile of the same moment; they are not part of the ages\n"
      "         JSON and CSV: bytes and ns; null or blank if unknown\n"
      "\n"
      "Values are estimates from sampled blocks; ± is the 95 % half-width. The files, *.lifetimes.pb.gz, are written for\n"
      "processes that run for at least a second (holdfast run --lifetimes yes: for all). A realloc ends one life and begins\n"
      "another.\n"
      "Exit status: 0 fine, 2 wrong usage, 3 a file cannot be read.");
  lifetimes
      ->add_option("FILE", options->view.files,
                   "Lifetimes profiles, other profiles of the same process, or folders of them")
      ->required();
  lifetimes->add_option("--sort", options->sort, "freed, objects, temporary, mean or alive")
      ->type_name("WHAT")
      ->capture_default_str();
  AddCount(lifetimes, &options->view.node_count, "Show at most N rows; 0 = all");
  AddFilterOptions(lifetimes, &options->view);
  AddRowOption(lifetimes, &options->view,
               ";\nage: the age of blocks when they were freed; freed: temporary, same thread or other thread");
  AddStyleOptions(lifetimes, &options->view);
  AddFullNames(lifetimes, &options->view);
  lifetimes->callback([options, invocation] {
    invocation->exit_code =
        Paged(options->view.pager, [&](std::ostream& out) { return RunLifetimes(*options, out, std::cerr); });
  });
}

}  // namespace holdfast
