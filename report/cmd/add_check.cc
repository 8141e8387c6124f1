#include <iostream>
#include <memory>

#include "report/base/say.h"
#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/show/check.h"

namespace holdfast {

void AddCheckCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<CheckOptions>();
  options->view.format = "text";
  CLI::App* check =
      app.add_subcommand("check", "Check budgets in continuous integration; exit status 1 if one is exceeded");
  check->footer(
      "  holdfast check --max 'inuse_space:ParseJson=10MB' --max 'alloc_space=2GB' holdfast.app.4242\n"
      "  holdfast check --budgets budgets.txt --markdown --junit holdfast.xml holdfast.app.4242 >comment.md\n"
      "  holdfast check --base main.heap.pb.gz --fail-above 5% --markdown branch.heap.pb.gz\n"
      "  holdfast check --max-growth 1MiB/h holdfast.app.4242\n"
      "  holdfast check --max-unreachable 0 --junit leaks.xml holdfast.test.4242\n"
      "\n"
      "Exit status: 0 all budgets are met, 1 a budget is exceeded, 2 wrong usage, 3 no verdict (a file cannot be read).\n");
  AddFileOptions(check, &options->view);
  AddMetric(check, &options->view, "The metric that --base compares [default: the profile's own]");
  AddEnded(check, &options->view);
  AddUnit(check, &options->view);
  check
      ->add_option("--max", options->max,
                   "METRIC:FUNCTION=LIMIT or METRIC=LIMIT (repeatable); FUNCTION is a regular expression; fails if it\n"
                   "matches nothing")
      ->type_name("BUDGET")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  check->add_option("--max-optional", options->max_optional, "The same, but met if FUNCTION matches nothing")
      ->type_name("BUDGET")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  check
      ->add_option(
          "--budgets", options->budgets,
          "A file with one budget per line (repeatable): as for --max, or after 'optional ' as for --max-optional;\n"
          "# begins a comment")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  check->add_option("--base", options->base, "A file or folder to compare with (repeatable)")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  check->add_option("--fail-above", options->fail_above, "Fail if the total or a function has grown by more than this")
      ->type_name("PERCENT");
  check
      ->add_option("--max-growth", options->max_growth,
                   "Fail if what holdfast leaks calls growing in the snapshots grows faster than this: leaks, and\n"
                   "memory in no profile, such as free memory that the allocator keeps")
      ->type_name("SIZE/TIME");
  check
      ->add_option(
          "--max-unreachable", options->max_unreachable,
          "Fail if no pointer leads to more than this in a process that holdfast run --leak-check has searched, or\n"
          "in a running process")
      ->type_name("SIZE");
  check->add_option("--format", options->view.format, "text, markdown or junit")
      ->type_name("FORMAT")
      ->capture_default_str();
  check->add_flag_callback(
      "--markdown", [options] { options->view.format = "markdown"; },
      "The same as --format markdown: a verdict and a table, short enough for a comment");
  check->add_option("--junit", options->junit, "Also write the result to this file in JUnit's format")
      ->type_name("FILE");
  AddOutput(check, &options->output);
  AddFilterOptions(check, &options->view);
  AddWaitingNow(check, &options->view);
  AddRowOption(check, &options->view, "; FUNCTION matches rows");
  check->callback(
      [options, invocation] { invocation->exit_code = Finished(RunCheck(*options, std::cout, std::cerr)); });
}

}  // namespace holdfast
