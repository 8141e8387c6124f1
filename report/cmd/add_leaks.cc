#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <string_view>

#include "report/base/say.h"
#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/run/doctor_surroundings.h"
#include "report/show/leaks.h"
#include "report/show/pager.h"
#include "report/show/unreachable_view.h"

namespace holdfast {
namespace {

// Returns the first given option that --unreachable would ignore; "": none.
std::string OptionThatDoesNotApply(const CLI::App& leaks) {
  constexpr std::string_view kApply[] = {"FILE",     "--unreachable",  "--stop",    "--scan-memory",
                                         "--tables", "--suppressions", "--format",  "--color",
                                         "--width",  "--nodecount",    "--no-pager"};
  for (const CLI::Option* option : leaks.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && std::find(std::begin(kApply), std::end(kApply), name) == std::end(kApply)) return name;
  }
  return "";
}

}  // namespace

void AddLeaksCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<LeaksOptions>();
  auto unreachable = std::make_shared<UnreachableOptions>();
  auto wants_unreachable = std::make_shared<bool>(false);
  options->view.unit = "auto";
  options->view.stacks.fold_plumbing = true;
  CLI::App* leaks = app.add_subcommand("leaks", "Find stacks that hold more and more memory over time");
  leaks->footer(
      "Judges the memory in use of a process and of each of its stacks: growing, grows in steps, level, or cannot tell.\n"
      "Steady growth is a leak. Caches that warm up, buffers that fill and tables allocated once are not: --all shows the\n"
      "verdict on every stack. Level means that no leak is faster than the printed bound. Mappings and threads are judged\n"
      "the same way.\n"
      "The line `memory` shows how resident memory changed, and which part of it; if neither the heap nor mappings explain\n"
      "the change, it names the cause, such as free memory that malloc keeps. For a folder with several programs the\n"
      "fastest growing one is shown, or else the largest; `others` lists the rest, and --all shows each of them.\n"
      "A PID takes a snapshot now, and also searches the memory for blocks to which no pointer leads, if that takes less than\n"
      "5 s of CPU and 256 MiB; the column `finding` then says grows or unreachable for each row.\n"
      "Exit status: 0 level, 1 growing, growing in steps, or unreachable, 4 cannot tell; the answer then names what is\n"
      "missing.\n"
      "\n"
      "--unreachable PID searches the memory of a running process for pointers to each of its blocks, and lists blocks to\n"
      "which no pointer leads. The process is not stopped; the search is repeated until its answer is certain, at most 12\n"
      "times. It works for every process on glibc's malloc, also without Holdfast, and shows stacks for profiled ones.\n"
      "Pointers that only the kernel keeps (epoll, io_uring) and encoded pointers are not found. Also takes a core file.\n"
      "Exit status: 0 none, 1 some, 4 cannot tell.\n"
      "If the process has lifetimes profiles, the columns `half` and `oldest` show the median and the greatest age of the memory in use;\n"
      "blank if unknown.\n"
      "JSON and CSV: slopes are per hour, in bytes and in objects; kind is heap, map or threads (objects only). markdown and\n"
      "junit list the findings, as for holdfast check.\n"
      "\n"
      "  holdfast leaks holdfast.app.4242                         what leaks, and how fast\n"
      "  holdfast leaks --kind threads holdfast.app.4242          only threads that are created and never exit\n"
      "  holdfast leaks --limit 2GiB holdfast.app.4242            when 2 GiB will be in use\n"
      "  holdfast leaks --follow holdfast.app.4242                repeat with each new snapshot\n"
      "  holdfast leaks --suppressions known.txt holdfast.app.4242\n"
      "                                                           ignore known leaks (lines such as leak:libfoo.so)\n"
      "  holdfast leaks 4242                                      what grows, and blocks that no pointer leads to\n"
      "  holdfast leaks --unreachable 4242                        only the latter, also without profiles\n");
  leaks
      ->add_option(
          "FILE", options->view.files,
          "The folder of a process, its heap profiles, or a process id; with --unreachable, a process id or a core\n"
          "file")
      ->required();
  leaks
      ->add_option("--kind", options->kind,
                   "Look only at heap, map (mappings) or threads (that never exit) [default: all]")
      ->type_name("KIND");
  leaks->add_option("--limit", options->limit, "Predict when this much memory will be in use")->type_name("SIZE");
  leaks
      ->add_option("--suppressions", options->suppressions,
                   "A file of known leaks (repeatable): a line leak:PATTERN for each, or valgrind's suppressions")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  CLI::Option* unreachable_flag = leaks->add_flag("--unreachable", *wants_unreachable,
                                                  "List blocks of a running process to which no pointer leads");
  leaks
      ->add_flag("--stop", unreachable->stop,
                 "Stop the process while its memory is copied: exact, and finds pointers in registers")
      ->needs(unreachable_flag);
  leaks
      ->add_option("--scan-memory", unreachable->scan_memory,
                   "Use at most this much memory, with --stop also for the copy [default: half of what is free]")
      ->type_name("SIZE")
      ->needs(unreachable_flag);
  leaks->add_option("--tables", unreachable->tables, "The folder of the table files [default: all that are in use]")
      ->allow_extra_args(false)
      ->needs(unreachable_flag);
  leaks->add_flag("--follow", options->follow, "Repeat with each new snapshot until interrupted");
  leaks->add_flag("--all", options->all,
                  "Also show stacks that do not grow, with their verdict, and every program of a folder");
  leaks->add_option("--depth", options->depth, "Compare stacks by their innermost N functions; 0 = all")
      ->check(WholeNumber())
      ->type_name("N")
      ->capture_default_str();
  AddCount(leaks, &options->view.node_count, "Show at most N stacks; 0 = all");
  AddFilterOptions(leaks, &options->view);
  AddRowOption(leaks, &options->view, "");
  AddStyleOptions(leaks, &options->view);
  leaks->get_option("--format")->description("table, json, csv, markdown or junit");
  leaks->add_flag_callback(
      "--json", [options] { options->view.format = "json"; }, "The same as --format json");
  AddFullNames(leaks, &options->view);
  leaks->callback([leaks, options, unreachable, wants_unreachable, invocation] {
    if (*wants_unreachable) {
      if (const std::string option = OptionThatDoesNotApply(*leaks); !option.empty()) {
        SayTo(std::cerr, option + ": does not apply to --unreachable. See holdfast leaks --help");
        invocation->exit_code = kWrongUsage;
        return;
      }
      if (options->view.files.size() > 1) {
        SayTo(std::cerr, options->view.files[1] + ": --unreachable searches one process at a time");
        invocation->exit_code = kWrongUsage;
        return;
      }
      SayIfEmulated();
      unreachable->of_process = options->view.files.front();
      unreachable->suppressions = options->suppressions;
      unreachable->format = options->view.format;
      unreachable->rows = options->view.node_count;
      invocation->exit_code =
          Paged(options->view.pager, [&](std::ostream& out) { return RunUnreachable(*unreachable, out, std::cerr); });
      return;
    }
    invocation->exit_code = Paged(options->view.pager && !options->follow,
                                  [&](std::ostream& out) { return RunLeaks(*options, out, std::cerr); });
  });
}

}  // namespace holdfast
