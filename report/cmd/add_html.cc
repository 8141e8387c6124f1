#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "fmt/format.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/cmd/commands.h"
#include "report/cmd/view_options.h"
#include "report/page/html_report.h"

namespace holdfast {
namespace {

struct CommandOptions {
  HtmlOptions html;
  std::string embed = "4MiB";
  bool no_source = false, open = false;
};

// Starts the desktop's browser on `path`. Returns false if the browser could not be started. On some desktops xdg-open
// exits only when the browser does, so an xdg-open that has not failed within 3 s counts as success.
bool OpenInBrowser(const std::string& path) {
  const std::string absolute = std::filesystem::absolute(path).string();
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    setsid();
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && null >= 0; ++fd) dup2(null, fd);
    execlp("xdg-open", "xdg-open", absolute.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  for (int i = 0; i < 60; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    usleep(50'000);
  }
  return true;
}

int RunHtml(CommandOptions& options) {
  const auto embed = ParseByteSize(options.embed);
  if (!embed.ok()) {
    Say(fmt::format("--embed: {}.", std::string(embed.status().message())));
    return kWrongUsage;
  }
  if (const auto patterns = Plumbing::Make(Profile(), options.html.plumbing); !patterns.ok())
    return Failed(patterns.status());
  options.html.max_embedded_bytes = *embed;
  options.html.sources = !options.no_source;
  const auto html = RenderHtml(options.html, std::cerr);
  if (!html.ok()) {
    Say(std::string(html.status().message()));
    return kCouldNot;
  }
  const std::string& output = options.html.output;
  if (output == "-") {
    std::cout << *html;
    return Finished(kFine);
  }
  if (const absl::Status status = WriteHtml(output, *html); !status.ok()) {
    Say(std::string(status.message()));
    return kCouldNot;
  }
  if (options.open && !OpenInBrowser(output)) {
    Say(fmt::format("{}: written, but xdg-open could not start a browser. Open the file yourself.", output));
    return kCouldNot;
  }
  if (!options.open)
    Say(fmt::format("{}: {}. Open it in a browser.", output, FormatSize(static_cast<int64_t>(html->size()))));
  return kFine;
}

}  // namespace

void AddHtmlCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<CommandOptions>();
  CLI::App* html = app.add_subcommand("html", "Write one HTML page to look at, mail or attach to a ticket");
  html->footer(
      "Writes one self-contained HTML file with a flame graph, functions, trees, a timeline, leaks, locks and a comparison. It\n"
      "makes no network requests. It contains all kinds, processes and snapshots that are given.\n"
      "It also contains function names, paths, command lines and, if the sources are on this machine, the source lines\n"
      "around each frame (--no-source omits them).\n"
      "\n"
      "  holdfast html holdfast.server.4242                        everything that `holdfast run` wrote\n"
      "  holdfast html --open -o now.html app.4242.0003.*.pb.gz    one snapshot, all kinds, opened in a browser\n"
      "  holdfast html --base monday/ tuesday/ -o diff.html        what has changed since Monday\n");
  html->add_option("FILE", options->html.files, "Profiles in pprof's format, or folders of them; - is standard input")
      ->required();
  html->add_option("--base", options->html.base, "A profile or folder to compare with (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  html->add_option("-o,--output,--out", options->html.output, "The file to write; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  AddPlumbing(html, &options->html.plumbing);
  html->add_flag("--ended", options->html.ended,
                 "For a folder, also count the memory of processes that exited before the others");
  html->add_flag("--open", options->open, "Open it in the desktop's browser");
  html->add_flag("--no-source", options->no_source, "Omit source lines");
  html->add_option("--embed", options->embed,
                   "Embed the newest profiles for download if they are at most this large; 0 = never")
      ->type_name("SIZE")
      ->capture_default_str();
  html->callback([options, invocation] { invocation->exit_code = RunHtml(*options); });
}

}  // namespace holdfast
