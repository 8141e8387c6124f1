#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/base/atomic_file.h"
#include "report/base/say.h"
#include "report/builder/lock_names.h"
#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/names/symbolize/elf_addresses.h"
#include "report/names/symbolize/profile_symbolizer.h"
#include "report/names/symbolize/symbolize_options.h"
#include "report/profile/pprof.h"

namespace holdfast {
namespace {

struct SymbolizeCommandOptions {
  std::vector<std::string> files, debug_dirs;
  std::string out, symbols = "full", addresses = "runtime";
  bool quiet = false;
};

class SymbolizeRun {
 public:
  explicit SymbolizeRun(const SymbolizeCommandOptions& options)
      : options_(options), symbolizer_(DebugFileOptions(options.debug_dirs)) {}

  int Run() {
    const auto found = FindProfiles(options_.files);
    if (!found.ok()) {
      Say(std::string(found.status().message()));
      return kCouldNot;
    }
    std::error_code error;
    const bool into_folder = !options_.out.empty() && std::filesystem::is_directory(options_.out, error);
    if (found->size() > 1 && !options_.out.empty() && !into_folder && !IsDevice(options_.out)) {
      Say(fmt::format("{}: not a folder, but {} files must be written. Create the folder, or name one FILE.",
                      options_.out, found->size()));
      return kWrongUsage;
    }
    int exit_code = kFine;
    std::set<std::string> written;
    for (const auto& [file, from_folder] : *found) {
      std::string out = options_.out.empty() ? file : options_.out;
      if (into_folder) {
        out = (std::filesystem::path(options_.out) /
               (file == "-" ? "standard-input.pb.gz" : std::filesystem::path(file).filename().string()))
                  .string();
        if (!written.insert(out).second) {
          Say(fmt::format(
              "{}: not written, because {} already contains a file with this name. Symbolize one folder at a time.",
              file, options_.out));
          exit_code = kCouldNot;
          continue;
        }
      }
      if (const absl::Status status = One(file, out); !status.ok()) {
        Say(std::string(status.message()));
        exit_code = kCouldNot;
      }
    }
    return exit_code;
  }

 private:
  static bool IsDevice(const std::string& path) {
    std::error_code error;
    return std::filesystem::is_character_file(path, error);
  }

  absl::Status One(const std::string& file, const std::string& out) {
    auto profile = ReadPprofFile(file);
    if (!profile.ok()) return profile.status();
    std::string said;
    if (options_.symbols != "none") CompleteLockNames(&*profile, symbolizer_.files());
    if (options_.symbols == "full") {
      said = SummaryOf(Symbolize(&*profile, symbolizer_, {.lines = true, .perf_map = true}));
      CompleteBlockNames(&*profile, symbolizer_.files());
    } else if (options_.symbols == "symtab") {
      StripSymbols(&*profile, true);
      said = SummaryOf(Symbolize(&*profile, symbolizer_, {.lines = false, .perf_map = true}));
    } else {
      StripSymbols(&*profile, false);
      said = "names and lines removed";
    }
    if (options_.addresses == "elf") {
      ElfAddresses moved = UseElfAddresses(*profile, symbolizer_);
      *profile = std::move(moved.profile);
      if (!moved.kept.empty()) {
        said += fmt::format("; kept runtime addresses in {} (unknown layout)", fmt::join(moved.kept, ", "));
      }
    }
    if (!options_.quiet) Say(fmt::format("{}: {}.", file == "-" ? "standard input" : file, said));
    AtomicFile written(out, std::cout, Readers::kOwner);
    if (const absl::Status status = WritePprof(*profile, written.fd()); !status.ok())
      written.Fail(std::string(status.message()));
    return written.Finish();
  }

  const SymbolizeCommandOptions& options_;
  ModuleSymbolizer symbolizer_;
};

}  // namespace

void AddSymbolizeCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<SymbolizeCommandOptions>();
  CLI::App* command =
      app.add_subcommand("symbolize", "Add function names, source lines and inlined functions to profiles");
  command->footer(
      "Profiles written by Holdfast already contain names, and usually source lines. This command adds what is missing, from\n"
      "the programs themselves, debug files in /usr/lib/debug and --debug-dir, and debuginfod servers if DEBUGINFOD_URLS is\n"
      "set. It uses only files with the build id of the profile. It replaces each FILE; -o writes elsewhere. It reports on\n"
      "standard error what is still missing.\n"
      "\n"
      "  holdfast symbolize holdfast.server.4242                       profiles made on this machine\n"
      "  holdfast symbolize --debug-dir ./release-1.2 app.heap.pb.gz   debug files copied from a build\n"
      "  DEBUGINFOD_URLS=https://debuginfod.example.org holdfast symbolize -o full.pb.gz app.heap.pb.gz\n"
      "  holdfast symbolize --symbols none --addresses elf -o bare.pb.gz app.heap.pb.gz    identical in every run\n");
  command
      ->add_option("FILE", options->files,
                   "Profiles in pprof's format (gzip or plain), or folders of them; - is standard input")
      ->required();
  command->add_option("-o,--out,--output", options->out, "A file or folder to write to; - is standard output")
      ->type_name("PATH");
  command
      ->add_option("--symbols", options->symbols,
                   "full: names, lines and inlined functions; symtab: only names; none: remove names and lines")
      ->type_name("WHAT")
      ->check(OneOf({"full", "symtab", "none"}))
      ->capture_default_str();
  command
      ->add_option("--addresses", options->addresses,
                   "runtime: as in the process; elf: as in the executable files, identical in every run")
      ->type_name("WHICH")
      ->check(OneOf({"runtime", "elf"}))
      ->capture_default_str();
  AddDebugDirOption(command, &options->debug_dirs);
  command->add_flag("-q,--quiet", options->quiet, "Print nothing but errors");
  command->callback([options, invocation] { invocation->exit_code = Finished(SymbolizeRun(*options).Run()); });
}

}  // namespace holdfast
