#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/holdfast_library.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/cmd/commands.h"
#include "report/daemon/find_tables.h"
#include "report/daemon/installation.h"
#include "report/daemon/stalled_exporter.h"
#include "report/names/elf/executable_kind.h"
#include "report/names/elf/inlined_allocator.h"
#include "report/names/elf/processors.h"
#include "report/observe/table/entry_text.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/table_folder.h"
#include "report/observe/table/thread_status.h"
#include "report/run/attach_check.h"
#include "report/run/doctor_objects.h"
#include "report/run/doctor_surroundings.h"
#include "report/run/findings.h"
#include "report/run/program_check.h"
#include "report/run/search_order.h"
#include "report/run/started_programs.h"
#include "report/show/tracing_rights.h"
#include "sampler/contract/exporter_service.h"

namespace holdfast {
namespace {

constexpr char kMuslNote[] =
    "the C library is musl: functions that its own code calls (qsort, bsearch) may lack the callers of that code";
// An executable that has its own allocator starts later, because the functions are redirected then. What that costs a pair is
// only counted for the allocators that tests/golden/fast_path.txt lists.
std::string ExpectedOverhead(bool is_redirected) {
#if defined(__aarch64__)
  return HOLDFAST_MALLOC_COST
      " instructions for malloc and free, " HOLDFAST_LOCK_COST
      " for an uncontended lock and unlock, counted under an emulator: no time was measured on an "
      "arm64 machine; a table of about 0.3MiB, at most 64MiB";
#else
  return fmt::format(
      "{}, " HOLDFAST_LOCK_COST
      " for an uncontended lock and unlock, about 1us for each 512KiB allocated, {} at the start; a table of about 0.3MiB, at most 64MiB",
      is_redirected ? "up to " HOLDFAST_JEMALLOC_COST " instructions for malloc and free of a tested allocator"
                    : HOLDFAST_MALLOC_COST " instructions for malloc and free",
      is_redirected ? "1 to 2ms" : "0.15ms");
#endif
}

std::string Environment(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

// ---- doctor -- PROGRAM ----

int AboutProgram(const std::vector<std::string>& command, const std::string& library) {
  ProgramCheck check = CheckProgram(command, getenv("PATH"), library);
  if (check.exit_code == kNotFound || check.exit_code == kNotExecutable) {
    Say(check.message);
    return kCouldNot;
  }
  Findings findings;
  // Check the program that a script or sudo starts, not the script or sudo itself.
  std::string name = command[0];
  const StartedCommand started = FollowStarters(command, LookUpIn(getenv("PATH")));
  for (const std::string& by : started.by) findings.Note("started", by);
  if (!started.unknown.empty()) {
    findings.Note("started", fmt::format("which program it starts is known only when it runs: {}", started.unknown));
  }
  if (!started.words.empty()) {
    const ProgramCheck inner = CheckProgram(started.words, getenv("PATH"), library);
    if (inner.exit_code == kNotFound || inner.exit_code == kNotExecutable) {
      findings.No("started", inner.message);
    } else {
      name = started.words[0];
      check = inner;
    }
  }
  if (!started.drops_preload.empty()) {
    findings.No(
        "recording",
        started.drops_by.empty()
            ? fmt::format(
                  "{} starts it without LD_PRELOAD, so nothing is preloaded. Put holdfast after it: {} … holdfast run -- {}",
                  started.drops_preload, started.drops_preload, name)
            : fmt::format(
                  "{} starts it without LD_PRELOAD ({}), so nothing is preloaded. Profile the program itself: holdfast run -- {}",
                  started.drops_preload, started.drops_by, name));
  }
  if (check.exit_code != 0) {
    findings.No("recording", check.message);
  } else if (!check.recordable) {
    findings.No("recording", check.message);
  } else {
    const ExecutableKind file = ReadExecutableKind(check.path);
    findings.Ok("recording",
                fmt::format("loads the library: {}, linked dynamically ({})", kOwnPrograms,
                            file.kind == ExecutableKind::Kind::kElf ? file.interpreter : "by its interpreter"));
    if (file.is_musl && !file.is_old_musl) {
      findings.Note("musl", kMuslNote);
      findings.Note("cpu", NoCpuSamples(CpuState::kOtherLibc));
    }
  }
  if (Environment("HOLDFAST_ENABLE") == "0")
    findings.No("recording", "HOLDFAST_ENABLE=0 is set here: the library records nothing");
  const bool is_redirected =
      check.exit_code == 0 && DescribeObjects(ObjectsOfProgram(check.path), "", library, {}, &findings);
  DescribeKernel("self", &findings);
  DescribeExporter("self", DefaultTableFolders(), &findings);
  DescribeLimits("self", &findings);
  DescribePlaces(Environment("HOLDFAST_TABLES"), Environment("HOLDFAST_OUT"), &findings);
  if (!findings.any_no()) findings.Ok("overhead", "expected: " + ExpectedOverhead(is_redirected));
  std::cout << Printable(fmt::format("{} ({})", name, check.path.empty() ? name : check.path)) << "\n"
            << findings.Text();
  return Finished(findings.any_no() ? kFinding : kFine);
}

// ---- doctor PID ----

// Replaces the name of the main program by the path that it was started with, if both are the same file: that name is
// the one that its user knows.
void NameAsStarted(pid_t pid, const std::string& root, std::vector<std::string>* objects) {
  std::string path = StartedAs(pid);
  char folder[PATH_MAX];
  if (!path.empty() && path[0] != '/') {
    const ssize_t bytes = readlink(fmt::format("/proc/{}/cwd", pid).c_str(), folder, sizeof folder);
    if (bytes <= 0 || bytes == sizeof folder) return;
    path = fmt::format("{}/{}", std::string_view(folder, static_cast<size_t>(bytes)),
                       path.starts_with("./") ? path.substr(2) : path);
  }
  struct stat started, file;
  if (!objects->empty() && path.starts_with('/') && stat((root + path).c_str(), &started) == 0 &&
      stat((root + (*objects)[0]).c_str(), &file) == 0 && started.st_ino == file.st_ino &&
      started.st_dev == file.st_dev) {
    (*objects)[0] = path;
  }
}

// Whether the process runs with more privileges than its starter had (AT_SECURE in the auxiliary vector).
bool IsSecure(pid_t pid) { return AuxiliaryValue(pid, AT_SECURE) != 0; }

bool HasObject(const std::vector<std::string>& objects, const char* part) {
  for (const std::string& object : objects) {
    if (BaseName(object).find(part) != std::string_view::npos) return true;
  }
  return false;
}

void WhyNotLoaded(pid_t pid, const std::string& root, const std::vector<std::string>& objects, Findings* findings) {
  const ExecutableKind file = objects.empty() ? ExecutableKind() : ReadExecutableKind(root + objects[0]);
  if (file.kind == ExecutableKind::Kind::kElf && (!file.is_64_bit || !file.machine.empty())) {
    findings->No("recording", fmt::format("is not a {} program, so nothing can be recorded", kOwnPrograms));
  } else if (file.kind == ExecutableKind::Kind::kElf && file.interpreter.empty()) {
    findings->No("recording", "is linked statically, so no library can be preloaded");
  } else if (IsSecure(pid)) {
    findings->No(
        "recording",
        "was started with raised privileges (setuid, setgid or capabilities), so the loader ignored LD_PRELOAD");
  } else {
    findings->No("recording", std::string("was started without the library. Start it with holdfast run") +
                                  (kHasAttach && !file.is_musl ? ", or add the library now with holdfast attach" : ""));
  }
}

void WhyProcessHasNoTable(const std::string& process, const std::vector<std::string>& objects, Findings* findings) {
  if (VariableOf(process, "HOLDFAST_ENABLE") == "0") {
    findings->No("recording", "it was started with HOLDFAST_ENABLE=0: the library records nothing");
  } else if (HasObject(objects, "libasan.so") || HasObject(objects, "libtsan.so") || HasObject(objects, "vgpreload_")) {
    findings->No("recording",
                 "runs under a sanitizer or valgrind, which have their own malloc: the library records nothing");
  } else if (VariableOf(process, "HOLDFAST_CHILDREN") == "no") {
    findings->No("recording",
                 "it is a child process that HOLDFAST_CHILDREN=no excludes, or nothing has been sampled yet");
  } else {
    findings->No("recording", "nothing has been sampled yet, or no table could be created (see below)");
  }
}

// Returns whether the process recorded what became of an allocator in its executable. `executable`: its path below `root`; "":
// it cannot be read.
bool AboutLinkedAllocator(const TableSnapshot& snapshot, const std::string& executable, const std::string& root,
                          Findings* findings) {
  const EntryOutcome outcome = EntryOutcomeOf(snapshot);
  if (!outcome.has_allocator()) return false;
  const std::string incomplete = WhyIncomplete(snapshot);
  if (outcome.lacks_names() && incomplete == WhyIncomplete(outcome)) {
    findings->Note("allocator", fmt::format("{}; {}", EntryText(outcome), incomplete));
  } else if (!incomplete.empty()) {
    findings->No("allocator", fmt::format("the heap profile is incomplete: {}", incomplete));
  } else if (outcome.is_redirected()) {
    const InlinedAllocator inlined = executable.empty() ? InlinedAllocator() : InlinedAllocatorOf(executable, root);
    inlined.text.empty() ? findings->Ok("allocator", EntryText(outcome))
                         : findings->Note("allocator", fmt::format("{}; {}", EntryText(outcome), inlined.text));
  } else if (MayPassOn(outcome)) {
    findings->Note("allocator", EntryText(outcome));
  } else {
    findings->No("allocator", EntryText(outcome));
  }
  return true;
}

TableOnAllocator AboutTable(const ProcessTable& process, const std::string& executable, const std::string& root,
                            Findings* findings) {
  const absl::StatusOr<TableSnapshot> snapshot = process.table.TakeSnapshot();
  if (!snapshot.ok()) {
    findings->No("recording", fmt::format("its table {}/{} is damaged ({})", process.folder, process.table.name(),
                                          std::string(snapshot.status().message())));
    return TableOnAllocator::kNothing;
  }
  const uint64_t heap = snapshot->heap_intervals.back().interval, lock = snapshot->lock_intervals.back().interval;
  if (IsDetached(process.table)) {
    findings->No("recording",
                 fmt::format("was detached: nothing has been recorded since. To continue: holdfast attach {}",
                             process.pid.value_or(0)));
  } else {
    findings->Ok("recording",
                 fmt::format("heap {}, locks {}", heap == 0 ? "off" : "every " + FormatSize(static_cast<int64_t>(heap)),
                             lock == 0 ? "off" : "every " + FormatTimeNs(static_cast<int64_t>(lock))));
  }
  if (const uint64_t cpu = snapshot->cpu_intervals.back().interval; snapshot->cpu_is_pending) {
    findings->Note("cpu", "the last change of cpu= is pending until the next slow path of the process");
  } else if (cpu != 0 && snapshot->cpu_state != CpuState::kOn) {
    findings->No("cpu",
                 fmt::format("CPU time is not sampled: {}", kCpuStateTexts[static_cast<int>(snapshot->cpu_state)]));
  } else if (cpu != 0 && snapshot->cpu_timers == 0 && snapshot->losses[static_cast<int>(Loss::kCpuTimersFull)] != 0) {
    findings->No(
        "cpu",
        "CPU time is not sampled: no thread has a timer (cpu-timers-full: ulimit -i leaves none, or stacks are too small)");
  } else if (cpu != 0) {
    findings->Ok("cpu", fmt::format("{} threads are sampled {} times a second of CPU time", snapshot->cpu_timers,
                                    1'000'000'000 / cpu));
  }
  uint64_t lost = 0;
  std::string causes;
  for (int i = 0; i < kLosses; ++i) {
    if (snapshot->losses[i] == 0) continue;
    lost += snapshot->losses[i];
    causes += fmt::format("{}{} {}", causes.empty() ? "" : ", ", snapshot->losses[i], kLossNames[i]);
  }
  if (lost == 0) {
    findings->Ok("losses", "none");
  } else {
    findings->Note("losses", causes);
  }
  for (const auto& [path, sum] : snapshot->frees_not_seen) {
    findings->Note(
        "frees",
        fmt::format(
            "{} calls a free other than the library's (RTLD_DEEPBIND, or its own): {} of its blocks count as freed, because their free cannot be seen",
            path, FormatSize(static_cast<int64_t>(sum.bytes))));
  }
  std::set<std::string> noted;
  for (const auto& [path, sum] : snapshot->frees_not_seen) noted.insert(path);
  if (process.pid.has_value())
    DescribeFreesElsewhere(*process.pid, fmt::format("/proc/{}/root", *process.pid), noted, findings);
  findings->Ok("tables", fmt::format("{}/{}, {} of at most {}", process.folder, process.table.name(),
                                     FormatSize(static_cast<int64_t>(snapshot->table_bytes)),
                                     FormatSize(static_cast<int64_t>(snapshot->max_memory_bytes))));
  const std::string still = WhyExporterIsStopped(process.folder, process.table.out(), process.table.OutIdHere());
  if (!still.empty()) {
    findings->Note("profiles", fmt::format("not written: {}", still));
  } else if (ExporterServes(process.folder.c_str(), process.table.out().c_str(), process.table.OutIdHere())) {
    findings->Ok("profiles", fmt::format("go to {}", process.out()));
  } else if (ServiceOf(process.folder.c_str(), process.table.out().c_str(), process.table.OutIdHere()) ==
             Service::kBarred) {
    findings->Note(
        "profiles",
        fmt::format(
            "another user's file blocks the lock of the exporter of {}: holdfast dump {} writes them now. Keep tables in a folder of your own (--tables)",
            process.out(), process.pid.value_or(0)));
  } else {
    findings->Note(
        "profiles",
        fmt::format("no exporter serves {}: holdfast dump {} writes them now, holdfast collect after the program exits",
                    process.out(), process.pid.value_or(0)));
  }
  const double elapsed_ns = static_cast<double>(snapshot->elapsed_ns);
  const auto own_ns = static_cast<int64_t>(snapshot->totals.sample_ns);
  findings->Ok("overhead", fmt::format("{} for samples so far ({} of {}){}", FormatTimeNs(own_ns),
                                       FormatPercent(own_ns, static_cast<int64_t>(elapsed_ns > 1 ? elapsed_ns : 1)),
                                       IsAttached(process.table) ? "the time since the attach" : "its running time",
                                       IsDetached(process.table)
                                           ? "; since the detach, calls do not come through the library"
                                           : "; and " + ExpectedOverhead(EntryOutcomeOf(*snapshot).is_redirected())));
  if (AboutLinkedAllocator(*snapshot, executable, root, findings)) return TableOnAllocator::kDescribes;
  return heap == 0 || IsDetached(process.table) ? TableOnAllocator::kNothing : TableOnAllocator::kHasNone;
}

// ---- doctor PID --attach ----

int AboutAttach(pid_t pid, const std::string& library, const std::vector<std::string>& folders) {
  const FilterAnswer filters = ReadFilterAnswer(pid, false);
  const TracingRights rights(true);
  if (const absl::Status status = BecomeUserOf(pid); !status.ok()) {
    Say(std::string(status.message()));
    return kCouldNot;
  }
  rights.Use();
  const AttachCheck check = CheckAttach(pid, library, folders.empty() ? "" : folders[0], filters);
  std::cout << Printable(fmt::format("{} (pid {})", ExecutableOfProcess(pid), pid)) << "\n" << check.findings.Text();
  return Finished(check.refused.empty() ? kFine : kFinding);
}

// Reports what the table of a process says. Nothing else can be told if /proc shows an emulator in place of the program.
int AboutEmulated(pid_t pid, const std::string& emulator, const std::vector<std::string>& folders) {
  const absl::StatusOr<ProcessTable> table = FindTableOf(pid, folders);
  if (!table.ok()) {
    Say(fmt::format(
        "process {}: has no table. Why cannot be told under {}, which /proc shows in place of a program. To check the program itself: holdfast doctor -- PROGRAM",
        pid, emulator));
    return kCouldNot;
  }
  Findings findings;
  AboutTable(*table, "", "", &findings);
  DescribeKernel("self", &findings);
  std::cout << fmt::format("pid {}\n", pid) << findings.Text();
  return Finished(findings.any_no() ? kFinding : kFine);
}

int AboutProcess(pid_t pid, const std::string& library, const std::vector<std::string>& folders) {
  const std::string process = fmt::format("{}", pid), root = fmt::format("/proc/{}/root", pid);
  const bool is_root = geteuid() == 0;
  if (const absl::Status status = BecomeUserOf(pid); !status.ok()) {
    Say(std::string(status.message()));
    return kCouldNot;
  }
  if (const std::string emulator = Emulator(); !emulator.empty()) return AboutEmulated(pid, emulator, folders);
  std::vector<std::string> objects = ObjectsOfProcess(pid);
  NameAsStarted(pid, root, &objects);
  if (objects.empty() || ReadOfProcess(pid, "maps", 1).empty()) {
    Say(fmt::format("process {}: its executable cannot be read. {}", pid,
                    is_root
                        ? "The kernel protects it even from root."
                        : "The kernel shows it only to root (prctl PR_SET_DUMPABLE). Run holdfast doctor as root."));
    return kCouldNot;
  }
  const std::string files = access((root + objects[0]).c_str(), R_OK) == 0 ? root : "";
  Findings findings;
  TableOnAllocator on_allocator = TableOnAllocator::kNothing;
  AttachState attachment = AttachState::kNone;
  // Its file may be deleted, or in memory (holdfast attach): the objects lack it then.
  const bool is_bound = MapsHoldfastLibrary(ReadOfProcess(pid, "maps"));
  if (!is_bound) {
    WhyNotLoaded(pid, root, objects, &findings);
  } else if (const absl::StatusOr<ProcessTable> table = FindTableOf(pid, folders); table.ok()) {
    on_allocator = AboutTable(*table, files + objects[0], files, &findings);
    if (IsAttached(table->table))
      attachment = IsDetached(table->table) ? AttachState::kDetached : AttachState::kAttached;
  } else {
    WhyProcessHasNoTable(process, objects, &findings);
  }
  DescribeObjects(objects, files, library, is_bound ? OpenMpUsersUnseen(pid, files) : std::set<std::string>(),
                  &findings, on_allocator, attachment);
  DescribeKernel(process, &findings);
  DescribeExporter(process, folders.empty() ? DefaultTableFolders() : folders, &findings);
  DescribeLimits(process, &findings);
  const std::string started = StartedAs(pid), name = started.empty() ? objects[0] : started;
  const std::string title = BaseName(name) == BaseName(objects[0])
                                ? fmt::format("{} (pid {})", objects[0], pid)
                                : fmt::format("{} (pid {}, {})", name, pid, objects[0]);
  std::cout << Printable(title) << "\n" << findings.Text();
  return Finished(findings.any_no() ? kFinding : kFine);
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Invocation* invocation) {
  auto pid = std::make_shared<std::string>();
  auto folders = std::make_shared<std::vector<std::string>>();
  CLI::App* doctor = app.add_subcommand("doctor", "Show what can be recorded of a program or process, and what cannot");
  doctor->footer(
      "Examines a program without starting it, or a running process: whether it can be recorded, which malloc it uses,\n"
      "which objects have function names, which waits for locks are seen, the kernel, limits, and where tables and profiles\n"
      "are written. Each line with NO says what is not recorded, why, and what to do.\n"
      "Exit status: 0 all is recorded, 1 there is a line with NO, 2 wrong usage, 3 it cannot be examined.\n"
      "With --attach: 0 attach is possible, 1 it would be refused.\n"
      "\n"
      "  holdfast doctor -- redis-server --port 7000\n"
      "  holdfast doctor 4242\n"
      "  holdfast doctor 4242 --attach");
  doctor->add_option("PID", *pid, "A running process; or, after --, a program and its arguments");
  doctor->add_option("--tables", *folders, "The folder of the table files [default: all that are in use]")
      ->allow_extra_args(false);
  auto attach = std::make_shared<bool>(false);
  doctor->add_flag("--attach", *attach,
                   "Check whether holdfast attach can profile the process; stops and changes nothing");
  doctor->callback([pid, folders, attach, invocation] {
    const std::vector<std::string>& program = invocation->program;
    if (pid->empty() == program.empty()) {
      throw CLI::ValidationError(pid->empty() ? "name a PID, or a program after --"
                                              : "both a PID and a program are given");
    }
    const absl::StatusOr<std::string> own_path = OwnPath();
    const absl::StatusOr<std::string> library = own_path.ok() ? FindLibrary(*own_path) : own_path;
    if (!library.ok()) {
      Say(std::string(library.status().message()));
      invocation->exit_code = kCouldNot;
      return;
    }
    if (!program.empty()) {
      if (*attach) throw CLI::ValidationError("--attach takes a PID");
      invocation->exit_code = AboutProgram(program, *library);
      return;
    }
    const absl::StatusOr<pid_t> number = ParsePid(*pid);
    if (!number.ok()) throw CLI::ValidationError(std::string(number.status().message()));
    if (const absl::Status status = CheckProcess(*number); !status.ok()) {
      invocation->exit_code = Failed(status);
      return;
    }
    invocation->exit_code =
        *attach ? AboutAttach(*number, *library, *folders) : AboutProcess(*number, *library, *folders);
  });
}

}  // namespace holdfast
