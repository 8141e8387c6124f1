#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "report/cmd/commands.h"
#include "report/cmd/view_options.h"
#include "report/show/fitted_text.h"
#include "report/show/info_command.h"
#include "report/show/pager.h"

namespace holdfast {

void AddInfoCommand(CLI::App& app, Invocation* invocation) {
  auto files = std::make_shared<std::vector<std::string>>();
  CLI::App* info = app.add_subcommand("info", "Show what a profile contains: metrics, times, totals, losses");
  info->footer(
      "Prints metrics and their totals with 95 % intervals, times, counts, mappings and every comment (process, command,\n"
      "sampling interval, losses, the cost of profiling).\n"
      "\n"
      "  holdfast info app.4242.0003.heap.pb.gz\n"
      "  holdfast info holdfast.app.4242           the newest of each process and kind\n");
  info->add_option(
          "FILE", *files,
          "Profiles in pprof's format (gzip or plain), or folders of them (shows the newest); - is standard input")
      ->required();
  auto pager = std::make_shared<bool>(true);
  AddPager(info, pager.get());
  info->callback([files, pager, invocation] {
    invocation->exit_code = Paged(*pager, [&](std::ostream& out) {
      std::ostringstream text;
      const int exit_code = RunInfo(*files, text, std::cerr);
      out << WrappedLines(text.str(), ScreenWidth());
      return exit_code;
    });
  });
}

}  // namespace holdfast
