#include <iostream>
#include <memory>

#include "report/base/say.h"
#include "report/command_line/help.h"
#include "report/command_line/view_options.h"
#include "report/commands/commands.h"
#include "report/terminal/pager.h"
#include "report/views/top.h"

namespace holdfast {

void AddTopCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* top = app.add_subcommand("top", "The functions that use most: a flat table");
  top->footer(
      "Prints the functions of profiles, the largest first.\n"
      "self is what a function used directly, total what it and all that it called used.\n"
      "Files of several processes are added up; of several snapshots of one process the newest counts.\n"
      "\n"
      "  holdfast top app.4242.0003.heap.pb.gz                    memory in use, by the function that holds it\n"
      "  holdfast top --cum --metric alloc_space *.heap.pb.gz     all that was ever allocated, callers first\n"
      "  holdfast top --peak holdfast.app.4242                    who held it when most was in use\n"
      "  holdfast top --by age holdfast.app.4242                  since when what is in use has been, the oldest first\n"
      "  holdfast top --by object --error holdfast.app.4242       which library, and how sure that is\n"
      "  holdfast top --focus json --fold system holdfast.app.4242\n"
      "                                                           only what parsing JSON holds\n"
      "  holdfast top -n 0 --unit bytes app.4242.0003.heap.pb.gz  every function, plain numbers\n");
  AddFileOptions(top, options.get());
  AddPeak(top, options.get());
  AddCumulative(top, options.get());
  AddCount(top, &options->node_count, "How many functions, 0 = all");
  AddErrors(top, options.get());
  AddFilterOptions(top, options.get());
  AddStyleOptions(top, options.get());
  top->callback([options, invocation] {
    invocation->exit_code = Paged(options->pager, [&](std::ostream& out) { return RunTop(*options, out, std::cerr); });
  });
}

void AddPeekCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<ViewOptions>();
  auto pattern = std::make_shared<std::string>();
  CLI::App* peek = app.add_subcommand("peek", "One function: who called it, whom it called");
  peek->footer(
      "Prints each function that matches with its callers above and its callees below; flow is what went along the\n"
      "call, flow% its share of the function's total.\n"
      "\n"
      "  holdfast peek '^hashTypeSet$' app.4242.0003.heap.pb.gz\n");
  peek->add_option("FUNCTION", *pattern, "A regular expression for names of functions")->required();
  AddFileOptions(peek, options.get());
  AddPeak(peek, options.get());
  AddCount(peek, &options->node_count, "How many of the functions that match, 0 = all");
  AddFilterOptions(peek, options.get());
  AddStyleOptions(peek, options.get());
  peek->callback([options, pattern, invocation] {
    invocation->exit_code =
        Paged(options->pager, [&](std::ostream& out) { return RunPeek(*options, *pattern, out, std::cerr); });
  });
}

}  // namespace holdfast
