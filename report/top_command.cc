#include "report/top_command.h"

#include <iostream>
#include <memory>

#include "report/standard_output.h"
#include "report/top.h"

namespace holdfast {

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
      "  holdfast top -n 0 --unit bytes app.4242.0003.heap.pb.gz  every function, plain numbers\n");
  top->add_option("FILE", options->files, "Profiles in pprof's format, gzip or plain; - is standard input")->required();
  top->add_option(
         "--metric,--sample_index", options->metric,
         "The value to show, such as inuse_space or delay (default: the profile's own; holdfast info lists them)")
      ->type_name("NAME");
  top->add_flag("--cum", options->by_total, "Sort by total instead of self");
  top->add_option("-n,--nodecount", options->node_count, "How many functions, 0 = all")
      ->type_name("N")
      ->capture_default_str();
  top->add_option("--unit", options->unit, "auto, bytes, KiB, MiB, GiB, ns, us, ms or s")
      ->type_name("UNIT")
      ->capture_default_str();
  top->callback([options, exit_code] { *exit_code = Finished(RunTop(*options, std::cout, std::cerr)); });
}

}  // namespace holdfast
