#include "report/observe/table/tool_readers.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "report/base/split.h"
#include "report/observe/table/table_folder.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

constexpr char kReader[] = ".reader", kProcess[] = ".process";
constexpr time_t kHolds = 3600, kKept = 60;  // seconds

bool IsOlder(const FileDescriptor& tables, const std::string& name, time_t seconds) {
  struct stat info;
  return fstatat(tables.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
         info.st_mtim.tv_sec < time(nullptr) - seconds;
}

std::string NameOfNote(const std::string& what) {
  return fmt::format("{}{}.{}{}", kTablePrefix, geteuid(), what, kReader);
}

void Note(const FileDescriptor& tables, const std::string& what) {
  const std::string name = NameOfNote(what);
  const FileDescriptor note(
      openat(tables.get(), name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  if (note.valid()) futimens(note.get(), nullptr);
}

// Returns the inode of the pipe that a process has at this descriptor; 0: not a pipe.
uint64_t PipeAt(pid_t pid, int descriptor) {
  struct stat info;
  return stat(fmt::format("/proc/{}/fd/{}", pid, descriptor).c_str(), &info) == 0 && S_ISFIFO(info.st_mode)
             ? info.st_ino
             : 0;
}

// The processes that read a pipe, directly or through each other, and the pipes between them: the first one is given.
struct OutputReaders {
  std::set<pid_t> processes;
  std::vector<uint64_t> pipes;
};
OutputReaders ReadersOf(uint64_t pipe) {
  std::map<pid_t, uint64_t> inputs;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  while (const dirent* entry = proc != nullptr ? readdir(proc.get()) : nullptr) {
    const pid_t pid = atoi(entry->d_name);
    if (pid <= 0 || pid == getpid()) continue;
    if (const uint64_t input = PipeAt(pid, STDIN_FILENO); input != 0) inputs[pid] = input;
  }
  OutputReaders readers = {.processes = {}, .pipes = {pipe}};
  for (size_t i = 0; i < readers.pipes.size(); ++i) {
    for (const auto& [pid, input] : inputs) {
      if (input != readers.pipes[i] || !readers.processes.insert(pid).second) continue;
      if (const uint64_t output = PipeAt(pid, STDOUT_FILENO); output != 0) readers.pipes.push_back(output);
    }
  }
  return readers;
}

}  // namespace

void NoteReaderOfOutput(const std::string& path) {
  struct stat info;
  if (fstat(STDOUT_FILENO, &info) != 0 || !S_ISFIFO(info.st_mode)) return;
  const absl::StatusOr<FileDescriptor> tables = OpenFolder(path);
  if (!tables.ok()) return;
  for (const std::string& name : ListTableNames(*tables, kReader)) {
    if (IsOlder(*tables, name, kKept)) unlinkat(tables->get(), name.c_str(), 0);
  }
  // The first program of a job is its leader, so that all its other programs read our output, directly or indirectly.
  Note(*tables, fmt::format("{}.{}", info.st_ino, getpgrp() == getpid() ? getpid() : 0));
  const OutputReaders readers = ReadersOf(info.st_ino);
  // The shell may not have started the last reader yet.
  for (size_t i = 1; i < readers.pipes.size(); ++i) Note(*tables, fmt::format("{}.0", readers.pipes[i]));
  for (const pid_t reader : readers.processes) {
    if (const auto ticks = StartTicksOf(reader); ticks.has_value())
      Note(*tables, fmt::format("{}.{}{}", reader, *ticks, kProcess));
  }
}

ReaderOfPipe ReaderOf(pid_t pid, const ProcStat& stat) {
  return {.pid = pid, .start_ticks = stat.start_ticks, .pipe = PipeAt(pid, STDIN_FILENO), .group = stat.group};
}

bool IsNoted(const FileDescriptor& tables, const ReaderOfPipe& reader) {
  if (reader.pid == 0) return false;
  // Without a pipe only a note about the process itself may be there.
  if (reader.pipe == 0)
    return !IsOlder(tables, NameOfNote(fmt::format("{}.{}{}", reader.pid, reader.start_ticks, kProcess)), kHolds);
  for (const std::string& name : ListTableNames(tables, kReader)) {
    const std::vector<std::string_view> parts = Split(name, ".");
    if (parts.size() < 5 || IsOlder(tables, name, kHolds)) continue;
    const bool is_process = parts.size() == 6;
    const auto is = [&](size_t part, uint64_t number) {
      return number != 0 && parts[part] == fmt::format("{}", number);
    };
    const auto pid = static_cast<uint64_t>(reader.pid), group = static_cast<uint64_t>(reader.group);
    if (is_process ? is(2, pid) && is(3, reader.start_ticks) : is(2, reader.pipe) || (reader.pipe != 0 && is(3, group)))
      return true;
  }
  return false;
}

}  // namespace holdfast
