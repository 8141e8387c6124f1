#include "report/fleet/live/live_process.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/printable.h"
#include "report/base/time_budget.h"
#include "report/builder/lock_names.h"
#include "report/builder/profile_builder.h"
#include "report/daemon/installation.h"
#include "report/names/symbolize/profile_symbolizer.h"

namespace holdfast {
namespace {

// Longer than in the exporter, because the end of no process waits for it; scrapers give up after 10 s.
constexpr std::chrono::milliseconds kLiveLinesTime{2000};

// Whether there is a table of the choice.
bool IsAnyChosen(const ProcessChoice& choice) {
  const FoundTables found = FindTables(choice.tables);
  return std::any_of(found.tables.begin(), found.tables.end(),
                     [&](const ProcessTable& process) { return choice.Chooses(process); });
}

}  // namespace

const LoadedFiles& Names::FilesOf(const ProcessState& state) {
  constexpr size_t kMaxProcesses = 256;
  if (modules_.size() >= kMaxProcesses) modules_.clear();
  LoadedModules& modules = modules_[ProcessId(state.table->process)];
  modules.Look(state, &open_files_);
  return modules.files();
}

bool Names::Give(const ProcessState& state, ProfileKind kind, Profile* profile) {
  const std::lock_guard lock(mutex_);
  const Deadline deadline = Deadline::In(kLiveLinesTime);
  const LoadedFiles& files = FilesOf(state);
  symbolizer_.UseFilesOf(&files);
  Symbolize(profile, symbolizer_, {.deadline = deadline, .perf_map = true});
  symbolizer_.UseFilesOf(nullptr);
  const bool whole = !deadline.Passed();
  if (IsLockKind(kind)) WriteLockNames(state, profile, &files);
  return whole;
}

std::vector<std::string> Names::Of(const ProcessState& state, const std::vector<uint64_t>& addresses) {
  Profile profile = BuildProfile(state, ProfileKind::kHeap);  // for its mappings
  profile.samples.clear();
  profile.locations.clear();
  for (const uint64_t address : addresses) {
    const auto holds = [&](const Profile::Mapping& mapping) {
      return mapping.start <= address && address < mapping.limit;
    };
    const auto mapping = std::find_if(profile.mappings.begin(), profile.mappings.end(), holds);
    profile.locations.push_back({.address = address,
                                 .mapping = mapping == profile.mappings.end()
                                                ? Profile::kNone
                                                : static_cast<uint32_t>(mapping - profile.mappings.begin())});
  }
  {
    const std::lock_guard lock(mutex_);
    symbolizer_.UseFilesOf(&FilesOf(state));
    Symbolize(&profile, symbolizer_, {.lines = false, .perf_map = true});
    symbolizer_.UseFilesOf(nullptr);
  }
  std::vector<std::string> names;
  for (const Profile::Location& location : profile.locations) {
    const auto lines = profile.LinesOf(location);
    const std::string name =
        lines.empty() ? "" : std::string(profile.strings[profile.functions[lines.back().function].name]);
    // `[unknown]!0x…` and `libfoo.so!0x…` only repeat the address.
    names.push_back(location.mapping == Profile::kNone && name.starts_with("[unknown]") ? "" : name);
  }
  return names;
}

bool ProcessChoice::Chooses(const ProcessTable& process) const {
  if (pids.empty() && outs.empty()) return true;
  return std::find(pids.begin(), pids.end(), PidOf(process)) != pids.end() ||
         std::find(outs.begin(), outs.end(), process.out()) != outs.end();
}

absl::StatusOr<ProcessChoice> ChooseProcesses(const std::vector<std::string>& arguments,
                                              const std::vector<std::string>& tables, bool may_come) {
  ProcessChoice choice{.pids = {}, .outs = {}, .tables = tables};
  for (const std::string& argument : arguments) {
    if (!argument.empty() && argument.find_first_not_of("0123456789") == std::string::npos) {
      const absl::StatusOr<pid_t> pid = ParsePid(argument);
      if (!pid.ok()) return pid.status();
      // A server that runs as root reads no other user's tables; otherwise any client could make root do so.
      if (const std::optional<uid_t> user = OtherUserOf(*pid); user.has_value()) {
        return absl::FailedPreconditionError(fmt::format(
            "process {}: runs as user {}, but root serves and pushes only root's own programs. Run holdfast as that user (sudo -u).",
            *pid, *user));
      }
      // The table of a process that has exited may still be there.
      const ProcessChoice one{.pids = {*pid}, .outs = {}, .tables = tables};
      if (absl::Status status = CheckProcess(*pid); !status.ok() && !IsAnyChosen(one)) return status;
      choice.pids.push_back(*pid);
      continue;
    }
    absl::StatusOr<std::string> out = AbsolutePath(argument);
    if (!out.ok()) return out.status();
    struct stat info;
    const bool exists = stat(out->c_str(), &info) == 0;
    const bool is_fine = exists ? S_ISDIR(info.st_mode)
                                : (may_come && argument.find('/') != std::string::npos) ||
                                      IsAnyChosen({.pids = {}, .outs = {*out}, .tables = tables});
    if (!is_fine) {
      return absl::InvalidArgumentError(
          fmt::format("{}: neither a process id nor a folder. holdfast ls lists both.", Printable(argument)));
    }
    choice.outs.push_back(*std::move(out));
  }
  return choice;
}

std::string UnservedUsers(const ProcessChoice& choice) {
  if (!choice.pids.empty() || !choice.outs.empty()) return "";
  const std::vector<uid_t> users = OtherUsers(choice.tables);
  if (users.empty()) return "";
  return fmt::format("not serving the programs of {} other {}: a server serves only its own user's programs",
                     users.size(), users.size() == 1 ? "user" : "users");
}

std::vector<ProcessTable> LiveProcesses(const ProcessChoice& choice, std::vector<ProcessTable>* ended) {
  FoundTables found = FindTables(choice.tables);
  std::vector<ProcessTable> chosen;
  for (ProcessTable& process : found.tables) {
    if (!choice.Chooses(process)) continue;
    if (process.liveness == Liveness::kDead) {
      if (ended != nullptr) ended->push_back(std::move(process));
      continue;
    }
    // After exec, the older image's table exists for a moment; tables are sorted by start. Processes in containers that
    // we cannot see into all have pid 1.
    const auto older = std::find_if(chosen.begin(), chosen.end(), [&](const ProcessTable& one) {
      return one.table.owner().SameProcess(process.table.owner());
    });
    if (older != chosen.end()) chosen.erase(older);
    chosen.push_back(std::move(process));
  }
  return chosen;
}

absl::StatusOr<ProcessTable> LiveProcess(const ProcessChoice& choice, pid_t pid) {
  absl::StatusOr<ProcessTable> process = FindTableOf(pid, choice.tables);
  if (process.ok() && process->liveness != Liveness::kDead && choice.Chooses(*process)) return process;
  return absl::NotFoundError(fmt::format("process {}: not served here", pid));
}

pid_t PidOf(const ProcessTable& process) { return process.pid.value_or(static_cast<pid_t>(process.table.owner().pid)); }

std::string CommandLineOf(const ProcessTable& process, const TableSnapshot& snapshot) {
  if (process.pid.has_value()) {
    std::string text = ReadWhole(fmt::format("/proc/{}/cmdline", *process.pid), 1 << 20);
    if (!text.empty()) return text;
  }
  std::string text = snapshot.process.command_line;
  std::replace(text.begin(), text.end(), ' ', '\0');
  return text + '\0';
}

}  // namespace holdfast
