// `holdfast attach` and `holdfast detach`.
#include <errno.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/base/holdfast_library.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/signals.h"
#include "report/base/split.h"
#include "report/base/value_units.h"
#include "report/builder/output_folder.h"
#include "report/cmd/commands.h"
#include "report/daemon/find_tables.h"
#include "report/daemon/installation.h"
#include "report/observe/table/entry_text.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"
#include "report/run/attach_check.h"
#include "report/run/doctor_surroundings.h"
#include "report/run/library_call.h"
#include "report/run/run_options.h"
#include "report/run/search_order.h"
#include "report/show/tracing_rights.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/options.h"

namespace holdfast {
namespace {

constexpr int kBorrowPatienceMs = 10'000;

struct AttachOptions {
  std::string pid;
  std::string time;  // --for
  RunOptions run;
};

// The name that its user knows: redis-server, not redis-check-rdb, which is the same file.
std::string ProgramOf(pid_t pid) {
  const std::string started = StartedAs(pid);
  const std::string file(BaseName(started.empty() ? ExecutableOfProcess(pid) : started));
  return file.empty() ? ThreadName(pid, pid) : file;  // a zombie has no executable
}

// "redis-server (pid 4242)"; "pid 4242" once it is gone
std::string NameOf(pid_t pid) {
  const std::string program = ProgramOf(pid);
  return program.empty() ? fmt::format("pid {}", pid) : Printable(fmt::format("{} (pid {})", program, pid));
}

std::string WhyResult(AttachResult result, pid_t pid) {
  switch (result) {
    case AttachResult::kPreloaded:
      return "it was started with the library, and is profiled already";
    case AttachResult::kExcluded:
      return "it was forked by a program that was attached, and its library records nothing until it ends: because of "
             "--children no, a seccomp filter, or no place for a table. Attach that program without --children no";
    case AttachResult::kSwitchedOff:
      return "it was started with the library, which records nothing there: it is switched off (HOLDFAST_ENABLE=0, or "
             "--children no of the program that started it), or there is a sanitizer or valgrind";
    case AttachResult::kDormant:
      return "the library records nothing in this process: it has a sanitizer, or has installed a seccomp filter since an "
             "earlier attach, or its dl_iterate_phdr names no object. Start it with holdfast run";
    case AttachResult::kNoTable:
      return fmt::format(
          "no table could be created: there was no space for it, no memory (ulimit -d, -v) or no file descriptor "
          "(ulimit -n). See holdfast doctor {} --attach",
          pid);
    default:
      return "the library does not answer";
  }
}

std::string StopText(const CallOutcome& outcome) {
  std::string text = fmt::format("{} thread{} stopped{} for {}", outcome.stops, outcome.stops == 1 ? " was" : "s were",
                                 outcome.stops == 1 ? "" : ", the last", FormatTimeNs(outcome.stopped_us * 1000));
  if (outcome.all_stops != 0) {
    text +=
        fmt::format("; all {} threads at once for {}", outcome.threads, FormatTimeNs(outcome.all_stopped_us * 1000));
    if (outcome.all_stops != 1) text += fmt::format(" in {} stops", outcome.all_stops);
  }
  if (outcome.lost_calls != 0)
    text += fmt::format("; {} system call{} returned EINTR or fewer bytes than asked for", outcome.lost_calls,
                        outcome.lost_calls == 1 ? "" : "s");
  return text;
}

// The entries that a detach could not restore; "": there is none.
std::string EntriesLeft(const LibraryAnswer& answer) {
  std::string text;
  if (answer.refused > 0) {
    text = fmt::format(
        "{} of its entries still lead through the library, which passes the calls on: their memory was sealed meanwhile "
        "(mseal), and cannot be changed until the process ends",
        answer.refused);
  }
  if (answer.unreadable > 0) {
    text += fmt::format(
        "{}{} of its entries may still lead through the library, which passes the calls on: the program has made their "
        "memory unreadable (PROT_NONE)",
        text.empty() ? "" : "; ", answer.unreadable);
  }
  return text;
}

int CouldNotAttach(const std::string& line) {
  Say(line);
  return kCouldNot;
}

bool IsGone(pid_t pid) {
  struct stat info;
  return stat(fmt::format("/proc/{}", pid).c_str(), &info) != 0;
}

enum class LastSnapshot : uint8_t { kWritten, kNoExporter, kNotWritten, kNoTable, kAskedToEnd };

// The last snapshot after a detach: asks the exporter, and waits until it is written.
LastSnapshot WriteLastSnapshot(const ProcessTable& process, const std::function<bool()>& is_asked_to_end) {
  const absl::StatusOr<uint32_t> request = process.table.RequestSnapshot();
  for (int waited_ms = 0; request.ok() && waited_ms < 20'000; waited_ms += 5) {
    const absl::StatusOr<ControlWords> words = process.table.ReadWords();
    if (!words.ok()) return LastSnapshot::kNotWritten;
    if (static_cast<int32_t>(words->snapshot_done - *request) >= 0) return LastSnapshot::kWritten;
    if (waited_ms % 100 == 0 && is_asked_to_end()) return LastSnapshot::kAskedToEnd;
    if (waited_ms % 1000 == 500 &&
        !ExporterServes(process.folder.c_str(), process.table.out().c_str(), process.table.OutIdHere()))
      return LastSnapshot::kNoExporter;
    if (waited_ms % 1000 == 500 && !WhyNoSpace(process.table.out()).empty()) return LastSnapshot::kNotWritten;
    constexpr timespec kPause = {0, 5'000'000};
    nanosleep(&kPause, nullptr);
  }
  return LastSnapshot::kNotWritten;
}

// False also if the folder cannot be read.
bool HasNoProfile(const std::string& folder) {
  std::error_code failed;
  std::filesystem::directory_iterator files(folder, failed);
  if (failed) return false;
  return std::none_of(begin(files), end(files),
                      [](const auto& file) { return file.path().native().ends_with(".pb.gz"); });
}

// As the process's user: keeps the right to trace only if that user lacks it for this process.
void UseIfNeeded(const TracingRights& rights, pid_t pid) {
  // No such address is mapped, and the kernel checks the rights first.
  char byte = 0;
  const iovec ours = {&byte, 1}, its = {nullptr, 1};
  if (process_vm_readv(ThreadWithMemory(pid), &ours, 1, &its, 1, 0) == 1 || errno == EFAULT) {
    rights.GiveUp();
  } else {
    rights.Use();
  }
}

// The filters are read only if nothing else forbids it, because that stops threads. A child checks, which has the rights
// of the process's user.
template <typename Check>
FilterAnswer FiltersUnlessRefused(pid_t pid, bool detaches, Check check) {
  FilterAnswer answer = ReadFilterAnswer(pid, false);
  if (!answer.is_left_open) return answer;
  const pid_t child = fork();
  if (child == 0) {
    const TracingRights rights(true);
    if (!BecomeUserOf(pid).ok()) _exit(1);
    UseIfNeeded(rights, pid);
    const absl::StatusOr<std::string> own_path = OwnPath();
    const absl::StatusOr<std::string> library = own_path.ok() ? FindLibrary(*own_path) : own_path;
    _exit(library.ok() && check(*library, answer).refused.empty() ? 0 : 1);
  }
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return ReadFilterAnswer(pid, true, detaches);
  answer.is_left_open = false;
  return answer;
}

void AddStops(const FilterAnswer& filters, CallOutcome* outcome) {
  outcome->stops += filters.stops;
  outcome->lost_calls += filters.lost_calls;
}

int Detach(pid_t pid, const std::vector<std::string>& folders, bool quiet, const FilterAnswer& filters,
           HeldSignals* signals) {
  const TracingRights rights(true);
  if (const absl::Status status = BecomeUserOf(pid); !status.ok()) return CouldNotAttach(std::string(status.message()));
  UseIfNeeded(rights, pid);
  const std::string name = NameOf(pid);
  const absl::StatusOr<std::string> own_path = OwnPath();
  const absl::StatusOr<std::string> library = own_path.ok() ? FindLibrary(*own_path) : own_path;
  if (!library.ok()) return Failed(library.status());
  const AttachCheck check = CheckDetach(pid, *library, filters);
  if (check.is_preloaded && !check.is_profiled)
    return CouldNotAttach(fmt::format("{}: is not attached: {}.", name, check.refused));
  if (check.is_preloaded) {
    return CouldNotAttach(fmt::format(
        "{}: not detached: it was started with the library, and is profiled until it ends. To pause recording: "
        "holdfast set {} all=off cpu=off wall=off",
        name, pid));
  }
  if (!check.refused.empty()) return CouldNotAttach(fmt::format("{}: not detached: {}.", name, check.refused));
  if (!check.has_library) return CouldNotAttach(fmt::format("{}: is not attached.", name));
  // Without a table, too, the entries can be restored.
  const absl::StatusOr<ProcessTable> table = FindTableOf(pid, folders);
  bool is_asked = false;
  const auto is_asked_to_end = [&] {
    is_asked = is_asked || signals->AskedToEnd(0);
    return is_asked;
  };
  absl::StatusOr<CallOutcome> outcome =
      CallLibrary(pid, {check.loaded_library, "", AttachAction::kDetach, {}, {}, filters.counts}, kBorrowPatienceMs,
                  is_asked_to_end);
  if (!outcome.ok()) {
    return CouldNotAttach(fmt::format("{}: not detached: {}{}.{}", name, is_asked ? "was asked to end before: " : "",
                                      std::string(outcome.status().message()),
                                      absl::IsFailedPrecondition(outcome.status()) ? "" : " Try again."));
  }
  AddStops(filters, &*outcome);
  if (outcome->answer.result == AttachResult::kAlready)
    return CouldNotAttach(fmt::format("{}: is not attached.", name));
  if (outcome->answer.result != AttachResult::kDone)
    return CouldNotAttach(fmt::format("{}: not detached: {}.", name, WhyResult(outcome->answer.result, pid)));
  // Asked to end during the call, which was made: the profiles come first all the same.
  is_asked = false;
  const LastSnapshot last = table.ok() ? WriteLastSnapshot(*table, is_asked_to_end) : LastSnapshot::kNoTable;
  const std::string left = EntriesLeft(outcome->answer);
  if (!left.empty()) Say(fmt::format("{}: recording has ended, but {}.", name, left));
  if (!quiet) {
    Say(fmt::format("{}: {}, {} entries restored; {}.", name, !left.empty() ? "not wholly detached" : "detached",
                    outcome->answer.redirected, StopText(*outcome)));
    if (last == LastSnapshot::kWritten && HasNoProfile(table->out())) {
      Say(fmt::format(
          "nothing was sampled while it was attached, so {} has no profile. For small programs: attach --heap-interval 1",
          Printable(table->out())));
    } else if (last == LastSnapshot::kWritten) {
      Say(fmt::format("profiles: {}", Printable(table->out())));
    }
  }
  if (last == LastSnapshot::kNoTable) {
    Say(fmt::format("what was recorded since its last profiles is lost. {}", std::string(table.status().message())));
  }
  if (last == LastSnapshot::kNoExporter)
    Say(fmt::format(
        "the last profiles are not written, because their exporter has ended: holdfast dump {} writes them.", pid));
  if (last == LastSnapshot::kAskedToEnd)
    Say(fmt::format("was asked to end before the last profiles were written: holdfast dump {} writes them.", pid));
  if (last == LastSnapshot::kNotWritten) {
    const std::string why = WhyNoSpace(table->out());
    Say(fmt::format("the last profiles are not written: {}{}. holdfast dump {} -o DIR writes them elsewhere.",
                    Printable(table->out()), why.empty() ? " may be full or deleted" : ": " + why, pid));
  }
  return left.empty() && last == LastSnapshot::kWritten ? kFine : kCouldNot;
}

class Attacher {
 public:
  Attacher(pid_t pid, const AttachOptions& options, uint64_t for_ns) : pid_(pid), options_(options), for_ns_(for_ns) {}

