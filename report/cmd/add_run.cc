#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/analysis/locks/stuck.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/signals.h"
#include "report/base/value_units.h"
#include "report/builder/output_folder.h"
#include "report/builder/profile_builder.h"
#include "report/cmd/commands.h"
#include "report/cmd/project_file.h"
#include "report/daemon/installation.h"
#include "report/daemon/sweep_tables.h"
#include "report/names/elf/executable_kind.h"
#include "report/observe/table/table_folder.h"
#include "report/page/html_report.h"
#include "report/run/doctor_surroundings.h"
#include "report/run/leak_check.h"
#include "report/run/linked_allocator.h"
#include "report/run/orphan_parent.h"
#include "report/run/program_check.h"
#include "report/run/run_finish.h"
#include "report/run/run_options.h"
#include "report/run/why_nothing.h"
#include "sampler/contract/cpu_sampling.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/options.h"
#include "sampler/contract/triggers.h"

namespace holdfast {
namespace {

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A pipe with descriptors above 2 that close at exec. A program that was started without standard descriptors therefore
// still finds none.
struct Pipe {
  FileDescriptor read_end, write_end;
  bool Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    const FileDescriptor low_read(ends[0]), low_write(ends[1]);
    read_end = FileDescriptor(fcntl(ends[0], F_DUPFD_CLOEXEC, 3));
    write_end = FileDescriptor(fcntl(ends[1], F_DUPFD_CLOEXEC, 3));
    return read_end.valid() && write_end.valid();
  }
};

class RunCommand {
 public:
  RunCommand(RunOptions options, const std::vector<std::string>& command)
      : options_(std::move(options)), command_(command) {}

  // Returns only on failure.
  int Start();

 private:
  int Fail(int exit_code, std::string_view message) {
    Say(message);
    return exit_code;
  }
  int Fail(const absl::Status& status) { return Fail(kRunFailed, std::string(status.message())); }

  int Prepare();
  absl::StatusOr<std::string> OutPath(pid_t pid) const;
  int Execute(const std::string& out, pid_t pid);
  int MakeFolderAndExporter(pid_t pid);
  int BecomeProgram();
  int StayAsParent();
  void Finish(pid_t child, HeldSignals& signals);
  void WriteReport(pid_t child);
  void LookAtPrograms(pid_t child);
  uint64_t MaxDisk() const;
  Launched Launch() const;
  // Returns the value from our command line, or else from our environment.
  std::string Setting(const char* variable) const;
  void WarnAboutSettings() const;
  // The same for an interval, formatted for people.
  std::string Interval(const char* variable, std::string (*format)(const std::string&), const std::string& usual) const;

