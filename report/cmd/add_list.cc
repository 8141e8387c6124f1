#include <iostream>
#include <memory>

#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/show/pager.h"
#include "report/show/source_listing.h"

namespace holdfast {

void AddListCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* list = app.add_subcommand("list", "Show the source lines of a function with the values of each line");
  list->footer(
      "Prints the source of functions with the self and total value of each line. The profile must contain source lines: it\n"
      "does if debug information was available when it was written, or after holdfast symbolize.\n"
      "\n"
      "  holdfast list parse_json app.4242.0003.heap.pb.gz\n"
      "  holdfast list --source-path ~/src/app parse_json app.4242.0003.heap.pb.gz    built elsewhere\n");
  list->add_option("FUNCTION", options->function, "A regular expression for function names")->required();
  AddViewedFiles(list, &options->view);
  AddUnit(list, &options->view);
  list->add_option("--source-path,--source_path", options->source_paths,
                   "A folder to search for source files (repeatable)")
      ->type_name("DIR")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  list->add_option("--context", options->context, "Show N lines around each line that has a value")
      ->check(WholeNumber())
      ->type_name("N")
      ->capture_default_str();
  AddErrors(list, &options->view);
  AddFilterOptions(list, &options->view);
  AddWaitingNow(list, &options->view);
  AddStyleOptions(list, &options->view);
  list->callback([options, invocation] {
    invocation->exit_code =
        Paged(options->view.pager, [&](std::ostream& out) { return RunList(*options, out, std::cerr); });
  });
}

}  // namespace holdfast