  int Run() {
    filters_ = FiltersUnlessRefused(pid_, false, [this](const std::string& library, const FilterAnswer& filters) {
      return CheckAttach(pid_, library, options_.run.tables, filters);
    });
    const TracingRights rights(true);
    if (const absl::Status status = BecomeUserOf(pid_); !status.ok())
      return CouldNotAttach(std::string(status.message()));
    UseIfNeeded(rights, pid_);
    name_ = NameOf(pid_);
    const absl::StatusOr<std::string> own_path = OwnPath();
    const absl::StatusOr<std::string> library = own_path.ok() ? FindLibrary(*own_path) : own_path;
    if (!library.ok()) return Failed(library.status());
    const AttachCheck check = CheckAttach(pid_, *library, options_.run.tables, filters_);
    if (!check.refused.empty()) {
      return CouldNotAttach(
          fmt::format("{}: not attached: {}. holdfast doctor {} --attach shows everything that was checked.", name_,
                      check.refused, pid_));
    }
    tables_ = check.root + check.tables;
    had_library_ = check.has_library;
    if (const std::optional<int> failed = PrepareFolder(*own_path, check.has_library)) return *failed;
    LibraryCall call = {check.loaded_library,        "", AttachAction::kAttach,
                        Variables(*own_path, check), {}, filters_.counts};
    if (call.library.empty()) call.image = ReadWhole(*library);
    if (!check.root.empty()) call.out_id = FolderIdOf(out_.path());
    // Ctrl-C detaches from the first moment on.
    HeldSignals signals;
    bool is_asked = false;
    const auto is_asked_to_end = [&] {
      is_asked = is_asked || signals.AskedToEnd(0);
      return is_asked;
    };
    call.is_first = !check.has_library;
    absl::StatusOr<CallOutcome> outcome = CallLibrary(pid_, call, kBorrowPatienceMs, is_asked_to_end);
    if (!outcome.ok())
      return Undone((is_asked ? "was asked to end before: " : "") + std::string(outcome.status().message()));
    if (const absl::StatusOr<ProcessTable> process = FindTableOf(pid_, {tables_}); process.ok())
      table_path_ = fmt::format("{}/{}", process->folder, process->table.name());
    AddStops(filters_, &*outcome);
    filters_.stops = filters_.lost_calls = 0;  // a later detach reports its own
    if (call.out_id.known()) NoteOutFolder(tables_, out_.path());
    if (outcome->answer.result == AttachResult::kAlready)
      return AttachedAlready(*outcome, for_ns_ == 0 ? nullptr : &signals, is_asked);
    if (outcome->answer.result == AttachResult::kNoEntries)
      return Undone(EntryText(EntryOutcomeIn(outcome->answer.entries)) + ". Start it with holdfast run");
    if (outcome->answer.result != AttachResult::kDone) return Undone(WhyResult(outcome->answer.result, pid_));
    if (outcome->answer.refused > 0) {
      // free would be seen, and malloc not, or the other way round.
      return UndoneNow(call,
                       fmt::format("{} of its entries are in memory that cannot be made writable: it is sealed (mseal)",
                                   outcome->answer.refused));
    }
    if (outcome->answer.redirected == 0) {
      return UndoneNow(call,
                       "none of its calls can be redirected: no object has an entry that leads to a function that is "
                       "recorded, or the program has a dl_iterate_phdr of its own that names no object");
    }
    Announce(*outcome);
    SayIfFull();
    if (is_asked_to_end()) for_ns_ = 1;  // detaches at once
    return for_ns_ == 0 ? static_cast<int>(kFine) : AwaitEnd(&signals);
  }

