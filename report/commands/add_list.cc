#include <iostream>
#include <memory>

#include "report/command_line/help.h"
#include "report/command_line/view_options.h"
#include "report/commands/commands.h"
#include "report/terminal/pager.h"
#include "report/views/source_listing.h"

namespace holdfast {

void AddListCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* list = app.add_subcommand("list", "Source lines of functions, with what each used");
  list->footer(
      "Prints the source of functions with self and total of each line. Needs a profile with source lines: they are "
      "in\n"
      "it where debug information was at hand when it was written, or after holdfast symbolize.\n"
      "\n"
      "  holdfast list parse_json app.4242.0003.heap.pb.gz\n"
      "  holdfast list --source-path ~/src/app parse_json app.4242.0003.heap.pb.gz    built elsewhere\n");
  list->add_option("FUNCTION", options->function, "A regular expression for names of functions")->required();
  AddFileOptions(list, &options->view);
  AddPeak(list, &options->view);
  list->add_option("--source-path,--source_path", options->source_paths,
                   "A folder to look for the source in, also several")
      ->type_name("DIR")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  list->add_option("--context", options->context, "Lines shown around each line that used something")
      ->check(WholeNumber())
      ->type_name("N")
      ->capture_default_str();
  AddErrors(list, &options->view);
  AddFilterOptions(list, &options->view);
  AddStyleOptions(list, &options->view);
  list->callback([options, invocation] {
    invocation->exit_code =
        Paged(options->view.pager, [&](std::ostream& out) { return RunList(*options, out, std::cerr); });
  });
}

}  // namespace holdfast