  RunOptions options_;
  std::vector<std::string> command_;
  std::string own_path_, library_, out_given_, tables_;
  bool wants_exporter_ = true, found_no_room_ = false;
  ProgramCheck check_;
  OutFolder out_;
  std::vector<std::string> names_before_;
  LeakCheck leak_check_;
  std::vector<std::string> without_library_;  // executables of descendants that did not load the library
};

int RunCommand::Prepare() {
  if (command_.empty()) {
    return Fail(kRunFailed, "run: no program given. Example: holdfast run -- sort big.txt");
  }
  const absl::StatusOr<std::string> own_path = OwnPath();
  if (!own_path.ok()) return Fail(own_path.status());
  own_path_ = *own_path;
  const absl::StatusOr<std::string> file = FindLibrary(own_path_);
  const absl::StatusOr<std::string> library = file.ok() ? PreloadableLibrary(*file) : file;
  if (!library.ok()) return Fail(library.status());
  library_ = *library;

  check_ = CheckProgram(command_, getenv("PATH"), library_);
  // `--cpu 100 -- ./server`: the value of --cpu must be in the same word.
  if (check_.exit_code == kNotFound && options_.variables.contains("HOLDFAST_CPU") &&
      command_[0].find_first_not_of("0123456789") == std::string::npos) {
    return Fail(kNotFound, fmt::format("{}: not found in PATH. To sample {} times in a second of CPU time: --cpu={}",
                                       command_[0], command_[0], command_[0]));
  }
  if (check_.exit_code != 0) return Fail(check_.exit_code, check_.message);
  if (!check_.recordable && !options_.quiet) Say(check_.message);
  const std::string enable = Variable("HOLDFAST_ENABLE");
  if (check_.recordable && (enable == "0" || enable == "no")) {
    check_.recordable = false;
    if (!options_.quiet) Say("HOLDFAST_ENABLE=0: nothing is recorded.");
  }

  for (const char* const* entry = environ; *entry != nullptr && !options_.quiet; ++entry) {
    if (std::string_view(*entry).starts_with("HOLDFAST_") && !IsKnownVariable(*entry)) {
      const std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
      Say(fmt::format("{}: no such variable, it is ignored. holdfast run --help names them.", Printable(name)));
    }
  }

  // A command-line option overrides its environment variable.
  out_given_ = options_.out.empty() ? Variable("HOLDFAST_OUT") : options_.out;
  if (options_.tables.empty()) options_.tables = Variable("HOLDFAST_TABLES");
  if (!options_.tables.empty() && check_.recordable) {
    const absl::StatusOr<std::string> tables = TablesFolder(options_.tables);
    if (!tables.ok()) return Fail(tables.status());
    tables_ = *tables;
  }
  wants_exporter_ = Variable("HOLDFAST_EXPORTER") != "no";
  if (options_.leak_check) {
    const absl::Status prepared =
        leak_check_.Prepare({.suppressions = options_.suppressions, .scan_memory = options_.scan_memory});
    if (!prepared.ok()) return Fail(prepared);
    options_.variables["HOLDFAST_LEAK_CHECKER"] = std::to_string(getpid());
  } else if (!Variable("HOLDFAST_LEAK_CHECKER").empty()) {
    options_.variables["HOLDFAST_LEAK_CHECKER"] =
        "0";  // of another run, which does not search the processes of this one
  }
  int verbose = 0;
  if (!options_.quiet && options_.verbose == 0 && absl::SimpleAtoi(Variable("HOLDFAST_VERBOSE"), &verbose)) {
    options_.verbose = verbose;
  }
  if (options_.quiet) {
    options_.variables["HOLDFAST_VERBOSE"] = "0";
  } else if (options_.verbose > 0) {
    options_.variables["HOLDFAST_VERBOSE"] = std::to_string(options_.verbose);
  }
  return 0;
}

absl::StatusOr<std::string> RunCommand::OutPath(pid_t pid) const {
  if (!out_given_.empty()) return AbsolutePath(out_given_);
  const std::string name(BaseName(command_[0]));
  return AbsolutePath(fmt::format("holdfast.{}.{}", ProgramForFileName(name), pid));
}

// Runs in the process that becomes the program. Returns only on failure, with errno set.
int RunCommand::Execute(const std::string& out, pid_t pid) {
  std::vector<std::string> environment;
  std::vector<char*> variables;
  char** given = environ;
  if (check_.recordable) {
    std::map<std::string, std::string> set = options_.variables;
    set["HOLDFAST_OUT"] = out;
    set["HOLDFAST_ROOT"] = std::to_string(pid);
    if (wants_exporter_) set["HOLDFAST_EXPORTER"] = own_path_;
    if (!options_.tables.empty()) set["HOLDFAST_TABLES"] = tables_;
    environment = ProgramEnvironment(environ, library_, set);
    variables = Pointers(environment);
    given = variables.data();
  }
  std::vector<char*> arguments = Pointers(check_.arguments);
  execve(check_.path.c_str(), arguments.data(), given);
  return errno;
}

int RunCommand::MakeFolderAndExporter(pid_t pid) {
  if (!check_.recordable) return 0;
  const absl::StatusOr<std::string> path = OutPath(pid);
  if (!path.ok()) return Fail(path.status());
  if (const absl::Status made = out_.Make(*path); !made.ok()) return Fail(made);
  if (!out_.weakness().empty() && !options_.quiet) {
    Say(fmt::format("{}: {}. Profiles are written there anyway; a folder of your own is safer.", out_.path(),
                    out_.weakness()));
  }
  names_before_ = out_.Names();
  if (tables_.empty()) tables_ = UsualTablesFolder(out_.path());
  if (wants_exporter_ && !Setting("HOLDFAST_ON_SNAPSHOT").empty() && !options_.quiet &&
      ExporterServes(tables_.c_str(), out_.path().c_str(), FolderIdOf(out_.path()))) {
    Say(fmt::format(
        "{}: the exporter of another run serves this folder and ignores this --on-snapshot. Use another folder for this run (-o).",
        out_.path()));
  }
  if (!options_.quiet) WarnAboutSettings();
  const Launched launched = wants_exporter_ ? Launch() : Launched::kServes;
  if (launched == Launched::kNoticed && !options_.quiet) {
    const auto parent = ParentOfOrphans("self", {tables_});
    Say(fmt::format(
        "no exporter started: {} would see it as a child. Run holdfast collect {} afterwards, or leave out --exec: then the exporter is a child of holdfast run.",
        parent.has_value() ? parent->name : "another process", ShellQuoted(out_.path())));
  }
  found_no_room_ = !WhyNoTable(tables_).empty();
  if (launched == Launched::kFailed && !found_no_room_ && !options_.quiet) {
    Say(fmt::format(
        "the exporter does not answer. The program runs; if no profiles are written, run: holdfast collect {}",
        ShellQuoted(tables_)));
  }
  return 0;
}

int RunCommand::BecomeProgram() {
  if (const int failed = MakeFolderAndExporter(getpid())) return failed;
  if (options_.verbose > 0 && check_.recordable)
    Say(fmt::format("profiles go to {}, tables to {}.", out_.path(), tables_));
  const ProgramCheck failed = ExecFailed(check_.path, Execute(out_.path(), getpid()));
  out_.RemoveIfEmpty();
  return Fail(failed.exit_code, failed.message);
}

int RunCommand::StayAsParent() {
  Pipe go, failure;
  if (!go.Open() || !failure.Open())
    return Fail(kRunFailed, fmt::format("pipe: {}. Raise the limit of open files.", strerror(errno)));
  HeldSignals signals;
  const pid_t child = fork();
  if (child < 0) {
    return Fail(kRunFailed, fmt::format("fork: no process for {} ({}). Raise the limit of processes.", command_[0],
                                        strerror(errno)));
  }
  if (child == 0) {
    // The name of the output folder may contain this pid, so the parent creates the folder now. If the parent has
    // exited, nothing arrives.
    go.write_end.Close();
    failure.read_end.Close();
    char byte;
    if (read(go.read_end.get(), &byte, 1) != 1) _exit(kRunFailed);
    signals.Release();
    const std::string out = check_.recordable ? OutPath(getpid()).value_or("") : "";
    const int error = Execute(out, getpid());
    [[maybe_unused]] const ssize_t written = write(failure.write_end.get(), &error, sizeof error);
    _exit(kNotExecutable);
  }
  go.read_end.Close();
  failure.write_end.Close();
  // From here on this process only watches the program. It must survive a closed standard error, and no file that it
  // opens may get the number of a standard descriptor.
  signal(SIGPIPE, SIG_IGN);
  while (true) {
    const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd > STDERR_FILENO) close(fd);
    if (fd < 0 || fd > STDERR_FILENO) break;
  }
  if (const int failed = MakeFolderAndExporter(child)) {
    go.write_end.Close();
    signals.Supervise(child);
    return failed;
  }
  if (options_.verbose > 0 && check_.recordable) {
    Say(fmt::format("pid {}, profiles go to {}, tables to {}.", child, out_.path(), tables_));
  }
  WorkMeanwhile work;
  if (options_.leak_check && check_.recordable) {
    leak_check_.Begin(tables_, out_.path());
    work = {.descriptor = leak_check_.descriptor(),
            .work = [&] { leak_check_.Look(); },
            .before_term = [&] { leak_check_.LookAtAll(); }};
  }
  [[maybe_unused]] const ssize_t written = write(go.write_end.get(), "", 1);
  go.write_end.Close();
  int error = 0;
  ssize_t got;
  do {
    got = read(failure.read_end.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  const int status = signals.Supervise(
      child, [&] { LookAtPrograms(child); }, work);
  if (got == sizeof error) {
    EndKeptExporter();
    out_.RemoveIfEmpty();
    const ProgramCheck failed = ExecFailed(check_.path, error);
    return Fail(failed.exit_code, failed.message);
  }
  if (work.work) {
    leak_check_.Look();  // of processes that the program left behind
    SayLines(leak_check_.Text(child, status, options_.quiet));
  }
  if (check_.recordable) Finish(child, signals);
  EndKeptExporter();
  if (options_.leak_check && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    _exit(check_.recordable ? leak_check_.ExitCode(child, status) : static_cast<int>(kRunFailed));
  EndLike(status);
}

// Programs that are never profiled leave no file that would mention them.
void RunCommand::LookAtPrograms(pid_t child) {
  if (!check_.recordable) return;
  for (std::string& program : ProgramsWithoutLibrary(child)) {
    if (std::find(without_library_.begin(), without_library_.end(), program) == without_library_.end())
      without_library_.push_back(std::move(program));
  }
}

// Reports conditions and profile kinds that depend on sampling that is switched off.
void RunCommand::WarnAboutSettings() const {
  if (Setting("HOLDFAST_HEAP_INTERVAL") == "0") {
    const std::string resident = Setting("HOLDFAST_RESIDENT");
    if (resident == "yes" || resident == "1")
      Say(Setting("HOLDFAST_LOCK_INTERVAL") == "0"
              ? "--resident: no profile will be written, because --heap-interval and --lock-interval are 0"
              : "--resident: covers only mappings, because --heap-interval is 0 and no block is sampled");
    if (Setting("HOLDFAST_LIFETIMES") == "yes")
      Say("--lifetimes yes: no profile will be written, because --heap-interval is 0");
  }
  uint64_t cpu_interval_ns = 0;
  bool is_forced = false;
  if (ParseCpu(Setting("HOLDFAST_CPU").c_str(), &cpu_interval_ns, &is_forced) && cpu_interval_ns != 0) {
    CpuState surroundings = CpuHindrance("self");
    if (is_forced && surroundings != CpuState::kOtherProcessor) surroundings = CpuState::kOn;
    const CpuState why = ReadExecutableKind(check_.path).is_musl ? CpuState::kOtherLibc : surroundings;
    if (why != CpuState::kOn) {
      Say(NoCpuSamples(why));
    } else if (const std::string none = NoTimersLeft(); !none.empty()) {
      Say(none);
    }
  }
  const std::string text = Setting("HOLDFAST_SNAPSHOT_WHEN");
  TriggerList triggers;
  if (!ParseTriggers(text.c_str(), &triggers)) return;
  for (int i = 0; i < triggers.count; ++i) {
    const Trigger& trigger = triggers.all[i];
    if (trigger.quantity == TriggerQuantity::kResident) continue;
    const bool of_locks = trigger.quantity == TriggerQuantity::kDelay;
    if (Setting(of_locks ? "HOLDFAST_LOCK_INTERVAL" : "HOLDFAST_HEAP_INTERVAL") != "0") continue;
    Say(fmt::format("--snapshot-when {}: never true, because --{}-interval is 0",
                    text.substr(trigger.start, trigger.bytes), of_locks ? "lock" : "heap"));
  }
}

std::string RunCommand::Setting(const char* variable) const {
  const auto given = options_.variables.find(variable);
  return given != options_.variables.end() ? given->second : Variable(variable);
}

Launched RunCommand::Launch() const {
  return LaunchExporter(own_path_, out_.path(), tables_, MaxDisk(), Setting("HOLDFAST_ON_SNAPSHOT"), !options_.exec);
}

uint64_t RunCommand::MaxDisk() const {
  const std::string value = Setting("HOLDFAST_MAX_DISK");
  uint64_t bytes = 0;
  return ParseSize(value.c_str(), &bytes) ? bytes : Options().max_disk_bytes;
}

std::string RunCommand::Interval(const char* variable, std::string (*format)(const std::string&),
                                 const std::string& usual) const {
  const std::string value = Setting(variable);
  return value.empty() ? usual : format(value);
}

void RunCommand::Finish(pid_t child, HeldSignals& signals) {
  FinishedRun run;
  run.program = command_[0];
  run.command = check_.arguments;
  run.path = check_.path;
  run.library = library_;
  run.without_library = without_library_;
  run.pid = child;
  run.out = out_.path();
  run.tables = tables_;
  run.names_before = {names_before_.begin(), names_before_.end()};
  run.heap_interval = Interval(
      "HOLDFAST_HEAP_INTERVAL",
      [](const std::string& value) {
        const auto bytes = ParseByteSize(std::string_view(value));
        return !bytes.ok()   ? FormatSize(kDefaultHeapInterval)
               : *bytes == 0 ? "off"
                             : FormatSize(static_cast<int64_t>(*bytes));
      },
      FormatSize(kDefaultHeapInterval));
  run.lock_interval = Interval(
      "HOLDFAST_LOCK_INTERVAL",
      [](const std::string& value) {
        const auto ns = ParseTimeNs(value);
        return !ns.ok()   ? FormatTimeNs(kDefaultLockIntervalNs)
               : *ns == 0 ? "off"
                          : FormatTimeNs(static_cast<int64_t>(*ns));
      },
      FormatTimeNs(kDefaultLockIntervalNs));
  run.entries = EntriesNamed(Setting("HOLDFAST_ENTRIES"));
  run.quiet = options_.quiet;
  run.has_exporter = wants_exporter_;
  run.found_no_room = found_no_room_;
  const std::vector<TableLeft> left = AwaitProfiles(run, signals, [&] { Launch(); });
  const size_t alive = RunningProcesses(run);
  const std::vector<std::string> names = out_.Names();
  if (!options_.quiet) SayLines(Summary(run, names, left, alive));
  // The user may have ended the program because it hung.
  std::cout << DeadlocksIn(NewestFiles(run, names, kProfileKindNames[static_cast<int>(ProfileKind::kBlock)]))
            << std::flush;
  if (options_.html) WriteReport(child);
  if (alive == 0 && left.empty()) out_.RemoveIfEmpty();
}

// Writes the report from the files of this run; the folder may also hold files of other runs. A failure does not change
// the exit status of `run`.
void RunCommand::WriteReport(pid_t child) {
  HtmlOptions html;
  for (const std::string& name : out_.Names()) {
    const bool is_new = std::find(names_before_.begin(), names_before_.end(), name) == names_before_.end();
    if (is_new && name.ends_with(".pb.gz")) html.files.push_back(fmt::format("{}/{}", out_.path(), name));
  }
  if (html.files.empty()) return;
  AddProjectPatterns(".", &html.plumbing);
  const std::string program(BaseName(command_[0]));
  const std::string path = fmt::format("{}/{}.{}.html", out_.path(), ProgramForFileName(program), child);
  std::ostringstream left_out;
  const auto page = RenderHtml(html, left_out);
  const absl::Status status = page.ok() ? WriteHtml(path, *page, Readers::kOwner) : page.status();
  if (!status.ok()) {
    Say(std::string(status.message()));
  } else if (!options_.quiet) {
    SayLines(left_out.str() + fmt::format("holdfast: HTML report:\n    {}\n", Printable(path)));
  }
}

int RunCommand::Start() {
  if (const int failed = Prepare()) return failed;
  return options_.exec ? BecomeProgram() : StayAsParent();
}

}  // namespace

void AddRunCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run", "Start a program and profile it");
  run->footer(
      "Starts PROGRAM (searched in PATH) with the library preloaded, and an exporter process that writes its profiles.\n"
      "All arguments after PROGRAM are its own. The exit status is the program's; 125: holdfast failed, 126: PROGRAM cannot\n"
      "be executed, 127: PROGRAM was not found. With --leak-check also 1, if the program's status is 0 and no pointer leads to\n"
      "some of its blocks.\n"
      "Each option is also a variable, for programs preloaded without `run`: --heap-interval is HOLDFAST_HEAP_INTERVAL, and\n"
      "so on. HOLDFAST_ENABLE=0 switches the library off.\n"
      "\n"
      "  holdfast run -- redis-server --port 7000              default rates, fit for production\n"
      "  holdfast run --exact -o prof -- ./test                every allocation and wait, profiles in prof/\n"
      "  holdfast run --exact --leak-check -- ./test           fails if the test leaks memory; lists the leaks\n"
      "  holdfast run --exec -- nginx -g 'daemon off;'         as the command of a container or a service");
  AddRunOptions(*run, options.get());
  run->callback([options, invocation] { invocation->exit_code = RunCommand(*options, invocation->program).Start(); });
}

}  // namespace holdfast
