#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/analysis/locks/stuck.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/builder/output_folder.h"
#include "report/builder/process_exporter.h"
#include "report/cmd/commands.h"
#include "report/daemon/find_tables.h"
#include "report/daemon/served_users.h"
#include "report/daemon/stalled_exporter.h"
#include "report/names/symbolize/module_symbolizer.h"
#include "report/observe/table/table_folder.h"
#include "report/run/scan_profile.h"
#include "report/show/label_blocks.h"
#include "sampler/contract/exporter_service.h"

namespace holdfast {
namespace {

struct DumpOptions {
  std::vector<std::string> pids, tables;
  std::string out;
  bool all = false, holders = false;
};

constexpr int kPatienceMs = 20'000;  // an exporter may be busy with other processes

// Returns the newest file of each profile kind of one process.
std::map<std::string, ProfileName> NewestOfProcess(const OutputFolder& folder, const std::string& program,
                                                   uint32_t pid) {
  std::map<std::string, ProfileName> newest;
  const std::string file_program = ProgramForFileName(program);
  for (const OutputFolder::Entry& entry : folder.List()) {
    if (!entry.regular || entry.name.program != file_program || entry.name.pid != pid) continue;
    ProfileName& name = newest[entry.name.kind];
    if (entry.name.seq > name.seq) name = entry.name;
  }
  return newest;
}

class Dumper {
 public:
  explicit Dumper(const DumpOptions& options) : options_(options) {}

  int Run() {
    if (options_.all) {
      FoundTables found = FindTables(options_.tables);
      for (ProcessTable& table : FindTablesOfOthers(options_.tables)) found.tables.push_back(std::move(table));
      for (const std::string& line : DescribeUnreadable(found.unreadable)) Fail(line);
      int alive = 0;
      for (ProcessTable& table : found.tables) {
        if (table.liveness == Liveness::kDead) continue;
        ++alive;
        Dump(std::move(table));
      }
      if (alive == 0 && !failed_) Say("this user has no profiled process. Start one with: holdfast run -- PROGRAM");
    }
    for (const std::string& text : options_.pids) {
      const absl::StatusOr<pid_t> pid = ParsePid(text);
      if (!pid.ok()) continue;  // the command has refused it
      if (const std::optional<uid_t> user = OtherUserOf(*pid); user.has_value()) {
        absl::StatusOr<ProcessTable> table = FindTableOf(*pid, options_.tables, *user);
        if (table.ok() && IsWrittenByRoot(*table, *user)) {
          Dump(*std::move(table));
          continue;
        }
      }
      if (const absl::Status status = BecomeUserOf(*pid); !status.ok()) {
        Fail(status);
        continue;
      }
      absl::StatusOr<ProcessTable> table = FindTableOf(*pid, options_.tables);
      if (table.ok()) {
        Dump(*std::move(table));
      } else {
        Fail(table.status());
      }
    }
    return Finished(failed_ ? kCouldNot : kFine);
  }

 private:
  void Fail(const std::string& line) {
    failed_ = true;
    Say(line);
  }
  void Fail(const absl::Status& status) { Fail(std::string(status.message())); }

  // Whether root or root's exporter writes the profiles of another user's program: into the folder that root names with
  // -o, or into a folder for which root has set a mark. The table's user alone proves nothing, because a table may name
  // any folder. A child with that user's rights reads the table.
  bool IsWrittenByRoot(const ProcessTable& process, uid_t user) const {
    const std::string folder = options_.out.empty() ? process.out() : options_.out;
    struct stat info;
    if (stat(folder.c_str(), &info) != 0) return !options_.out.empty();
    if (info.st_uid == user) return false;
    const FolderId id = process.table.OutIdHere();
    return !options_.out.empty() ||
           (FolderIdOf(folder) == id && HasMark(process.folder, process.table.out(), id, user));
  }

  void Dump(ProcessTable process) {
    // Create the folder only when there is something to write, as the exporter does.
    const std::string path = options_.out.empty() ? process.out() : options_.out;
    const std::string name = process.Name(), program = process.table.program();
    const uint32_t pid = process.table.owner().pid;
    const absl::StatusOr<OutputFolder> folder = OutputFolder::Open(path);
    if (!folder.ok()) {
      // The folder belongs to another user, and that user's exporter serves this program.
      if (options_.out.empty() && absl::IsPermissionDenied(folder.status()) && AskExporter(process).value_or(false)) {
        return Say(fmt::format("{}: its exporter wrote a snapshot to {}, which user {} cannot read.", name,
                               Printable(path), geteuid()));
      }
      return Fail(fmt::format("{}: cannot write its snapshot ({}). Name another folder with -o.", name,
                              std::string(folder.status().message())));
    }
    // The path may lead elsewhere since the mark was compared, because it begins at the program's own root folder.
    if (options_.out.empty() && process.table.ReadWith().has_value() && !(folder->id() == process.table.OutIdHere())) {
      return Fail(
          fmt::format("{}: {} is no longer its output folder. Name another folder with -o.", name, Printable(path)));
    }
    // If the folder was deleted, the exporter makes another one of that name; if it was moved, the exporter goes on there.
    const bool is_another =
        options_.out.empty() && process.table.out_id().known() && !(folder->id() == process.table.OutIdHere());
    const std::map<std::string, ProfileName> before = NewestOfProcess(*folder, program, pid);
    if (const absl::Status written = DumpOne(std::move(process), *folder); !written.ok()) {
      return Fail(fmt::format("{}: no snapshot ({}).", name, std::string(written.message())));
    }
    const std::map<std::string, ProfileName> after = NewestOfProcess(*folder, program, pid);
    bool any_new = false;
    std::vector<std::string> files;
    for (const auto& [kind, file] : after) {
      files.push_back(path + "/" + file.ToString());
      const auto old = before.find(kind);
      any_new = any_new || old == before.end() || old->second.seq != file.seq;
      // A script needs the path as it is.
      const std::string file_path = path + "/" + file.ToString();
      std::cout << (isatty(STDOUT_FILENO) != 0 ? Printable(file_path) : file_path) << "\n";
    }
    SayLines(DeadlocksIn(files));  // standard output holds only file names
    if (after.empty() && is_another) {
      Fail(fmt::format("{}: {} is no longer its output folder (it was moved or replaced). Name another folder with -o.",
                       name, Printable(path)));
    } else if (after.empty()) {
      Say(fmt::format("{}: nothing has been sampled yet, so there is no file.", name));
    } else if (!any_new) {
      Say(fmt::format("{}: nothing new has been sampled since its last snapshot; that file is named here.", name));
    }
  }