 private:
  int Undone(const std::string& why) {
    out_.RemoveIfEmpty();
    return CouldNotAttach(fmt::format("{}: not attached: {}.", name_, why));
  }

  // Ends the recording that has just begun.
  int UndoneNow(LibraryCall call, const std::string& why) {
    call.action = AttachAction::kDetach;
    call.library = call.image.empty() ? call.library : kMemoryFileName;
    call.image.clear();
    const absl::StatusOr<CallOutcome> undo = CallLibrary(pid_, call, kBorrowPatienceMs);
    if (!undo.ok() || undo->answer.result != AttachResult::kDone) {
      return CouldNotAttach(fmt::format(
          "{}: attached only in part: {}. That was not undone: {}. holdfast detach {} undoes it.", name_, why,
          undo.ok() ? WhyResult(undo->answer.result, pid_) : std::string(undo.status().message()), pid_));
    }
    if (const std::string left = EntriesLeft(undo->answer); !left.empty())
      return Undone(fmt::format("{}. Nothing is recorded, but {}", why, left));
    return Undone(why + ". Every entry is as before. Start it with holdfast run");
  }

  // Another attach finds the libraries that were loaded since the first one.
  int AttachedAlready(const CallOutcome& outcome, HeldSignals* signals, bool is_asked) {
    if (is_asked) for_ns_ = 1;
    const uint64_t refused = outcome.answer.refused;
    const std::string sealed =
        refused == 0 ? ""
                     : fmt::format(
                           "{} entries of libraries that were loaded since are in sealed memory (mseal), and cannot be "
                           "redirected: what these libraries allocate and free is not seen",
                           refused);
    out_.RemoveIfEmpty();
    if (outcome.answer.redirected == 0) {
      return CouldNotAttach(fmt::format(
          "{}: is attached already; nothing was changed, and the options of that attach stay.{}{}", name_,
          refused == 0 ? "" : " " + sealed + ".",
          options_.time.empty() ? "" : fmt::format(" --for has no effect: holdfast detach {} ends it.", pid_)));
    }
    if (refused != 0) Say(fmt::format("{}: {}.", name_, sealed));
    if (!options_.run.quiet) {
      Say(fmt::format("{}: is attached already. {} entries of libraries that were loaded since are redirected now; {}.",
                      name_, outcome.answer.redirected, StopText(outcome)));
      if (!options_.run.variables.empty()) SayOptionsStay();
    }
    const int done = refused != 0 ? kCouldNot : kFine;
    return signals == nullptr ? done : std::max(done, AwaitEnd(signals));
  }

