#include "report/collect_command.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "report/output_folder.h"
#include "report/symbolizer.h"
#include "report/table_exporter.h"
#include "report/table_folder.h"
#include "sampler/spawn_exporter.h"

namespace holdfast {
namespace {

struct CollectOptions {
  std::string out;
  std::vector<std::string> tables;
  bool live = false;
};

struct Tally {
  int files = 0, processes = 0, live = 0, unknown = 0, failed = 0;
};

void CollectTable(const CollectOptions& options, const FileDescriptor& folder, TableFile table, const OutputFolder& output,
                  Symbolizer& symbolizer, Tally* tally) {
  const Liveness liveness = LivenessOf(table.owner(), true);
  if (liveness != Liveness::kDead && !options.live) {
    ++(liveness == Liveness::kAlive ? tally->live : tally->unknown);
    return;
  }
  const std::string name = table.name();
  const std::string program = table.program();
  const uint32_t pid = table.owner().pid;
  TableExporter exporter(std::move(table));
  const absl::StatusOr<int> written = exporter.Export(output, symbolizer);
  if (!written.ok()) {
    ++tally->failed;
    fmt::print(stderr, "holdfast: {} (process {}, table {}): {}. The table was left where it is.\n", program, pid, name,
               std::string(written.status().message()));
    return;
  }
  ++tally->processes;
  tally->files += *written;
  if (liveness == Liveness::kDead) unlinkat(folder.get(), name.c_str(), 0);
}

int Collect(const CollectOptions& options) {
  const std::string out = std::filesystem::absolute(options.out).lexically_normal().string();
  const auto is_same = [&](const std::string& other) {
    std::error_code error;
    return std::filesystem::path(other).lexically_normal() == out || std::filesystem::equivalent(other, out, error);
  };
  Tally tally;
  Symbolizer symbolizer;
  absl::StatusOr<OutputFolder> output = absl::NotFoundError("");  // made when there is something to put into it
  for (const std::string& path : options.tables) {
    const absl::StatusOr<FileDescriptor> folder = OpenFolder(path);
    if (!folder.ok()) {
      fmt::print(stderr, "holdfast: {}: cannot be read ({}). Name the folder of the tables with --tables.\n", path,
                 std::string(folder.status().message()));
      return 3;
    }
    for (const std::string& name : ListTableNames(*folder)) {
      absl::StatusOr<TableFile> table = TableFile::Open(*folder, name);
      if (!table.ok() || !is_same(table->out())) continue;
      if (ExporterServes(path.c_str(), table->out().c_str())) {
        fmt::print(stderr, "holdfast: {}: an exporter is at work for this folder and writes its profiles by itself.\n", out);
        return 0;
      }
      if (!output.ok()) output = OutputFolder::Open(out);
      if (!output.ok()) {
        fmt::print(stderr, "holdfast: {}. Name a folder that can be written.\n", std::string(output.status().message()));
        return 3;
      }
      CollectTable(options, *folder, *std::move(table), *output, symbolizer, &tally);
    }
  }
  fmt::print(stderr, "holdfast: {}: {} written from {}", out, tally.files == 1 ? "1 profile" : fmt::format("{} profiles", tally.files),
             tally.processes == 1 ? "1 process" : fmt::format("{} processes", tally.processes));
  if (tally.live > 0) fmt::print(stderr, "; {} still running (--live takes those too)", tally.live);
  if (tally.unknown > 0) fmt::print(stderr, "; {} of which it cannot be seen whether they run (--live takes those too)", tally.unknown);
  fmt::print(stderr, ".\n");
  return tally.failed > 0 ? 3 : 0;
}

}  // namespace

void AddCollectCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<CollectOptions>();
  CLI::App* command = app.add_subcommand("collect", "Write the profiles of ended programs that no exporter served");
  command->footer(
      "A program that was preloaded with HOLDFAST_EXPORTER=no, or whose exporter was killed with it, leaves its table\n"
      "in memory. This turns such tables into profiles in DIR (the program's HOLDFAST_OUT) and removes them.\n\n"
      "  HOLDFAST_EXPORTER=no HOLDFAST_OUT=/tmp/p LD_PRELOAD=…/libholdfast.so ./server\n"
      "  holdfast collect /tmp/p");
  command->add_option("DIR", options->out, "Output folder that the programs were started with")->required();
  command->add_option("--tables", options->tables, "Folder of the table files [default: /dev/shm and $XDG_RUNTIME_DIR]");
  command->add_flag("--live", options->live, "Also write profiles of programs that still run (their tables stay)");
  command->callback([options, exit_code] {
    if (options->tables.empty()) {
      for (const std::string& folder : DefaultTableFolders()) {
        if (std::filesystem::is_directory(folder)) options->tables.push_back(folder);
      }
    }
    *exit_code = Collect(*options);
  });
}

}  // namespace holdfast
