#include <iostream>
#include <memory>

#include "report/base/say.h"
#include "report/command_line/help.h"
#include "report/command_line/view_options.h"
#include "report/commands/commands.h"
#include "report/comparisons/check.h"

namespace holdfast {

void AddCheckCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<CheckOptions>();
  options->view.format = "text";
  CLI::App* check =
      app.add_subcommand("check", "Budgets for continuous integration: exit status 1 when one is not kept");
  check->footer(
      "  holdfast check --max 'inuse_space:ParseJson=10MB' --max 'alloc_space=2GB' holdfast.app.4242\n"
      "  holdfast check --budgets budgets.txt --markdown --junit holdfast.xml holdfast.app.4242 >comment.md\n"
      "  holdfast check --base main.heap.pb.gz --fail-above 5% --markdown branch.heap.pb.gz\n"
      "  holdfast check --max-growth 1MiB/h holdfast.app.4242\n"
      "\n"
      "Exit status 0: every budget is kept. 1: one is not. 2: wrong usage. 3: the files cannot be read; that is no\n"
      "verdict.\n");
  AddFileOptions(check, &options->view);
  check
      ->add_option("--max", options->max,
                   "METRIC:FUNCTION=LIMIT or METRIC=LIMIT; FUNCTION is a regular expression, and fails\n"
                   "where it matches nothing; also several")
      ->type_name("BUDGET")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  check->add_option("--max-optional", options->max_optional, "The same, and kept where FUNCTION matches nothing")
      ->type_name("BUDGET")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  check
      ->add_option("--budgets", options->budgets,
                   "A file with one budget a line, as --max takes it, or as --max-optional behind 'optional ';\n"
                   "# begins a comment; also several")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  check->add_option("--base", options->base, "Compare with this file or folder; also several")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  check
      ->add_option("--fail-above", options->fail_above, "Fail when the total or a function has grown by more than this")
      ->type_name("PERCENT");
  check
      ->add_option("--max-growth", options->max_growth,
                   "Fail when what leaks, as holdfast leaks finds it over the snapshots, grows faster")
      ->type_name("SIZE/TIME");
  check->add_option("--format", options->view.format, "text, markdown or junit")
      ->type_name("FORMAT")
      ->capture_default_str();
  check->add_flag_callback(
      "--markdown", [options] { options->view.format = "markdown"; },
      "A verdict and a table, small enough for a comment: --format markdown");
  check->add_option("--junit", options->junit, "Writes the same as JUnit into this file, besides")->type_name("FILE");
  AddOutput(check, &options->output);
  AddFilterOptions(check, &options->view);
  check->callback(
      [options, invocation] { invocation->exit_code = Finished(RunCheck(*options, std::cout, std::cerr)); });
}

}  // namespace holdfast
