#include "report/commands/view_commands.h"

#include <iostream>
#include <memory>

#include "report/commands/analysis_commands.h"
#include "report/commands/completion.h"
#include "report/views/export_formats.h"
#include "report/views/call_graph.h"
#include "report/commands/help.h"
#include "report/views/source_listing.h"
#include "report/base/atomic_file.h"
#include "report/base/standard_output.h"
#include "report/views/top.h"
#include "report/views/tree.h"

namespace holdfast {
namespace {

constexpr char kFiles[] = "Profiles in pprof's format, gzip or plain; a folder of them; - is standard input";

void AddCount(CLI::App* command, size_t* count, const char* what) {
  command->add_option("-n,--nodecount", *count, what)->check(WholeNumber())->type_name("N")->capture_default_str();
}
void AddCumulative(CLI::App* command, ViewOptions* options) {
  command->add_flag("--cum", options->by_total, "Sort by total instead of self");
}
void AddErrors(CLI::App* command, ViewOptions* options) {
  command->add_flag("--error", options->errors,
                    "Show ± half the 95 % interval of each value, recomputed from the file");
}
void AddFraction(CLI::App* command, double* fraction) {
  command->add_option("--nodefraction", *fraction, "Sum up what holds less of the total than this, 0 = nothing")
      ->type_name("F")
      ->check(Share())
      ->capture_default_str();
}

}  // namespace

void AddFileOptions(CLI::App* command, ViewOptions* options) {
  command->add_option("FILE", options->files, kFiles)->required();
  command
      ->add_option(
          "--metric,--sample_index,--sample-index", options->metric,
          "The value to show, such as inuse_space or delay (default: the profile's own; holdfast info lists them)")
      ->type_name("NAME");
  command->add_option("--kind", options->kind, "Of a folder only this kind: heap, mutex or block")->type_name("KIND");
  command->add_option("--unit", options->unit, "auto, bytes, KiB, MiB, GiB, ns, us, ms or s")
      ->type_name("UNIT")
      ->capture_default_str();
}

void AddFilterOptions(CLI::App* command, ViewOptions* options) {
  StackOptions* stacks = &options->stacks;
  const auto add = [&](const char* name, std::string* value, const char* what) {
    command->add_option(name, *value, what)->type_name("REGEX");
  };
  add("--focus", &stacks->focus, "Only stacks with a function, source file or object that matches");
  add("--ignore", &stacks->ignore, "No stacks with a match");
  add("--hide", &stacks->hide, "Drop frames that match; what they used counts for their callers");
  add("--show", &stacks->show, "Only frames that match");
  add("--show-from,--show_from", &stacks->show_from, "Cut what is above the outermost match");
  command
      ->add_option("--tagfocus", stacks->tag_focus,
                   "Only samples with the label: wait=mutex, bytes=1KiB:64KiB, or a regex")
      ->type_name("LABEL");
  command->add_option("--tagignore", stacks->tag_ignore, "No samples with the label")->type_name("LABEL");
  command
      ->add_option_function<std::string>(
          "--fold",
          [stacks](const std::string& what) {
            if (what != "system") throw CLI::ValidationError("--fold", "\"" + what + "\" is not system, the only thing that is folded");
            stacks->fold_system = true;
          },
          "system: count frames of libc, ld.so, libstdc++ and the like for their callers")
      ->type_name("system");
  command->add_flag("!--noinlines,!--no-inlines", stacks->inlines,
                    "Count inlined functions for the function around them");
  command
      ->add_option("--by", stacks->by,
                   "What a row is: function, line, file, object, package, thread\n"
                   "(by what it was started with), or a label such as wait")
      ->type_name("WHAT")
      ->capture_default_str();
}

void AddStyleOptions(CLI::App* command, ViewOptions* options) {
  command->add_option("--format", options->format, "table, json or csv")->type_name("FORMAT")->capture_default_str();
  command->add_option("--color", options->color, "auto (on a terminal), always or never")
      ->type_name("WHEN")
      ->capture_default_str();
}

void AddTopCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* top = app.add_subcommand("top", "The functions that use most: a flat table");
  top->footer(
      "Prints the functions of profiles, the largest first.\n"
      "self is what a function used directly, total what it and all that it called used.\n"
      "Files of several processes are added up; of several snapshots of one process the newest counts.\n"
      "\n"
      "  holdfast top app.4242.0003.heap.pb.gz                    memory in use, by the function that holds it\n"
      "  holdfast top --cum --metric alloc_space *.heap.pb.gz     all that was ever allocated, callers first\n"
      "  holdfast top --by object --error holdfast.app.4242       which library, and how sure that is\n"
      "  holdfast top --focus json --fold system holdfast.app.4242\n"
      "                                                           only what parsing JSON holds\n"
      "  holdfast top -n 0 --unit bytes app.4242.0003.heap.pb.gz  every function, plain numbers\n");
  AddFileOptions(top, options.get());
  AddCumulative(top, options.get());
  AddCount(top, &options->node_count, "How many functions, 0 = all");
  AddErrors(top, options.get());
  AddFilterOptions(top, options.get());
  AddStyleOptions(top, options.get());
  top->callback([options, exit_code] { *exit_code = Finished(RunTop(*options, std::cout, std::cerr)); });
}

void AddTreeCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<TreeOptions>();
  options->view.node_count = 0;
  CLI::App* tree = app.add_subcommand("tree", "From the outermost function down to what used it");
  tree->footer(
      "Prints the call tree: what each function used on this path. total = self + children; branches below\n"
      "--nodefraction of everything are summed up, so that the sums add up.\n"
      "\n"
      "  holdfast tree app.4242.0003.heap.pb.gz                   where the memory in use was allocated\n"
      "  holdfast tree --show-from handle_request --fold system holdfast.app.4242\n"
      "                                                           below one function, without libc's frames\n"
      "  holdfast tree --by wait app.4242.0003.block.pb.gz        each kind of wait apart\n");
  AddFileOptions(tree, &options->view);
  AddCount(tree, &options->view.node_count, "At most so many branches, the largest, 0 = all");
  AddFraction(tree, &options->node_fraction);
  tree->add_option("--depth", options->depth, "At most so many levels, 0 = all")->check(WholeNumber())->type_name("N")->capture_default_str();
  AddErrors(tree, &options->view);
  AddFilterOptions(tree, &options->view);
  AddStyleOptions(tree, &options->view);
  tree->callback([options, exit_code] { *exit_code = Finished(RunTree(*options, std::cout, std::cerr)); });
}

void AddCallersCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<TreeOptions>();
  options->view.node_count = 0;
  CLI::App* callers = app.add_subcommand("callers", "From what was used directly up to who called it");
  callers->footer(
      "Prints the tree bottom up: the functions that used something directly, and below each its callers.\n"
      "total% is of everything, top% of the function at the top.\n"
      "\n"
      "  holdfast callers app.4242.0003.heap.pb.gz                who makes the allocating functions allocate\n"
      "  holdfast callers --of '^zmalloc' holdfast.redis-server.4242\n"
      "                                                           the callers of chosen functions\n");
  AddFileOptions(callers, &options->view);
  callers->add_option("--of", options->of, "Begin at the functions that match, not at the leaves")->type_name("REGEX");
  AddCount(callers, &options->view.node_count, "At most so many branches, the largest, 0 = all");
  AddFraction(callers, &options->node_fraction);
  callers->add_option("--depth", options->depth, "At most so many levels, 0 = all")
      ->check(WholeNumber())->type_name("N")
      ->capture_default_str();
  AddErrors(callers, &options->view);
  AddFilterOptions(callers, &options->view);
  AddStyleOptions(callers, &options->view);
  callers->callback([options, exit_code] { *exit_code = Finished(RunCallers(*options, std::cout, std::cerr)); });
}

void AddPeekCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<ViewOptions>();
  auto pattern = std::make_shared<std::string>();
  CLI::App* peek = app.add_subcommand("peek", "One function: who called it, whom it called");
  peek->footer(
      "Prints each function that matches with its callers above and its callees below; flow is what went along the\n"
      "call, flow% its share of the function's total.\n"
      "\n"
      "  holdfast peek '^hashTypeSet$' app.4242.0003.heap.pb.gz\n");
  peek->add_option("FUNCTION", *pattern, "A regular expression for names of functions")->required();
  AddFileOptions(peek, options.get());
  AddCount(peek, &options->node_count, "How many of the functions that match, 0 = all");
  AddFilterOptions(peek, options.get());
  AddStyleOptions(peek, options.get());
  peek->callback(
      [options, pattern, exit_code] { *exit_code = Finished(RunPeek(*options, *pattern, std::cout, std::cerr)); });
}

void AddListCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* list = app.add_subcommand("list", "Source lines of functions, with what each used");
  list->footer(
      "Prints the source of functions with self and total of each line. Needs a profile with source lines: they are "
      "in\n"
      "it where debug information was at hand when it was written, or after holdfast symbolize.\n"
      "\n"
      "  holdfast list parse_json app.4242.0003.heap.pb.gz\n"
      "  holdfast list --source-path ~/src/app parse_json app.4242.0003.heap.pb.gz    built elsewhere\n");
  list->add_option("FUNCTION", options->function, "A regular expression for names of functions")->required();
  AddFileOptions(list, &options->view);
  list->add_option("--source-path,--source_path", options->source_paths,
                   "A folder to look for the source in, also several")
      ->type_name("DIR")
      ->expected(1)
      ->take_all();
  list->add_option("--context", options->context, "Lines shown around each line that used something")
      ->check(WholeNumber())->type_name("N")
      ->capture_default_str();
  AddErrors(list, &options->view);
  AddFilterOptions(list, &options->view);
  AddStyleOptions(list, &options->view);
  list->callback([options, exit_code] { *exit_code = Finished(RunList(*options, std::cout, std::cerr)); });
}

void AddGraphCommand(CLI::App& app, int* exit_code) {
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
  graph->add_option("-o,--output", options->output, "Where to, - = standard output")
      ->type_name("FILE")
      ->capture_default_str();
  graph->add_option("--format", options->format, "dot, svg, png, pdf or callgrind (default: by the ending of -o)")
      ->type_name("FORMAT");
  AddCount(graph, &options->view.node_count, "At most so many boxes, 0 = all");
  AddFraction(graph, &options->node_fraction);
  graph->add_option("--edgefraction", options->edge_fraction, "Leave arrows out that carry less of the total than this")
      ->type_name("F")
      ->check(Share())
      ->capture_default_str();
  AddFilterOptions(graph, &options->view);
  graph->callback([options, exit_code] { *exit_code = Finished(RunGraph(*options, std::cout, std::cerr)); });
}

void AddExportCommand(CLI::App& app, int* exit_code) {
  struct Options {
    ViewOptions view;
    std::string to = "folded", output = "-";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("export", "The profile in the format of another tool");
  command->footer(
      "  holdfast export --to folded app.4242.0003.heap.pb.gz | flamegraph.pl > heap.svg\n"
      "  holdfast export --to speedscope -o heap.speedscope.json app.4242.0003.heap.pb.gz   all metrics in one file\n"
      "  holdfast export --to callgrind -o heap.callgrind app.4242.0003.heap.pb.gz          four events in one file\n"
      "  holdfast export --to csv app.4242.0003.heap.pb.gz > heap.csv                       a row for each sample\n"
      "  holdfast export --to heap -o app.heap app.4242.0003.heap.pb.gz && google-pprof --text app app.heap\n");
  AddFileOptions(command, &options->view);
  command->add_option("--to", options->to, "folded, speedscope, callgrind, csv or heap (tcmalloc's old text)")
      ->type_name("FORMAT")
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "Where to, - = standard output")
      ->type_name("FILE")
      ->capture_default_str();
  AddFilterOptions(command, &options->view);
  command->callback([options, exit_code] {
    const auto run = [&] {
      const auto view = OpenView(options->view, std::cerr);
      if (!view.ok()) return Failed(view.status(), std::cerr);
      AtomicFile output(options->output, std::cout);
      const auto made =
          ExportTo(options->to, *view, options->view, [&](std::string_view piece) { output.Write(piece); });
      if (!made.ok()) return Failed(made, std::cerr);
      const auto written = output.Finish();
      return written.ok() ? 0 : Failed(written, std::cerr);
    };
    *exit_code = Finished(run());
  });
}

void AddViewCommands(CLI::App& app, int* exit_code) {
  for (const auto add : {AddTopCommand, AddTreeCommand, AddCallersCommand, AddPeekCommand, AddListCommand,
                         AddGraphCommand, AddExportCommand}) {
    add(app, exit_code);
  }
  AddAnalysisCommands(app, exit_code);
  AddCompletionCommands(app, exit_code);
}

}  // namespace holdfast
