#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/base/atomic_file.h"
#include "report/base/say.h"
#include "report/base/tar_writer.h"
#include "report/builder/lock_names.h"
#include "report/cmd/commands.h"
#include "report/names/dwarf/section.h"
#include "report/names/elf/debug_file_finder.h"
#include "report/names/symbolize/profile_symbolizer.h"
#include "report/names/symbolize/symbolize_options.h"
#include "report/page/html_source.h"
#include "report/profile/pprof.h"

namespace holdfast {
namespace {

constexpr uint64_t kMaxSource = 4 << 20;       // per file: generated sources can be endless
constexpr uint64_t kMaxSources = 64ull << 20;  // for all source files together

struct BundleOptions {
  std::vector<std::string> files, debug_dirs;
  std::string out;
  bool source = true;
};

struct Contents {
  std::map<std::string, std::string> profiles;  // name in the bundle → bytes
  std::vector<std::string> found;               // one line per profile
  std::map<std::string, std::string> sources;   // path → text
  std::set<std::string> missing_sources;
  int64_t newest_s = 0;
};

// Reads a source file. Leaves out a file that was modified after `not_after_ns`, because its line numbers may have
// changed since the profile was taken. A profile may come from anybody, so a path in it must not make the user send a
// private file: see IsSourceName.
std::string ReadText(const std::string& path, int64_t not_after_ns) {
  if (!IsSourceName(path)) return {};
  const auto fd = OpenRegular(path);
  struct stat info;
  if (!fd.ok() || fstat(fd->get(), &info) != 0) return {};
  if (not_after_ns != 0 && info.st_mtim.tv_sec > not_after_ns / 1'000'000'000) return {};
  const auto size = static_cast<uint64_t>(info.st_size);
  std::string text;
  if (size > kMaxSource || !dwarf::Section::InFile(fd->get(), 0, size).Read(0, size, &text)) return {};
  return text.find('\0') == std::string::npos ? text : std::string();
}

void AddSources(const Profile& profile, Contents* contents) {
  uint64_t total = 0;
  for (const auto& [path, text] : contents->sources) total += text.size();
  std::set<std::string> paths;
  for (const Profile::Function& function : profile.functions) paths.emplace(profile.strings[function.filename]);
  for (const std::string& path : paths) {
    // Reject paths that lead out of the folder that the bundle is unpacked into. Holdfast never writes such paths.
    const std::string plain = std::filesystem::path(path).lexically_normal().string();
    if (!path.starts_with('/') || contents->sources.contains(plain)) continue;
    std::string text = ReadText(path, profile.time_nanos);
    if (text.empty() || total + text.size() > kMaxSources) {
      contents->missing_sources.insert(plain);
      continue;
    }
    total += text.size();
    contents->sources[plain] = std::move(text);
  }
}

std::string Readme(const std::string& name, const Contents& contents) {
  std::string text = fmt::format(
      "Profiles of what a program held (memory) and what held it up (locks), made by Holdfast. They contain function names,\n"
      "source lines and inlined functions, so the program itself is not needed to read them.\n"
      "\n"
      "  cd {0}\n"
      "  holdfast top {1}\n"
      "  go tool pprof -trim_path / -source_path source {1}\n"
      "\n",
      name, contents.profiles.begin()->first);
  for (const std::string& found : contents.found) text += found + "\n";
  text += fmt::format(
      "\n"
      "source/ contains {} source files that the profiles name.\n",
      contents.sources.size());
  if (!contents.missing_sources.empty()) {
    text += fmt::format("{} more source files were missing, have changed since, or are too large:\n",
                        contents.missing_sources.size());
    for (const std::string& path : contents.missing_sources) text += "  " + path + "\n";
  }
  return text;
}

int RunBundle(const BundleOptions& options) {
  Contents contents;
  ModuleSymbolizer symbolizer(DebugFileOptions(options.debug_dirs));
  const auto given = FindProfiles(options.files);
  if (!given.ok()) {
    Say(std::string(given.status().message()));
    return kCouldNot;
  }
  for (const auto& [file, from_folder] : *given) {
    auto profile = ReadPprofFile(file);
    if (!profile.ok()) {
      Say(std::string(profile.status().message()));
      if (from_folder) continue;  // the file may be deleted at any time
      return kCouldNot;
    }
    CompleteLockNames(&*profile, symbolizer.files());
    const SymbolizeReport report = Symbolize(&*profile, symbolizer, {.perf_map = true});
    CompleteBlockNames(&*profile, symbolizer.files());
    std::string name = file == "-" ? "profile.pb.gz" : std::filesystem::path(file).filename().string();
    for (int i = 2; contents.profiles.contains(name); ++i) name = fmt::format("{}.{}", i, name);
    contents.profiles[name] = EncodePprof(*profile);
    contents.found.push_back(fmt::format("{}: {}", name, SummaryOf(report)));
    contents.newest_s = std::max(contents.newest_s, profile->time_nanos / 1'000'000'000);
    if (options.source) AddSources(*profile, &contents);
  }
  if (contents.profiles.empty()) return kCouldNot;
  std::string out = options.out;
  if (out.empty()) {
    const std::string& first = contents.profiles.begin()->first;
    out = first.substr(0, first.find(".pb")) + ".bundle.tar.gz";
  }
  std::string name = out == "-" ? "holdfast-bundle" : std::filesystem::path(out).filename().string();
  for (const std::string_view suffix : {".gz", ".tar", ".tgz"}) {
    if (name.ends_with(suffix) && name.size() > suffix.size()) name.resize(name.size() - suffix.size());
  }
  AtomicFile written(out, std::cout, Readers::kOwner);
  TarWriter tar(written.fd(), contents.newest_s);
  tar.Add(name + "/README.txt", Readme(name, contents));
  for (const auto& [file, bytes] : contents.profiles) tar.Add(name + "/" + file, bytes);
  for (const auto& [path, text] : contents.sources) tar.Add(name + "/source" + path, text);
  if (const absl::Status packed = tar.Finish(); !packed.ok()) written.Fail(std::string(packed.message()));
  if (const absl::Status status = written.Finish(); !status.ok()) {
    Say(std::string(status.message()));
    return kCouldNot;
  }
  for (const std::string& found : contents.found) Say(found + ".");
  const auto counted = [](size_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  Say(fmt::format("{}: {} and {}. It contains command lines and source code: check it before you send it.",
                  out == "-" ? "standard output" : out, counted(contents.profiles.size(), "profile"),
                  counted(contents.sources.size(), "source file")));
  return kFine;
}

}  // namespace

void AddBundleCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<BundleOptions>();
  CLI::App* command =
      app.add_subcommand("bundle", "Pack profiles and what is needed to read them into one file to send");
  command->footer(
      "Writes a .tar.gz with the profiles (symbolized, as `symbolize` does it), the source files that they name, and a README\n"
      "that explains how to read them. The recipient needs neither the program nor this machine. A source file that\n"
      "changed after the profile was taken is omitted.\n"
      "\n"
      "  holdfast bundle app.4242.0003.*.pb.gz                   writes app.4242.0003.block.bundle.tar.gz\n"
      "  holdfast bundle -o run.tar.gz holdfast.app.4242         all profiles of one run\n"
      "  holdfast bundle --no-source -o leak.tar.gz *.heap.pb.gz\n"
      "  tar xzf leak.tar.gz && holdfast top leak/*.heap.pb.gz    on the recipient's machine\n");
  command
      ->add_option("FILE", options->files,
                   "Profiles in pprof's format (gzip or plain), or folders of them; - is standard input")
      ->required();
  command
      ->add_option("-o,--out,--output", options->out,
                   "The file to write; - is standard output [default: the first profile's name with .bundle.tar.gz]")
      ->type_name("PATH");
  command->add_flag("!--no-source", options->source, "Omit the source files");
  AddDebugDirOption(command, &options->debug_dirs);
  command->callback([options, invocation] { invocation->exit_code = Finished(RunBundle(*options)); });
}

}  // namespace holdfast