  // The second attach continues the table of the first one, and so its folder.
  std::optional<int> PrepareFolder(const std::string& own_path, bool has_library) {
    std::string path;
    if (has_library) {
      const absl::StatusOr<ProcessTable> table = FindTableOf(pid_, {});
      if (absl::IsDataLoss(table.status())) return CouldNotAttach(std::string(table.status().message()));
      if (table.ok()) {
        continues_ = true;
        path = table->out();
        tables_ = table->folder;
        if (!options_.run.out.empty() && AbsolutePath(options_.run.out).value_or("") != path) {
          return CouldNotAttach(fmt::format(
              "{}: not attached: its profiles go to {} since its first attach. Leave out -o.", name_, Printable(path)));
        }
      }
    }
    if (path.empty()) {
      const absl::StatusOr<std::string> given = AbsolutePath(
          !options_.run.out.empty() ? options_.run.out
                                    : fmt::format("holdfast.{}.{}", ProgramForFileName(ProgramOf(pid_)), pid_));
      if (!given.ok()) return Failed(given.status());
      path = *given;
    }
    if (const absl::Status made = out_.Make(path); !made.ok()) return Failed(made);
    uint64_t max_disk_bytes = Options().max_disk_bytes;
    const auto& variables = options_.run.variables;
    if (const auto given = variables.find("HOLDFAST_MAX_DISK"); given != variables.end())
      ParseSize(given->second.c_str(), &max_disk_bytes);
    const auto command = variables.find("HOLDFAST_ON_SNAPSHOT");
    const Launched launched = LaunchExporter(own_path, path, tables_, max_disk_bytes,
                                             command != variables.end() ? command->second : "", false);
    if (launched != Launched::kServes) {
      out_.RemoveIfEmpty();
      return CouldNotAttach(fmt::format(
          "{}: not attached: no exporter can be started for {}{}.", name_, Printable(path),
          launched == Launched::kNoticed
              ? ", because a process that started this command would get it as a child (PR_SET_CHILD_SUBREAPER). Run it from "
                "another shell"
              : ""));
    }
    return std::nullopt;
  }

