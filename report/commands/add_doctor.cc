#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/commands/commands.h"
#include "report/elf/executable_kind.h"
#include "report/processes/doctor_objects.h"
#include "report/processes/doctor_surroundings.h"
#include "report/processes/find_tables.h"
#include "report/processes/findings.h"
#include "report/processes/installation.h"
#include "report/processes/program_check.h"
#include "report/table/process_files.h"
#include "report/table/table_folder.h"
#include "sampler/contract/exporter_service.h"

namespace holdfast {
namespace {

constexpr char kOverhead[] = "expected: " HOLDFAST_MALLOC_COST " instructions for malloc and free, " HOLDFAST_LOCK_COST
                             " for an uncontended lock and unlock, about 1us for each 512KiB "
                             "allocated, 0.15ms at the start; a table of some 0.3MiB, at most 64MiB";

std::string Environment(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

// ---- doctor -- PROGRAM ----

int AboutProgram(const std::vector<std::string>& command, const std::string& library) {
  const ProgramCheck check = CheckProgram(command, getenv("PATH"), library);
  if (check.exit_code == kNotFound || check.exit_code == kNotExecutable) {
    Say(check.message);
    return kCouldNot;
  }
  Findings findings;
  if (check.exit_code != 0) {
    findings.No("recording", check.message);
  } else if (!check.recordable) {
    findings.No("recording", check.message);
  } else {
    const ExecutableKind file = ReadExecutableKind(check.path);
    findings.Ok("recording",
                fmt::format("takes the library: 64-bit x86, linked dynamically ({})",
                            file.kind == ExecutableKind::Kind::kElf ? file.interpreter : "by its interpreter"));
  }
  if (Environment("HOLDFAST_ENABLE") == "0")
    findings.No("recording", "HOLDFAST_ENABLE=0 is set here: the library passes everything through");
  if (check.exit_code == 0) DescribeObjects(ObjectsOfProgram(check.path), "", library, &findings);
  DescribeKernel("self", &findings);
  DescribeExporter("self", DefaultTableFolders(), &findings);
  DescribeLimits("self", &findings);
  DescribePlaces(Environment("HOLDFAST_TABLES"), Environment("HOLDFAST_OUT"), &findings);
  if (!findings.any_no()) findings.Ok("overhead", kOverhead);
  std::cout << Printable(fmt::format("{} ({})", command[0], check.path.empty() ? command[0] : check.path)) << "\n"
            << findings.Text();
  return Finished(findings.any_no() ? kFinding : kFine);
}

// ---- doctor PID ----

// AT_SECURE in the auxiliary vector: started with more rights than its starter had.
bool IsSecure(pid_t pid) {
  std::istringstream file(ReadOfProcess(pid, "auxv"));
  Elf64_auxv_t entry;
  while (file.read(reinterpret_cast<char*>(&entry), sizeof entry)) {
    if (entry.a_type == AT_SECURE) return entry.a_un.a_val != 0;
  }
  return false;
}

bool HasObject(const std::vector<std::string>& objects, const char* part) {
  for (const std::string& object : objects) {
    if (BaseName(object).find(part) != std::string_view::npos) return true;
  }
  return false;
}

void WhyNotLoaded(pid_t pid, const std::string& root, const std::vector<std::string>& objects, Findings* findings) {
  const ExecutableKind file = objects.empty() ? ExecutableKind() : ReadExecutableKind(root + objects[0]);
  if (file.kind == ExecutableKind::Kind::kElf && (!file.is_64_bit || !file.machine.empty())) {
    findings->No("recording", "is no 64-bit x86 program: nothing of it can be seen");
  } else if (file.kind == ExecutableKind::Kind::kElf && file.interpreter.empty()) {
    findings->No("recording", "is linked statically, so no library can be preloaded");
  } else if (HasObject(objects, "ld-musl")) {
    findings->No("recording", "uses the C library musl; Holdfast profiles programs that use glibc");
  } else if (IsSecure(pid)) {
    findings->No(
        "recording",
        "was started with more rights than its starter had (setuid, capabilities): the loader took no library");
  } else {
    findings->No(
        "recording",
        "was started without the library; nothing can be added to a running program. Start it by holdfast run");
  }
}

void WhyNoTable(const std::string& process, const std::vector<std::string>& objects, Findings* findings) {
  if (VariableOf(process, "HOLDFAST_ENABLE") == "0") {
    findings->No("recording", "it was started with HOLDFAST_ENABLE=0: the library passes everything through");
  } else if (HasObject(objects, "libasan.so") || HasObject(objects, "libtsan.so") || HasObject(objects, "vgpreload_")) {
    findings->No(
        "recording",
        "runs under a sanitizer or valgrind, which have their own malloc: the library passes everything through");
  } else if (VariableOf(process, "HOLDFAST_CHILDREN") == "no") {
    findings->No("recording",
                 "it is a child of the program that HOLDFAST_CHILDREN=no leaves out, or nothing was sampled yet");
  } else {
    findings->No("recording", "nothing was sampled yet, or no table could be made (see below)");
  }
}

void AboutTable(const ProcessTable& process, Findings* findings) {
  const absl::StatusOr<Snapshot> snapshot = process.table.TakeSnapshot();
  if (!snapshot.ok()) {
    findings->No("recording", fmt::format("its table {}/{} is not whole ({})", process.folder, process.table.name(),
                                          std::string(snapshot.status().message())));
    return;
  }
  const uint64_t heap = snapshot->heap_intervals.back().interval, lock = snapshot->lock_intervals.back().interval;
  findings->Ok("recording",
               fmt::format("heap {}, locks {}", heap == 0 ? "off" : "every " + FormatSize(static_cast<int64_t>(heap)),
                           lock == 0 ? "off" : "every " + FormatTimeNs(static_cast<int64_t>(lock))));
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
    findings->Note("frees",
                   fmt::format("{} calls another free than the library's (RTLD_DEEPBIND, or one of its own): {} of its "
                               "blocks count as freed, as nobody sees whether they are",
                               path, FormatSize(static_cast<int64_t>(sum.bytes))));
  }
  findings->Ok("tables", fmt::format("{}/{}, {} of at most {}", process.folder, process.table.name(),
                                     FormatSize(static_cast<int64_t>(snapshot->table_bytes)),
                                     FormatSize(static_cast<int64_t>(snapshot->max_memory_bytes))));
  if (ExporterServes(process.folder.c_str(), process.table.out().c_str(), process.table.OutIdHere())) {
    findings->Ok("profiles", fmt::format("go to {}", process.out()));
  } else if (ServiceOf(process.folder.c_str(), process.table.out().c_str(), process.table.OutIdHere()) ==
             Service::kBarred) {
    findings->Note(
        "profiles",
        fmt::format("another user's file lies where the exporter of {} has its lock, and keeps it away: holdfast dump "
                    "{} writes them now. Let tables lie in a folder of your own (--tables)",
                    process.out(), process.pid.value_or(0)));
  } else {
    findings->Note(
        "profiles",
        fmt::format("no exporter serves {}: holdfast dump {} writes them now, holdfast collect after the end",
                    process.out(), process.pid.value_or(0)));
  }
  const double elapsed_ns = static_cast<double>(snapshot->elapsed_ns);
  const auto own_ns = static_cast<int64_t>(snapshot->totals.sample_ns);
  findings->Ok("overhead",
               fmt::format("{} for its samples so far ({} of the time since its start); and {}", FormatTimeNs(own_ns),
                           FormatPercent(own_ns, static_cast<int64_t>(elapsed_ns > 1 ? elapsed_ns : 1)),
                           std::string(kOverhead).substr(sizeof "expected: " - 1)));
}

int AboutProcess(pid_t pid, const std::string& library, const std::vector<std::string>& folders) {
  struct stat info;
  const std::string process = fmt::format("{}", pid), root = fmt::format("/proc/{}/root", pid);
  if (stat(fmt::format("/proc/{}", pid).c_str(), &info) != 0) {
    Say(fmt::format("process {}: there is none. holdfast ls shows what is profiled.", pid));
    return kCouldNot;
  }
  if (const absl::Status status = BecomeUserOf(pid); !status.ok()) {
    Say(std::string(status.message()));
    return kCouldNot;
  }
  const std::vector<std::string> objects = ObjectsOfProcess(pid);
  if (objects.empty() || ReadOfProcess(pid, "maps", 1).empty()) {
    Say(fmt::format(
        "process {}: the kernel does not show what it runs (another user's, or protected). Do this as root.", pid));
    return kCouldNot;
  }
  Findings findings;
  if (!HasObject(objects, "libholdfast.so")) {
    WhyNotLoaded(pid, root, objects, &findings);
  } else if (const absl::StatusOr<ProcessTable> table = FindTableOf(pid, folders); table.ok()) {
    AboutTable(*table, &findings);
  } else {
    WhyNoTable(process, objects, &findings);
  }
  DescribeObjects(objects, access((root + objects[0]).c_str(), R_OK) == 0 ? root : "", library, &findings);
  DescribeKernel(process, &findings);
  DescribeExporter(process, folders.empty() ? DefaultTableFolders() : folders, &findings);
  DescribeLimits(process, &findings);
  std::cout << Printable(fmt::format("{} (pid {})", objects[0], pid)) << "\n" << findings.Text();
  return Finished(findings.any_no() ? kFinding : kFine);
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Invocation* invocation) {
  auto pid = std::make_shared<std::string>();
  auto folders = std::make_shared<std::vector<std::string>>();
  CLI::App* doctor = app.add_subcommand("doctor", "What will and will not be seen of a program or a process, and why");
  doctor->footer(
      "Looks at a program without starting it, or at a running process: whether it can be recorded, whose malloc it uses,\n"
      "which objects have names for their functions, which waits for locks are seen, kernel, limits, and where tables and\n"
      "profiles go. Exit status 1 if something will not be seen at all.\n"
      "\n"
      "  holdfast doctor -- redis-server --port 7000\n"
      "  holdfast doctor 4242");
  doctor->add_option("PID", *pid, "A running process; or, behind --, a program and its arguments");
  doctor->add_option("--tables", *folders, "Folder of table files to look into [default: all that are in use]")
      ->allow_extra_args(false);
  doctor->callback([pid, folders, invocation] {
    const std::vector<std::string>& program = invocation->program;
    if (pid->empty() == program.empty()) {
      throw CLI::ValidationError(pid->empty() ? "name a PID, or a program behind --"
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
      invocation->exit_code = AboutProgram(program, *library);
      return;
    }
    const absl::StatusOr<pid_t> number = ParsePid(*pid);
    if (!number.ok()) throw CLI::ValidationError(std::string(number.status().message()));
    invocation->exit_code = AboutProcess(*number, *library, *folders);
  });
}

}  // namespace holdfast
