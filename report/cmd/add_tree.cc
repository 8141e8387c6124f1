#include <iostream>
#include <memory>

#include "report/base/say.h"
#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/show/pager.h"
#include "report/show/tree.h"

namespace holdfast {
namespace {

void AddOptionsOfTrees(CLI::App* command, TreeOptions* options, bool bottom_up) {
  options->view.node_count = 0;
  AddViewedFiles(command, &options->view);
  AddUnit(command, &options->view);
  if (bottom_up) {
    command->add_option("--of", options->of, "Start at the matching functions instead of the leaves")
        ->type_name("REGEX");
  }
  AddCount(command, &options->view.node_count, "Show at most N branches, the largest; 0 = all");
  AddFraction(command, &options->node_fraction);
  command->add_option("--depth", options->depth, "Show at most N levels; 0 = all")
      ->check(WholeNumber())
      ->type_name("N")
      ->capture_default_str();
  AddErrors(command, &options->view);
  AddFilterOptions(command, &options->view);
  AddWaitingNow(command, &options->view);
  AddRowOption(command, &options->view, ";\nage: how long memory in use has lived");
  AddStyleOptions(command, &options->view);
  AddFullNames(command, &options->view);
}

}  // namespace

void AddTreeCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<TreeOptions>();
  CLI::App* tree = app.add_subcommand("tree", "Show the call tree from main down");
  tree->footer(
      "Prints the call tree with the value of each function on each path: total = self + children. Branches below\n"
      "--nodefraction of the total are grouped, so that the sums stay exact.\n"
      "\n"
      "  holdfast tree app.4242.0003.heap.pb.gz                   where memory in use was allocated\n"
      "  holdfast tree --show-from handle_request --fold system holdfast.app.4242\n"
      "                                                           below one function, without libc's frames\n"
      "  holdfast tree --by wait app.4242.0003.block.pb.gz        one tree per kind of wait\n");
  AddOptionsOfTrees(tree, options.get(), false);
  tree->callback([options, invocation] {
    invocation->exit_code =
        Paged(options->view.pager, [&](std::ostream& out) { return RunTree(*options, out, std::cerr); });
  });
}

void AddCallersCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<TreeOptions>();
  CLI::App* callers = app.add_subcommand("callers", "Show the inverted call tree, from leaves up to callers");
  callers->footer(
      "Prints the inverted tree: the functions with a value of their own, and below each its callers. total% is a share of\n"
      "everything, top% of the function at the top.\n"
      "\n"
      "  holdfast callers app.4242.0003.heap.pb.gz                the callers of the allocating functions\n"
      "  holdfast callers --of '^zmalloc' holdfast.redis-server.4242\n"
      "                                                           the callers of matching functions\n");
  AddOptionsOfTrees(callers, options.get(), true);
  callers->callback([options, invocation] {
    invocation->exit_code =
        Paged(options->view.pager, [&](std::ostream& out) { return RunCallers(*options, out, std::cerr); });
  });
}

}  // namespace holdfast