  std::vector<std::string> Variables(const std::string& own_path, const AttachCheck& check) const {
    std::map<std::string, std::string> set = options_.run.variables;
    set["HOLDFAST_OUT"] = out_.path();
    if (const char* entries = getenv("HOLDFAST_ENTRIES"); entries != nullptr) set["HOLDFAST_ENTRIES"] = entries;
    // "NSpid: 4242 1": the last number is the pid as the process sees it.
    const std::string pids = StatusField(std::to_string(pid_), "NSpid");
    set["HOLDFAST_ROOT"] = pids.empty() ? std::to_string(pid_) : pids.substr(pids.find_last_of("\t ") + 1);
    set["HOLDFAST_EXPORTER"] = check.starts_exporter ? own_path : "no";
    set["HOLDFAST_TABLES"] = check.tables;
    std::vector<std::string> variables;
    for (const auto& [name, value] : set) variables.push_back(name + "=" + value);
    return variables;
  }

  void Announce(const CallOutcome& outcome) const {
    if (options_.run.quiet) return;
    Say(fmt::format("{}: attached, {} entries redirected; {}.", name_, outcome.answer.redirected, StopText(outcome)));
    Say(fmt::format("profiles go to {}. Next: holdfast top {}; at the end: holdfast detach {}", Printable(out_.path()),
                    pid_, pid_));
    Say("not recorded: blocks and waits from before, libraries that are loaded later (attach again), exceptions, CPU samples, "
        "and programs that it executes.");
    if (options_.run.variables.empty()) return;
    if (continues_) {
      SayOptionsStay();
    } else if (had_library_) {
      Say("its library was loaded by an earlier attach, perhaps in the process that forked it. holdfast ls shows the "
          "intervals in use.");
    }
  }
  // Recording goes on, because top and the live page work without files.
  void SayIfFull() const {
    const std::string why = WhyNoSpace(out_.path());
    if (why.empty()) return;
    Say(fmt::format(
        "no profiles can be written to {} now: {}. Free space there, and the next ones are written. Or: holdfast "
        "dump {} -o DIR",
        Printable(out_.path()), why, pid_));
  }
  void SayOptionsStay() const {
    Say(fmt::format("the options of its first attach stay. holdfast set {} changes intervals.", pid_));
  }

