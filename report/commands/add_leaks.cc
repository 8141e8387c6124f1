#include <iostream>
#include <memory>

#include "report/command_line/help.h"
#include "report/command_line/view_options.h"
#include "report/commands/commands.h"
#include "report/comparisons/leaks.h"
#include "report/terminal/pager.h"

namespace holdfast {

void AddLeaksCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<LeaksOptions>();
  options->view.unit = "auto";
  options->view.stacks.fold_plumbing = true;
  CLI::App* leaks =
      app.add_subcommand("leaks", "Stacks that hold more and more memory, over the snapshots of a process");
  leaks->footer(
      "Says of a process, and of each of its stacks, whether what is in use grows: growing, grows in steps, level, or\n"
      "cannot tell. Growth is what more is in use now, with the error of the samples that came or went; it is a leak if it\n"
      "goes on. Caches that warm up, buffers that fill and tables made once are none: --all shows what each stack is.\n"
      "Level means that no leak is faster than the bound that is printed. Mappings and threads are judged the same way.\n"
      "memory says what all resident memory did, and which part of it: what neither the heap nor mappings explain is an answer\n"
      "of its own, such as free memory that malloc keeps. Of a folder with several programs the one that grows most is shown,\n"
      "or else the one that holds most; others names the rest, and --all shows each.\n"
      "Exit status: 0 level, 1 growing or growing in steps, 4 cannot tell; then the answer says what is missing.\n"
      "Where the process has lifetimes profiles, half and oldest say how old what is in use is: half of it is older than the\n"
      "first, some of it than the second. Nothing there: it is not known.\n"
      "JSON and CSV: slopes are an hour's, in bytes and in objects; kind says of what, and threads are objects alone.\n"
      "\n"
      "  holdfast leaks holdfast.app.4242                         what leaks, and how fast\n"
      "  holdfast leaks --kind threads holdfast.app.4242          threads that are created and do not end, alone\n"
      "  holdfast leaks --limit 2GiB holdfast.app.4242            when 2 GiB will be in use\n"
      "  holdfast leaks --follow holdfast.app.4242                again with each new snapshot\n"
      "  holdfast leaks --suppressions known.txt holdfast.app.4242\n"
      "                                                           lines such as leak:libfoo.so are known and left "
      "out\n");
  leaks->add_option("FILE", options->view.files, "The folder of a process, or its heap profiles")->required();
  leaks
      ->add_option("--kind", options->kind,
                   "Only heap, only map (mappings), or only threads that do not end (threads); default: all")
      ->type_name("KIND");
  leaks->add_option("--limit", options->limit, "Say when so much will be in use")->type_name("SIZE");
  leaks->add_option("--suppressions", options->suppressions, "A file of known leaks, leak:PATTERN a line; also several")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  leaks->add_flag("--follow", options->follow, "Go on with each new snapshot, until interrupted");
  leaks->add_flag("--all", options->all,
                  "Also stacks that do not grow, with what they do, and each program of a folder");
  leaks
      ->add_option("--depth", options->depth,
                   "Functions, from the innermost, that tell one stack from another, 0 = all")
      ->check(WholeNumber())
      ->type_name("N")
      ->capture_default_str();
  AddCount(leaks, &options->view.node_count, "How many stacks, 0 = all");
  AddFilterOptions(leaks, &options->view);
  AddStyleOptions(leaks, &options->view);
  leaks->callback([options, invocation] {
    invocation->exit_code = Paged(options->view.pager && !options->follow,
                                  [&](std::ostream& out) { return RunLeaks(*options, out, std::cerr); });
  });
}

}  // namespace holdfast
