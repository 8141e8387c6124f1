#include "report/run/why_nothing.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/base/holdfast_library.h"
#include "report/base/say.h"
#include "report/base/split.h"
#include "report/base/value_units.h"
#include "report/names/elf/dynamic_names.h"
#include "report/run/linked_allocator.h"
#include "report/run/program_check.h"
#include "report/run/started_programs.h"

namespace holdfast {
namespace {

constexpr uint64_t kSmallestTable = 1 << 20;
constexpr size_t kMaxExamined = 64;

std::string Quoted(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(ShellQuoted(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

// Returns why no table can be created in this folder, or "" if one can.
std::string WhyNoFile(const std::string& folder) {
  rlimit limit;
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return fmt::format("No table could be created in {} ({}). Name another folder with --tables DIR.", folder,
                       strerror(errno));
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < kSmallestTable) {
    return fmt::format("No table could be created: files are limited to {} here (ulimit -f). Raise that limit.",
                       FormatSize(static_cast<int64_t>(limit.rlim_cur)));
  }
  return "";
}

// Returns what the profiles lack because of an allocator in this executable, or "".
std::string AboutAllocatorIn(const std::string& path, Entries wanted) {
  const absl::StatusOr<DynamicNames> names = ReadDynamicNames(path);
  const LinkedAllocator linked = names.ok() ? LinkedAllocatorOf(path, *names, wanted) : LinkedAllocator();
  const bool lacks_some = !linked.is_seen || (linked.may_lack && !linked.is_redirected);
  return linked.is_there && lacks_some ? linked.text + "." : "";
}

// Returns CheckProgram's reason not to profile a program, or names the unseen allocator in it, or "".
std::string WhyNotRecorded(const FinishedRun& run, const std::vector<std::string>& words) {
  const ProgramCheck check = CheckProgram(words, getenv("PATH"), run.library);
  if (check.exit_code == kRunFailed || !check.recordable) return check.message;
  return check.exit_code == 0 ? AboutAllocatorIn(check.path, run.entries) : "";
}

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  const std::string text = ReadWhole(fmt::format("/proc/{}/task/{}/children", pid, pid));
  for (const std::string_view word : Split(text, " \n")) {
    if (!word.empty()) children.push_back(atoi(std::string(word).c_str()));
  }
  return children;
}

}  // namespace

std::vector<std::string> ProgramsWithoutLibrary(pid_t root) {
  std::vector<std::string> programs;
  std::vector<pid_t> pids = {root};
  for (size_t i = 0; i < pids.size() && i < kMaxExamined; ++i) {
    for (const pid_t child : ChildrenOf(pids[i])) pids.push_back(child);
    const std::string maps = ReadWhole(fmt::format("/proc/{}/maps", pids[i]));
    std::error_code error;
    const std::string program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pids[i]), error).string();
    // Skip a process that was just forked and is still the tool itself.
    if (maps.empty() || error || program.ends_with("/holdfast")) continue;
    // While the loader works, libc is not mapped yet.
    const bool is_starting = maps.find("/ld-linux") != std::string::npos && maps.find("/libc.so") == std::string::npos;
    if (!is_starting && !MapsHoldfastLibrary(maps) &&
        std::find(programs.begin(), programs.end(), program) == programs.end())
      programs.push_back(program);
  }
  return programs;
}

std::string WhyNothing(const FinishedRun& run, const StartedCommand& started) {
  if (std::string why = WhyNoFile(run.tables); !why.empty()) return why;
  if (!started.drops_by.empty()) {
    return fmt::format(
        "{} starts {} without LD_PRELOAD ({}), so nothing was preloaded. Profile the program itself: holdfast run -- {}",
        started.drops_preload, started.words.empty() ? "the program" : started.words[0], started.drops_by,
        Quoted(started.words));
  }
  if (!started.drops_preload.empty()) {
    return fmt::format(
        "{} starts {} without LD_PRELOAD, so nothing was preloaded. Put holdfast after it: {} … holdfast run -- {}",
        started.drops_preload, started.words.empty() ? "the program" : started.words[0], started.drops_preload,
        Quoted(started.words));
  }
  if (!started.words.empty()) {
    const std::string why = WhyNotRecorded(run, started.words);
    if (!why.empty()) return fmt::format("{}, and nothing in it can be recorded. {}", started.by.back(), why);
    return fmt::format("{}, and neither recorded anything. Profile the program itself: holdfast run -- {}",
                       started.by.back(), Quoted(started.words));
  }
  if (!started.unknown.empty()) {
    return fmt::format(
        "It is a script, and the programs that it started recorded nothing either ({}). Profile such a program itself, or see holdfast doctor -- PROGRAM.",
        started.unknown);
  }
  for (const std::string& program : run.without_library) {
    const std::string why = WhyNotRecorded(run, {program});
    if (!why.empty()) return fmt::format("It starts {}. {}", program, why);
    return fmt::format(
        "{} was started without LD_PRELOAD, so nothing was recorded. Profile the program itself: holdfast run -- {}",
        program, ShellQuoted(program));
  }
  return WhyNotRecorded(run, run.command);
}

std::string MissingFromHeap(const FinishedRun& run, const StartedCommand& started) {
  const ProgramCheck check =
      CheckProgram(started.words.empty() ? run.command : started.words, getenv("PATH"), run.library);
  return check.exit_code == 0 ? AboutAllocatorIn(check.path, run.entries) : "";
}

}  // namespace holdfast