  // Waits until the exporter has written the last profiles of an ended process, and has removed its table.
  static void AwaitLastProfiles(const std::string& table) {
    for (int waited_ms = 0; waited_ms < 10'000 && access(table.c_str(), F_OK) == 0; waited_ms += 5) {
      constexpr timespec kPause = {0, 5'000'000};
      nanosleep(&kPause, nullptr);
    }
  }

  // Until the time is over, or we are asked to end.
  int AwaitEnd(HeldSignals* signals) const {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const auto now_ns = [&now] {
      clock_gettime(CLOCK_MONOTONIC, &now);
      return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
    };
    const uint64_t end_ns = now_ns() + for_ns_;
    while (now_ns() < end_ns) {
      if (IsGone(pid_)) {
        AwaitLastProfiles(table_path_);
        return CouldNotAttach(fmt::format("{}: has ended. Its profiles are in {}.", name_, Printable(out_.path())));
      }
      if (signals->AskedToEnd(static_cast<int>(std::min<uint64_t>(200, (end_ns - now_ns()) / 1'000'000 + 1)))) break;
    }
    if (!MapsHoldfastLibrary(ReadOfProcess(pid_, "maps"))) {
      return CouldNotAttach(fmt::format(
          "{}: has executed another program, which is not recorded: holdfast attach {}. Its profiles until then are in {}.",
          name_, pid_, Printable(out_.path())));
    }
    if (HasUncountedFilters(filters_.counts)) {
      return CouldNotAttach(fmt::format(
          "{}: not detached: before Linux 5.9, whether it has installed another seccomp filter since cannot be "
          "seen. Run holdfast detach {} as root, which reads its filters.",
          name_, pid_));
    }
    return Detach(pid_, {tables_}, options_.run.quiet, filters_, signals);
  }

