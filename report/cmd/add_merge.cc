#include <iostream>
#include <memory>

#include "report/base/say.h"
#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/show/merge_command.h"

namespace holdfast {

void AddMergeCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<MergeOptions>();
  CLI::App* merge = app.add_subcommand("merge", "Merge profiles into one file");
  merge->footer(
      "Adds up the profiles of several processes. For several snapshots of one process, only the newest is used, because it\n"
      "includes the earlier ones.\n"
      "\n"
      "  holdfast merge -o all.heap.pb.gz web-1/*.heap.pb.gz web-2/*.heap.pb.gz     the sum of many processes\n"
      "  holdfast merge --difference -o hour.heap.pb.gz app.4242.000[1-9].heap.pb.gz\n"
      "                                                           what was allocated between first and last\n"
      "  holdfast merge --average --min-total 100MB -o mean.heap.pb.gz holdfast.app.4242\n"
      "                                                           the mean of all large snapshots\n");
  AddFileOptions(merge, &options->view);
  AddMetric(merge, &options->view, "The metric of --min-total and --max-total [default: the profile's own]");
  AddOutput(merge, &options->output);
  auto* difference = merge->add_flag_callback(
      "--difference", [options] { options->mode = MergeMode::kDifference; },
      "For each process, newest − oldest of values that only grow, and the newest of values in use");
  merge
      ->add_flag_callback(
          "--average", [options] { options->mode = MergeMode::kAverage; }, "Write the mean of all files")
      ->excludes(difference);
  merge->add_option("--min-total", options->min_total, "Use only files with a total of at least SIZE")
      ->type_name("SIZE");
  merge->add_option("--max-total", options->max_total, "Use only files with a total of at most SIZE")
      ->type_name("SIZE");
  merge->callback(
      [options, invocation] { invocation->exit_code = Finished(RunMerge(*options, std::cout, std::cerr)); });
}

}  // namespace holdfast
