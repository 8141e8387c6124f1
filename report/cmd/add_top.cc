#include <iostream>
#include <memory>

#include "report/base/say.h"
#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/show/pager.h"
#include "report/show/top.h"

namespace holdfast {

void AddTopCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* top = app.add_subcommand("top", "Show the functions with the largest values in a flat table");
  top->footer(
      "Prints the functions of profiles, the largest first. self is the value of a function alone, total includes everything\n"
      "that it called. Profiles of several processes are added up; of several snapshots of one process only the newest is\n"
      "used.\n"
      "\n"
      "  holdfast top app.4242.0003.heap.pb.gz                    memory in use, by allocating function\n"
      "  holdfast top --cum --metric alloc_space *.heap.pb.gz     all allocations since the start, callers first\n"
      "  holdfast top --peak holdfast.app.4242                    memory in use at the peak\n"
      "  holdfast top --by age holdfast.app.4242                  the age of memory in use, oldest first\n"
      "  holdfast top --by object --error holdfast.app.4242       by library, with the sampling error\n"
      "  holdfast top --focus json --fold system holdfast.app.4242\n"
      "                                                           only stacks that parse JSON\n"
      "  holdfast top -n 0 --unit bytes app.4242.0003.heap.pb.gz  every function, in bytes\n");
  AddViewedFiles(top, options.get());
  AddUnit(top, options.get());
  AddCumulative(top, options.get());
  AddCount(top, &options->node_count, "Show at most N rows; 0 = all");
  AddErrors(top, options.get());
  AddFilterOptions(top, options.get());
  AddWaitingNow(top, options.get());
  AddRowOption(top, options.get(),
               ";\nage: how long memory in use has lived, oldest first; size: a histogram of block sizes");
  AddStyleOptions(top, options.get());
  AddFullNames(top, options.get());
  top->callback([options, invocation] {
    invocation->exit_code = Paged(options->pager, [&](std::ostream& out) { return RunTop(*options, out, std::cerr); });
  });
}

void AddPeekCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<ViewOptions>();
  auto pattern = std::make_shared<std::string>();
  CLI::App* peek = app.add_subcommand("peek", "Show the callers and callees of a function");
  peek->footer(
      "Prints each matching function with its callers above and its callees below. flow is the value that the call\n"
      "contributes, flow% its share of the function's total.\n"
      "\n"
      "  holdfast peek '^hashTypeSet$' app.4242.0003.heap.pb.gz\n");
  peek->add_option("FUNCTION", *pattern, "A regular expression for function names")->required();
  AddViewedFiles(peek, options.get());
  AddUnit(peek, options.get());
  AddCount(peek, &options->node_count, "Show at most N matching functions; 0 = all");
  AddFilterOptions(peek, options.get());
  AddWaitingNow(peek, options.get());
  AddRowOption(peek, options.get(), "");
  AddStyleOptions(peek, options.get());
  AddFullNames(peek, options.get());
  peek->callback([options, pattern, invocation] {
    invocation->exit_code =
        Paged(options->pager, [&](std::ostream& out) { return RunPeek(*options, *pattern, out, std::cerr); });
  });
}

}  // namespace holdfast
