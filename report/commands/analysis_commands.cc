#include "report/commands/analysis_commands.h"

#include <iostream>
#include <memory>

#include "report/views/check.h"
#include "report/views/diff.h"
#include "report/commands/help.h"
#include "report/views/leaks.h"
#include "report/views/merge_command.h"
#include "report/base/standard_output.h"
#include "report/commands/view_commands.h"

namespace holdfast {
namespace {

void AddDiff(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* diff = app.add_subcommand("diff", "What changed between two profiles, or two sets of them");
  diff->footer(
      "Prints the functions that differ: Δ = head − base, with its 95 % interval. ≈ marks changes within the sampling\n"
      "error (3 σ). Of one folder: the oldest against the newest snapshot of each process.\n"
      "\n"
      "  holdfast diff yesterday.heap.pb.gz today.heap.pb.gz\n"
      "  holdfast diff holdfast.app.4242                          first and last snapshot\n"
      "  holdfast diff --base old1.pb.gz --base old2.pb.gz new1.pb.gz new2.pb.gz    two sets\n"
      "  holdfast diff --normalize --significant base.pb.gz head.pb.gz              shares, sure changes only\n"
      "  holdfast diff --base-label wait=mutex --head-label wait=condition app.4242.0003.block.pb.gz\n"
      "                                                           two values of a label\n");
  AddFileOptions(diff, &options->view);
  diff->add_option("--base,--diff_base", options->compare.base,
                   "A file or folder of the base, also several; then FILEs are the head")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
  diff->add_option("--base-label", options->compare.base_label, "With --head-label: samples of one set against others of it")
      ->type_name("LABEL");
  diff->add_option("--head-label", options->compare.head_label, "Such as wait=mutex, bytes=1KiB:64KiB, or a regex")
      ->type_name("LABEL");
  diff->add_flag("--normalize", options->compare.normalize, "Scale the head to the total of the base");
  diff->add_flag("--significant", options->only_significant, "Leave out changes within the sampling error");
  diff->add_flag("--cum", options->view.by_total, "Sort by the change of total instead of self");
  diff->add_option("-n,--nodecount", options->view.node_count, "How many functions, 0 = all")
      ->check(WholeNumber())->type_name("N")
      ->capture_default_str();
  AddFilterOptions(diff, &options->view);
  AddStyleOptions(diff, &options->view);
  diff->callback([options, exit_code] { *exit_code = Finished(RunDiff(*options, std::cout, std::cerr)); });
}

void AddMerge(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<MergeOptions>();
  CLI::App* merge = app.add_subcommand("merge", "Many profiles into one file");
  merge->footer(
      "Adds up the profiles of several processes. Of several snapshots of one process the newest counts: each holds "
      "all\n"
      "that the earlier ones held.\n"
      "\n"
      "  holdfast merge -o all.heap.pb.gz web-1/*.heap.pb.gz web-2/*.heap.pb.gz     the sum of many processes\n"
      "  holdfast merge --difference -o hour.heap.pb.gz app.4242.000[1-9].heap.pb.gz\n"
      "                                                           what was allocated between first and last\n"
      "  holdfast merge --average --min-total 100MB -o mean.heap.pb.gz holdfast.app.4242\n"
      "                                                           the mean of all snapshots that hold much\n");
  AddFileOptions(merge, &options->view);
  merge->add_option("-o,--output", options->output, "Where to, - = standard output")
      ->type_name("FILE")
      ->capture_default_str();
  auto* difference = merge->add_flag_callback(
      "--difference", [options] { options->mode = MergeMode::kDifference; },
      "Of each process newest − oldest of what only grows, the newest of what is in use");
  merge
      ->add_flag_callback(
          "--average", [options] { options->mode = MergeMode::kAverage; }, "The mean of all files")
      ->excludes(difference);
  merge->add_option("--min-total", options->min_total, "Only files whose total of the metric is at least this")
      ->type_name("SIZE");
  merge->add_option("--max-total", options->max_total, "Only files whose total of the metric is at most this")
      ->type_name("SIZE");
  merge->callback([options, exit_code] { *exit_code = Finished(RunMerge(*options, std::cout, std::cerr)); });
}

void AddLeaks(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<LeaksOptions>();
  options->view.unit = "auto";
  CLI::App* leaks =
      app.add_subcommand("leaks", "Stacks that hold more and more memory, over the snapshots of a process");
  leaks->footer(
      "Fits a line (Theil–Sen) to what each stack has in use over the snapshots, at least 5 of them, and ranks stacks "
      "that\n"
      "grow all the time by the lower end of their slope's 95 % interval. Caches that warm up, buffers that fill, "
      "tables\n"
      "made once are no leaks: --all shows what each stack is. Exit status 1: there is a leak.\n"
      "\n"
      "  holdfast leaks holdfast.app.4242                         what leaks, and how fast\n"
      "  holdfast leaks --limit 2GiB holdfast.app.4242            when 2 GiB will be in use\n"
      "  holdfast leaks --follow holdfast.app.4242                again with each new snapshot\n"
      "  holdfast leaks --suppressions known.txt holdfast.app.4242\n"
      "                                                           lines such as leak:libfoo.so are known and left "
      "out\n");
  leaks->add_option("FILE", options->view.files, "The folder of a process, or its heap profiles")->required();
  leaks->add_option("--limit", options->limit, "Say when so much will be in use")->type_name("SIZE");
  leaks->add_option("--suppressions", options->suppressions, "A file of known leaks, leak:PATTERN a line; also several")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
  leaks->add_flag("--follow", options->follow, "Go on with each new snapshot, until interrupted");
  leaks->add_flag("--all", options->all, "Also stacks that do not grow, with what they do");
  leaks
      ->add_option("--depth", options->depth,
                   "Functions, from the innermost, that tell one stack from another, 0 = all")
      ->check(WholeNumber())->type_name("N")
      ->capture_default_str();
  leaks->add_option("-n,--nodecount", options->view.node_count, "How many stacks, 0 = all")
      ->check(WholeNumber())->type_name("N")
      ->capture_default_str();
  AddFilterOptions(leaks, &options->view);
  AddStyleOptions(leaks, &options->view);
  leaks->callback([options, exit_code] { *exit_code = Finished(RunLeaks(*options, std::cout, std::cerr)); });
}

void AddCheck(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<CheckOptions>();
  options->view.format = "text";
  CLI::App* check =
      app.add_subcommand("check", "Budgets for continuous integration: exit status 1 when one is not kept");
  check->footer(
      "  holdfast check --max 'inuse_space:ParseJson=10MB' --max 'alloc_space=2GB' holdfast.app.4242\n"
      "  holdfast check --base main.heap.pb.gz --fail-above 5% --format markdown branch.heap.pb.gz\n"
      "  holdfast check --max 'delay=1s' --format junit -o holdfast.xml holdfast.app.4242\n");
  AddFileOptions(check, &options->view);
  check
      ->add_option("--max", options->max,
                   "METRIC:FUNCTION=LIMIT or METRIC=LIMIT; FUNCTION is a regular expression, and fails\n"
                   "where it matches nothing; also several")
      ->type_name("BUDGET")
      ->expected(1)
      ->take_all();
  check->add_option("--max-optional", options->max_optional, "The same, and kept where FUNCTION matches nothing")
      ->type_name("BUDGET")
      ->expected(1)
      ->take_all();
  check->add_option("--base", options->base, "Compare with this file or folder; also several")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
  check
      ->add_option("--fail-above", options->fail_above, "Fail when the total or a function has grown by more than this")
      ->type_name("PERCENT");
  check->add_option("--format", options->view.format, "text, markdown or junit")
      ->type_name("FORMAT")
      ->capture_default_str();
  check->add_option("-o,--output", options->output, "Where to, - = standard output")
      ->type_name("FILE")
      ->capture_default_str();
  AddFilterOptions(check, &options->view);
  check->callback([options, exit_code] { *exit_code = Finished(RunCheck(*options, std::cout, std::cerr)); });
}

}  // namespace

void AddAnalysisCommands(CLI::App& app, int* exit_code) {
  AddDiff(app, exit_code);
  AddMerge(app, exit_code);
  AddLeaks(app, exit_code);
  AddCheck(app, exit_code);
}

}  // namespace holdfast
