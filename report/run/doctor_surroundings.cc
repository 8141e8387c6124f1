#include "report/run/doctor_surroundings.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/daemon/installation.h"
#include "report/daemon/sweep_tables.h"
#include "report/names/elf/processors.h"
#include "report/observe/table/memory_room.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/table_folder.h"
#include "report/observe/table/thread_status.h"
#include "report/run/orphan_parent.h"
#include "sampler/contract/cpu_sampling.h"

namespace holdfast {
namespace {

std::string ReadFirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string Trimmed(const std::string& text) {
  const size_t start = text.find_first_not_of(" \t");
  return start == std::string::npos ? "" : text.substr(start, text.find_last_not_of(" \t") + 1 - start);
}

bool AtLeast(const utsname& names, int wanted_major, int wanted_minor) {
  int major = 0, minor = 0;
  sscanf(names.release, "%d.%d", &major, &minor);
  return major > wanted_major || (major == wanted_major && minor >= wanted_minor);
}

// Reads a file of the process's cgroup (version 2). Returns "" if there is none, and for "max".
std::string CgroupValue(const std::string& process, const std::string& name) {
  std::ifstream file(fmt::format("/proc/{}/cgroup", process));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::")) continue;
    const std::string value = ReadFirstLine("/sys/fs/cgroup" + line.substr(3) + "/" + name);
    return value == "max" ? "" : value;
  }
  return "";
}

}  // namespace

std::optional<uint64_t> LimitOf(const std::string& process, std::string_view name) {
  std::ifstream file(fmt::format("/proc/{}/limits", process));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) {
      uint64_t value;
      const std::string rest = Trimmed(line.substr(name.size()));
      return absl::SimpleAtoi(rest.substr(0, rest.find(' ')), &value) ? std::optional(value) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::string StatusField(const std::string& process, const std::string& name) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return Trimmed(line.substr(name.size() + 1));
  }
  return "";
}

