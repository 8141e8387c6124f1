#include <iostream>
#include <memory>

#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/show/diff.h"
#include "report/show/pager.h"

namespace holdfast {

void AddDiffCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* diff = app.add_subcommand("diff", "Show what changed between two profiles, or two sets of profiles");
  diff->footer(
      "Prints the functions that differ: Δ = head − base, with its 95 % interval. ≈ marks changes within the sampling\n"
      "error (3 σ). A single folder: compares the first and the last snapshot of each process.\n"
      "\n"
      "  holdfast diff yesterday.heap.pb.gz today.heap.pb.gz\n"
      "  holdfast diff holdfast.app.4242                          first and last snapshot\n"
      "  holdfast diff --base old1.pb.gz --base old2.pb.gz new1.pb.gz new2.pb.gz    two sets\n"
      "  holdfast diff --normalize --significant base.pb.gz head.pb.gz              scaled, significant changes only\n"
      "  holdfast diff --base-label wait=mutex --head-label wait=condition app.4242.0003.block.pb.gz\n"
      "                                                           two values of a label\n");
  AddFileOptions(diff, &options->view);
  AddMetric(diff, &options->view, "The metric to compare, such as inuse_space or delay [default: the profile's own]");
  AddUnit(diff, &options->view);
  diff->add_option("--base,--diff_base", options->compare.base,
                   "A file or folder of the base (repeatable); all FILEs are then the head")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  diff->add_option("--base-label", options->compare.base_label,
                   "With --head-label: compare samples of the same files by label")
      ->type_name("LABEL");
  diff->add_option("--head-label", options->compare.head_label,
                   "Such as wait=mutex, bytes=1KiB:64KiB, or a regular expression")
      ->type_name("LABEL");
  diff->add_flag("--normalize", options->compare.normalize, "Scale the head to the total of the base");
  diff->add_flag("--significant", options->only_significant, "Omit changes within the sampling error");
  diff->add_flag("--cum", options->view.by_total, "Sort by the change of total instead of self");
  AddCount(diff, &options->view.node_count, "Show at most N rows; 0 = all");
  AddFilterOptions(diff, &options->view);
  AddWaitingNow(diff, &options->view);
  AddRowOption(diff, &options->view, "");
  AddStyleOptions(diff, &options->view);
  AddFullNames(diff, &options->view);
  diff->callback([options, invocation] {
    invocation->exit_code =
        Paged(options->view.pager, [&](std::ostream& out) { return RunDiff(*options, out, std::cerr); });
  });
}

}  // namespace holdfast
