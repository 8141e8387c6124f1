#include <iostream>
#include <memory>

#include "report/base/say.h"
#include "report/command_line/help.h"
#include "report/command_line/view_options.h"
#include "report/commands/commands.h"
#include "report/views/call_graph.h"

namespace holdfast {

void AddGraphCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<GraphOptions>();
  options->view.node_count = 80;
  CLI::App* graph = app.add_subcommand("graph", "The call graph as a drawing: DOT, SVG, PNG, PDF, callgrind");
  graph->footer(
      "Draws functions as boxes and calls as arrows, the heaviest path in red.\n"
      "\n"
      "  holdfast graph -o heap.svg app.4242.0003.heap.pb.gz      needs graphviz\n"
      "  holdfast graph -o heap.pdf app.4242.0003.heap.pb.gz\n"
      "  holdfast graph app.4242.0003.heap.pb.gz | dot -Tjpg -o heap.jpg\n"
      "  holdfast graph -o heap.callgrind app.4242.0003.heap.pb.gz && kcachegrind heap.callgrind\n");
  AddFileOptions(graph, &options->view);
  AddPeak(graph, &options->view);
  AddOutput(graph, &options->output);
  graph->add_option("--format", options->format, "dot, svg, png, pdf or callgrind (default: by the ending of -o)")
      ->type_name("FORMAT");
  AddCount(graph, &options->view.node_count, "At most so many boxes, 0 = all");
  AddFraction(graph, &options->node_fraction);
  graph->add_option("--edgefraction", options->edge_fraction, "Leave arrows out that carry less of the total than this")
      ->type_name("F")
      ->check(Share())
      ->capture_default_str();
  AddFilterOptions(graph, &options->view);
  graph->callback(
      [options, invocation] { invocation->exit_code = Finished(RunGraph(*options, std::cout, std::cerr)); });
}

}  // namespace holdfast
