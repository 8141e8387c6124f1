#include <iostream>
#include <memory>

#include "report/base/say.h"
#include "report/command_line/help.h"
#include "report/command_line/view_options.h"
#include "report/commands/commands.h"
#include "report/terminal/pager.h"
#include "report/views/tree.h"

namespace holdfast {
namespace {

void AddOptionsOfTrees(CLI::App* command, TreeOptions* options, bool bottom_up) {
  options->view.node_count = 0;
  AddFileOptions(command, &options->view);
  AddPeak(command, &options->view);
  if (bottom_up) {
    command->add_option("--of", options->of, "Begin at the functions that match, not at the leaves")
        ->type_name("REGEX");
  }
  AddCount(command, &options->view.node_count, "At most so many branches, the largest, 0 = all");
  AddFraction(command, &options->node_fraction);
  command->add_option("--depth", options->depth, "At most so many levels, 0 = all")
      ->check(WholeNumber())
      ->type_name("N")
      ->capture_default_str();
  AddErrors(command, &options->view);
  AddFilterOptions(command, &options->view);
  AddStyleOptions(command, &options->view);
}

}  // namespace

void AddTreeCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<TreeOptions>();
  CLI::App* tree = app.add_subcommand("tree", "From the outermost function down to what used it");
  tree->footer(
      "Prints the call tree: what each function used on this path. total = self + children; branches below\n"
      "--nodefraction of everything are summed up, so that the sums add up.\n"
      "\n"
      "  holdfast tree app.4242.0003.heap.pb.gz                   where the memory in use was allocated\n"
      "  holdfast tree --show-from handle_request --fold system holdfast.app.4242\n"
      "                                                           below one function, without libc's frames\n"
      "  holdfast tree --by wait app.4242.0003.block.pb.gz        each kind of wait apart\n");
  AddOptionsOfTrees(tree, options.get(), false);
  tree->callback([options, invocation] {
    invocation->exit_code =
        Paged(options->view.pager, [&](std::ostream& out) { return RunTree(*options, out, std::cerr); });
  });
}

void AddCallersCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<TreeOptions>();
  CLI::App* callers = app.add_subcommand("callers", "From what was used directly up to who called it");
  callers->footer(
      "Prints the tree bottom up: the functions that used something directly, and below each its callers.\n"
      "total% is of everything, top% of the function at the top.\n"
      "\n"
      "  holdfast callers app.4242.0003.heap.pb.gz                who makes the allocating functions allocate\n"
      "  holdfast callers --of '^zmalloc' holdfast.redis-server.4242\n"
      "                                                           the callers of chosen functions\n");
  AddOptionsOfTrees(callers, options.get(), true);
  callers->callback([options, invocation] {
    invocation->exit_code =
        Paged(options->view.pager, [&](std::ostream& out) { return RunCallers(*options, out, std::cerr); });
  });
}

}  // namespace holdfast
