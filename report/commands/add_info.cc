#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "report/base/say.h"
#include "report/commands/commands.h"
#include "report/views/info_command.h"

namespace holdfast {

void AddInfoCommand(CLI::App& app, Invocation* invocation) {
  auto files = std::make_shared<std::vector<std::string>>();
  CLI::App* info = app.add_subcommand("info", "What a profile says about itself: types, times, totals, losses");
  info->footer(
      "Prints what profiles hold: metrics and their totals with 95 % intervals, times, counts, mappings and every\n"
      "comment (process, command, sampling interval, losses, our own cost).\n"
      "\n"
      "  holdfast info app.4242.0003.heap.pb.gz\n"
      "  holdfast info holdfast.app.4242           the newest of each process and kind\n");
  info->add_option("FILE", *files,
                   "Profiles in pprof's format, gzip or plain; a folder stands for its newest; - is standard input")
      ->required();
  info->callback([files, invocation] { invocation->exit_code = Finished(RunInfo(*files, std::cout, std::cerr)); });
}

}  // namespace holdfast
