#include <iostream>
#include <memory>

#include "report/base/atomic_file.h"
#include "report/base/say.h"
#include "report/cmd/commands.h"
#include "report/cmd/view_options.h"
#include "report/show/export_formats.h"

namespace holdfast {

void AddExportCommand(CLI::App& app, Invocation* invocation) {
  struct Options {
    ViewOptions view;
    std::string to = "folded", output = "-";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("export", "Convert a profile to the format of another tool");
  command->footer(
      "  holdfast export --to folded app.4242.0003.heap.pb.gz | flamegraph.pl > heap.svg\n"
      "  holdfast export --to speedscope -o heap.speedscope.json app.4242.0003.heap.pb.gz   all metrics in one file\n"
      "  holdfast export --to callgrind -o heap.callgrind app.4242.0003.heap.pb.gz          four events in one file\n"
      "  holdfast export --to csv app.4242.0003.heap.pb.gz > heap.csv                       a row for each sample\n"
      "  holdfast export --to heap -o app.heap app.4242.0003.heap.pb.gz && google-pprof --text app app.heap\n");
  AddFileOptions(command, &options->view);
  AddMetric(command, &options->view,
            "The metric that folded writes and speedscope shows first [default: the profile's own]");
  AddEnded(command, &options->view);
  AddPeak(command, &options->view);
  command->add_option("--to", options->to, "folded, speedscope, callgrind, csv or heap (tcmalloc's old text)")
      ->type_name("FORMAT")
      ->capture_default_str();
  AddOutput(command, &options->output);
  AddFilterOptions(command, &options->view);
  AddWaitingNow(command, &options->view);
  AddRowOption(command, &options->view, "");
  command->callback([options, invocation] {
    const auto run = [&] {
      options->view.opens_peak = false;  // files for other tools contain the kind that they expect
      const auto view = OpenView(options->view, std::cerr);
      if (!view.ok()) return Failed(view.status(), std::cerr);
      AtomicFile output(options->output, std::cout);
      const auto made =
          ExportTo(options->to, *view, options->view, [&](std::string_view piece) { output.Write(piece); });
      if (!made.ok()) return Failed(made, std::cerr);
      const auto written = output.Finish();
      return written.ok() ? 0 : Failed(written, std::cerr);
    };
    invocation->exit_code = Finished(run());
  });
}

}  // namespace holdfast