  const pid_t pid_;
  const AttachOptions& options_;
  uint64_t for_ns_;
  FilterAnswer filters_;
  std::string name_, tables_, table_path_;
  OutFolder out_;
  bool had_library_ = false, continues_ = false;  // of an earlier attach; its table, too
};

// Returns nothing, after a message, if no such process can be examined.
std::optional<pid_t> ProcessOrThrow(const std::string& text) {
  const absl::StatusOr<pid_t> pid = ParsePid(text);
  if (!pid.ok()) throw CLI::ValidationError(std::string(pid.status().message()));
  if (const absl::Status status = CheckProcess(*pid); !status.ok()) {
    Say(std::string(status.message()));
    return std::nullopt;
  }
  return *pid;
}

}  // namespace

void AddAttachCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<AttachOptions>();
  CLI::App* attach = app.add_subcommand("attach", "Start profiling a program that is already running");
  attach->footer(
      "Loads the library into the process and redirects the calls of all its objects. Recording begins there: blocks and\n"
      "locks from before are unknown. One thread is stopped for some ms, in the program's own code or in a system call, never\n"
      "inside malloc or the dynamic linker; it may hold a lock of the program's. All threads are stopped if the executable has\n"
      "an allocator of its own, and each one for a moment to read seccomp filters. No debugger is needed. If a check speaks\n"
      "against it, nothing is changed; what only the loaded library finds is undone, and it stays loaded without effect. The\n"
      "reason is printed (exit status 3). Profiles are written as with holdfast run, and ls, top, locks, set and dump work.\n"
      "Linux on x86-64 with glibc 2.35 or newer.\n"
      "\n"
      "  holdfast doctor 4242 --attach           only check whether it can be done\n"
      "  holdfast attach 4242                    profiles go to ./holdfast.<program>.4242\n"
      "  holdfast attach 4242 --for 5m           detach after 5 minutes, or at Ctrl-C");
  attach->add_option("PID", options->pid, "The process")->required();
  attach
      ->add_option(
          "--for", options->time,
          "Stay here for this time, then detach, as at Ctrl-C; if this command is killed by SIGKILL, the process stays "
          "attached. Without it, stay attached")
      ->type_name("TIME")
      ->take_last();
  AddRunOptions(*attach, &options->run);
  // These need the program's start, its parent or its environment. The ones that users may expect say what to do instead.
  for (const char* name :
       {"--exec", "--html", "--leak-check", "--suppressions", "--scan-memory", "--snapshot-holders", "--entries"}) {
    if (CLI::Option* option = attach->get_option_no_throw(name)) attach->remove_option(option);
  }
  for (const auto& [name, instead] :
       {std::pair("--cpu", "a program that was attached takes no CPU samples. Start it with holdfast run --cpu"),
        {"--signal", "attach installs no signal handler. holdfast dump PID writes a snapshot"},
        {"--push", "the variables of a running program cannot be set. Start holdfast push URL beside it"}}) {
    CLI::Option* option = attach->get_option_no_throw(name);
    if (option == nullptr) continue;
    option->group("");  // not in the help
    option->check([text = std::string(name) + ": " + instead](const std::string&) { return text; }, "");
  }
  attach->get_option("--profiles")
      ->default_str("heap,mutex,block,map,threads")
      ->check(
          [](const std::string& list) {
            const std::vector<std::string_view> kinds = Split(list, ",");
            return std::ranges::find(kinds, "exceptions") == kinds.end()
                       ? std::string()
                       : "a program that was attached records no exceptions. Start it with holdfast run";
          },
          "");
  attach->callback([options, invocation] {
    uint64_t for_ns = 0;
    if (!options->time.empty()) {
      const absl::StatusOr<uint64_t> parsed = ParseTimeNs(options->time);
      if (!parsed.ok()) throw CLI::ValidationError("--for", std::string(parsed.status().message()));
      if (*parsed == 0)
        throw CLI::ValidationError("--for", "\"" + options->time + "\" is not a time above 0, such as 5m");
      for_ns = *parsed;
    }
    const std::optional<pid_t> pid = ProcessOrThrow(options->pid);
    invocation->exit_code = pid.has_value() ? Attacher(*pid, *options, for_ns).Run() : kCouldNot;
  });
}

void AddDetachCommand(CLI::App& app, Invocation* invocation) {
  auto pid = std::make_shared<std::string>();
  auto folders = std::make_shared<std::vector<std::string>>();
  auto quiet = std::make_shared<bool>(false);
  CLI::App* detach = app.add_subcommand("detach", "Stop profiling a program that holdfast attach began to profile");
  detach->footer(
      "Restores every entry that attach has redirected, and writes the last profiles. The library stays loaded; only pointers\n"
      "to functions that the program took meanwhile still pass through it, and record nothing. The process can be attached\n"
      "again. Exit status 3: an entry could not be restored, or the last profiles not written; the message says which.\n"
      "\n"
      "  holdfast detach 4242");
  detach->add_option("PID", *pid, "The process")->required();
  detach->add_option("--tables", *folders, "The folder of the table files [default: all that are in use]")
      ->allow_extra_args(false);
  detach->add_flag("-q,--quiet", *quiet, "Print only errors");
  detach->callback([=] {
    const std::optional<pid_t> found = ProcessOrThrow(*pid);
    if (!found.has_value()) {
      invocation->exit_code = kCouldNot;
      return;
    }
    const pid_t process = *found;
    const FilterAnswer filters =
        FiltersUnlessRefused(process, true, [process](const std::string& library, const FilterAnswer& answer) {
          return CheckDetach(process, library, answer);
        });
    HeldSignals signals;
    invocation->exit_code = Detach(process, *folders, *quiet, filters, &signals);
  });
}

}  // namespace holdfast
