#include <iostream>
#include <memory>

#include "report/base/say.h"
#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/show/call_graph.h"

namespace holdfast {

void AddGraphCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<GraphOptions>();
  options->view.node_count = 80;
  CLI::App* graph = app.add_subcommand("graph", "Draw the call graph: DOT, SVG, PNG, PDF or callgrind");
  graph->footer(
      "Draws functions as boxes and calls as arrows, the heaviest path in red.\n"
      "\n"
      "  holdfast graph -o heap.svg app.4242.0003.heap.pb.gz      needs graphviz\n"
      "  holdfast graph -o heap.pdf app.4242.0003.heap.pb.gz\n"
      "  holdfast graph app.4242.0003.heap.pb.gz | dot -Tjpg -o heap.jpg\n"
      "  holdfast graph -o heap.callgrind app.4242.0003.heap.pb.gz && kcachegrind heap.callgrind\n");
  AddViewedFiles(graph, &options->view);
  AddUnit(graph, &options->view);
  AddOutput(graph, &options->output);
  graph->add_option("--format", options->format, "dot, svg, png, pdf or callgrind [default: from the suffix of -o]")
      ->type_name("FORMAT");
  AddCount(graph, &options->view.node_count, "Draw at most N boxes; 0 = all");
  AddFraction(graph, &options->node_fraction);
  graph->add_option("--edgefraction", options->edge_fraction, "Omit arrows below this fraction of the total")
      ->type_name("F")
      ->check(Share())
      ->capture_default_str();
  AddFilterOptions(graph, &options->view);
  AddWaitingNow(graph, &options->view);
  AddRowOption(graph, &options->view, "");
  graph->callback(
      [options, invocation] { invocation->exit_code = Finished(RunGraph(*options, std::cout, std::cerr)); });
}

}  // namespace holdfast