std::string VariableOf(const std::string& process, const std::string& name) {
  pid_t pid = 0;
  const std::string text =
      absl::SimpleAtoi(process, &pid) ? ReadOfProcess(pid, "environ") : ReadWhole("/proc/self/environ");
  std::istringstream file(text);
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

std::string Emulator() {
  // qemu-user names its program in /proc/self/exe, and lets the kernel answer for the other name of that link.
  std::error_code error;
  const std::string own = std::filesystem::read_symlink("/proc/self/exe", error).string();
  const std::string kernels = std::filesystem::read_symlink("/proc/thread-self/exe", error).string();
  return own.empty() || kernels.empty() || own == kernels ? "" : std::string(BaseName(kernels));
}

void SayIfEmulated() {
  if (const std::string emulator = Emulator(); !emulator.empty()) {
    Say(fmt::format(
        "/proc shows {} in place of a running program: threads, calls and pointers of a process are the emulator's",
        emulator));
  }
}

CpuState CpuHindrance(const std::string& process) {
  if (kOwnMachine != EM_X86_64) return CpuState::kOtherProcessor;  // as sampler/arch/call_on_stack.h
  utsname names;
  uname(&names);
  if (!DefersCpuTimers(names.release)) return CpuState::kOldKernel;
  const std::string filter = StatusField(process, "Seccomp");
  return filter.empty() || filter == "0" ? CpuState::kOn : CpuState::kFiltered;
}

std::string NoCpuSamples(CpuState why) {
  return fmt::format("--cpu takes no samples: {}", kCpuStateTexts[static_cast<int>(why)]);
}

std::string NoTimersLeft() {
  // "SigQ: 12/40": signals in use, of all processes of this user, and how many may be.
  const std::string text = StatusField("self", "SigQ");
  const size_t slash = text.find('/');
  uint64_t used = 0, limit = 0;
  if (slash == std::string::npos || !absl::SimpleAtoi(text.substr(0, slash), &used) ||
      !absl::SimpleAtoi(text.substr(slash + 1), &limit) || used < limit / 4)
    return "";
  return fmt::format(
      "--cpu takes no samples: its timers take at most a quarter of the signals that may be pending (ulimit -i: {}), and {} are in use. Raise the limit",
      limit, used);
}

std::string WhyNoCallsAreSeen(const LookRights& rights) {
  if (rights.yama_scope >= 3) return WhyUnreadable(rights, 0, "threads");
  if (rights.yama_scope == 0 || rights.may_trace_all) return "";
  return fmt::format(
      "kernel.yama.ptrace_scope is {}; run as root with CAP_SYS_PTRACE, or sysctl -w kernel.yama.ptrace_scope=0",
      rights.yama_scope);
}

// Reports what --wall does not see here.
void DescribeThreadLooks(const std::string& process, Findings* findings) {
  pid_t pid = getpid();
  const bool is_other = absl::SimpleAtoi(process, &pid);
  const LookRights rights = LookRightsFor(pid);
  // An ended process has no threads to look at.
  const bool is_denied = is_other && ReadOfProcess(pid, "syscall").empty() && (errno == EACCES || errno == EPERM);
  const std::string why = is_denied ? WhyUnreadable(rights, pid, "threads") : is_other ? "" : WhyNoCallsAreSeen(rights);
  if (const std::string counts = ReadWhole("/proc/self/schedstat"); counts.empty() || counts.starts_with("0 0 ")) {
    findings->Note("wall", "--wall records nothing: this kernel does not count when threads run (/proc/PID/schedstat)");
  } else if (!why.empty()) {
    findings->Note("wall", "--wall sees CPU time and waits for a CPU, but no system calls and locks: " + why);
  }
}

void DescribeKernel(const std::string& process, Findings* findings) {
  if (const std::string emulator = Emulator(); !emulator.empty()) {
    findings->Note(
        "emulator",
        fmt::format(
            "{} runs {} programs here: no exporter starts (holdfast collect writes the profiles), /proc shows {} in place of each program (stuck, holders and --wall see its threads and memory), and times are the emulator's",
            emulator, kOwnPrograms, emulator));
  }
  utsname names;
  uname(&names);
  if (AtLeast(names, 5, 14)) {
    findings->Ok("kernel", fmt::format("Linux {}: tables grow in small steps", names.release));
  } else {
    findings->Note("kernel", fmt::format("Linux {}: before 5.14 tables cannot grow in steps and are limited to 8MiB",
                                         names.release));
  }
  if (!AtLeast(names, 4, 14))
    findings->Note("kernel", "before 4.14 each sample calls getpid, to recognize forked children");
  if (const CpuState why = CpuHindrance(process); why != CpuState::kOn)
    findings->Note("cpu", NoCpuSamples(why) + (why != CpuState::kOtherProcessor ? " (see --cpu=HZ,force)" : ""));
  // Of a running process, its table tells.
  if (const std::string none = process == "self" ? NoTimersLeft() : ""; !none.empty()) findings->Note("cpu", none);
  DescribeThreadLooks(process, findings);
  const std::string filter = StatusField(process, "Seccomp");
  if (filter == "1")
    findings->Note("kernel", "seccomp strict mode: its table cannot grow, and its children are not recorded");
  if (filter == "2") {
    findings->Note(
        "kernel",
        "a seccomp filter is in place: if it was there before the program, it must allow mmap, openat, ftruncate, madvise, clone and execve; the defaults of Docker and systemd do");
  }
  int subreaper = 0;
  prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  if (process == "self" && subreaper != 0)
    findings->Note("kernel", "this process is a subreaper; programs started from it are not");
  // "NSpid: 4242 1": the last number is the pid in the process's own namespace.
  const std::string pids = StatusField(process, "NSpid");
  if (process != "self" && pids.substr(pids.find_last_of("\t ") + 1) == "1") {
    findings->Note(
        "kernel",
        "it is PID 1 of a container: SIGKILL also ends the exporter and, unless HOLDFAST_TABLES names a persistent tmpfs volume, loses the table; the profiles of the last interval remain");
  }
}

void DescribeExporter(const std::string& process, const std::vector<std::string>& tables, Findings* findings) {
  if (const auto parent = ParentOfOrphans(process, tables); parent.has_value()) {
    findings->Note(
        "exporter",
        fmt::format(
            "no exporter starts without `holdfast run`, because {} would see it as a child. Write the profiles with `holdfast collect`",
            parent->name));
  }
  if (const auto reaper = EndsWithProgram(process); reaper.has_value()) {
    findings->Note(
        "exporter",
        fmt::format(
            "{} ends the container as soon as its child exits, so the last profile is missing after a crash or SIGKILL. Start the program as {} -- holdfast run -- PROGRAM",
            *reaper, reaper->substr(0, reaper->find(' '))));
  }
}

void DescribeLimits(const std::string& process, Findings* findings) {
  size_t before = 0;
  const auto note = [&](std::string text) {
    ++before;
    findings->Note("limits", std::move(text));
  };
  if (const auto size = LimitOf(process, "Max file size"); size.has_value() && *size < (64u << 20)) {
    note(fmt::format("RLIMIT_FSIZE is {}: this limits the size of the table", FormatSize(static_cast<int64_t>(*size))));
  }
  if (const auto space = LimitOf(process, "Max address space"); space.has_value()) {
    note(fmt::format("RLIMIT_AS is {}: the table (64MiB) and a filter (4MiB) count against it",
                     FormatSize(static_cast<int64_t>(*space))));
  }
  if (const auto count = LimitOf(process, "Max processes"); count.has_value() && *count < 16) {
    note(fmt::format("RLIMIT_NPROC is {}: the exporter counts as one process (three while it starts)", *count));
  }
  if (const std::optional<MemoryRoom> room = MemoryRoomOf(process); room.has_value()) {
    note(fmt::format(
        "the cgroup's memory limit is {} ({}), {} of it free: the table (at most 64MiB, --max-memory) and the exporter (4MiB idle, about {} while it writes; with less free memory snapshots are postponed) count against it",
        FormatSize(room->limit_bytes), room->limit_name, FormatSize(room->left_bytes), FormatSize(kSnapshotBytes)));
  }
  if (const std::string count = CgroupValue(process, "pids.max"); !count.empty()) {
    note(fmt::format("the cgroup's process limit is {}, with {} in use: the exporter is one more", count,
                     CgroupValue(process, "pids.current")));
  }
  if (before == 0) findings->Ok("limits", "no relevant limits (file size, address space, processes, cgroup)");
}

void DescribePlaces(const std::string& tables_variable, const std::string& out_variable, Findings* findings) {
  const std::string out = out_variable.empty() ? "." : out_variable;
  const std::string tables = tables_variable.empty() ? UsualTablesFolder(out) : tables_variable;
  if (const absl::StatusOr<std::string> folder = TablesFolder(tables); !folder.ok()) {
    findings->No("tables", fmt::format("no table can be created: {}", std::string(folder.status().message())));
  } else if (access(folder->c_str(), W_OK) != 0) {
    findings->No("tables", fmt::format("{} cannot be written: nothing can be recorded", *folder));
  } else {
    if (const std::string no_room = WhyNoTable(*folder); !no_room.empty())
      findings->No("tables", "a program that starts now records nothing: " + no_room);
    struct statfs info {};
    statfs(folder->c_str(), &info);
    const auto free_bytes = static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_bsize);
    findings->Ok("tables", fmt::format("in {}, {} free: all tables of this user use at most {} of it", *folder,
                                       FormatSize(free_bytes), FormatSize(free_bytes / 4)));
    if (free_bytes / 4 < (64 << 20)) {
      findings->Note(
          "tables",
          "that is less than the maximum size of one table (64MiB): with many stacks, some samples are lost and counted");
    }
  }
  char whole[PATH_MAX];
  if (realpath(out.c_str(), whole) != nullptr) {
    if (access(whole, W_OK) == 0) {
      findings->Ok("profiles", fmt::format("go to {}", whole));
    } else {
      findings->No("profiles", fmt::format("{} cannot be written: set HOLDFAST_OUT, or use holdfast run -o", whole));
    }
  } else {
    findings->Ok("profiles", fmt::format("go to {}, which is created with the first profile", out));
  }
}

}  // namespace holdfast