  // Asks the exporter if there is one, because it knows which files it wrote. Otherwise writes the snapshot itself.
  absl::Status DumpOne(ProcessTable process, const OutputFolder& folder) {
    if (options_.out.empty() && !options_.holders) {
      const absl::StatusOr<bool> answered = AskExporter(process);
      if (!answered.ok()) return answered.status();
      if (*answered) return absl::OkStatus();
    }
    const std::optional<pid_t> pid = process.pid;
    ProcessExporter exporter(std::move(process.table));
    if (!options_.holders) return exporter.Export(folder, symbolizer_).status();
    if (!pid.has_value()) return absl::NotFoundError("its memory is not visible here");
    absl::Status labelled;
    Profile holders;
    std::optional<ProcessIdentity> identity;
    exporter.set_label_blocks([&](ProcessState* state) {
      identity = state->table->process;
      labelled = LabelBlocks(*pid, options_.tables, state, &holders);
    });
    const absl::Status written = exporter.Export(folder, symbolizer_).status();
    if (!written.ok() || !labelled.ok() || !identity.has_value() || holders.samples.empty())
      return written.ok() ? labelled : written;
    return WriteScanProfile(*identity, std::move(holders), folder).status();
  }

  // Returns false if there is no exporter, or if it has exited.
  static absl::StatusOr<bool> AskExporter(const ProcessTable& process) {
    const std::string out = process.table.out();
    const auto serves = [&] {
      const Service service = ServiceOf(process.folder.c_str(), out.c_str(), process.table.OutIdHere());
      return service == Service::kServed || service == Service::kByRoot;
    };
    if (!serves()) return false;
    const absl::StatusOr<uint32_t> request = process.table.RequestSnapshot();
    if (!request.ok()) return request.status();
    ExporterProgress progress;
    for (int waited_ms = 0; waited_ms < kPatienceMs; waited_ms += 5) {
      const absl::StatusOr<ControlWords> words = process.table.ReadWords();
      if (!words.ok()) return words.status();
      // The counters wrap at 2^32.
      if (static_cast<int32_t>(words->snapshot_done - *request) >= 0) return true;
      if (waited_ms % 200 == 100 && !serves()) return false;
      if (progress.IsStalled(process.folder.c_str(), out.c_str(), process.table.OutIdHere())) {
        return absl::DeadlineExceededError(
            fmt::format("{}; write it without the exporter with -o DIR", WhyStalled(progress)));
      }
      const timespec pause = {0, 5'000'000};
      nanosleep(&pause, nullptr);
    }
    return absl::DeadlineExceededError(
        "its exporter does not write it: the folder may be full or deleted; write it elsewhere with -o DIR");
  }

  const DumpOptions& options_;
  ModuleSymbolizer symbolizer_;
  bool failed_ = false;
};

}  // namespace

void AddDumpCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* dump = app.add_subcommand("dump", "Write a snapshot of running programs now");
  dump->footer(
      "Writes a profile of each kind that has new data, and prints the names of the newest files. This works without the\n"
      "program's help, even if it is stopped, hung or deadlocked.\n"
      "\n"
      "  holdfast dump 4242                       into the program's own output folder\n"
      "  holdfast dump --all -o /tmp/now          every profiled process of this user\n"
      "  holdfast dump --holders 4242             with labels for holdfast top --by held and --by class; takes 2 to 4 s of CPU\n"
      "                                           for each GiB of heap (see holdfast holders)");
  dump->add_option("PID", options->pids, "Process ids, as holdfast ls lists them");
  dump->add_flag("--all", options->all, "Every profiled process of this user");
  dump->add_option("-o,--out,--output", options->out, "The folder to write to [default: the program's output folder]");
  dump->add_flag(
      "--holders", options->holders,
      "Also find what holds each block and the classes of objects: labels held and class of the heap profile");
  dump->add_option("--tables", options->tables, "The folder of the table files [default: all that are in use]")
      ->allow_extra_args(false);
  dump->callback([options, invocation] {
    if (options->all == !options->pids.empty()) {
      throw CLI::ValidationError(options->all ? "both --all and a PID are given" : "name a PID, or --all");
    }
    for (const std::string& text : options->pids) {
      if (const absl::StatusOr<pid_t> pid = ParsePid(text); !pid.ok())
        throw CLI::ValidationError(std::string(pid.status().message()));
    }
    invocation->exit_code = Dumper(*options).Run();
  });
}

}  // namespace holdfast
