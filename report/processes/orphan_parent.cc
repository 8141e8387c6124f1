#include "report/processes/orphan_parent.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/split.h"
#include "report/elf/subreaper_call.h"
#include "report/table/table_folder.h"
#include "sampler/spawn/orphan_reaper.h"

namespace holdfast {
namespace {

constexpr size_t kMaxAncestorScriptBytes = 1 << 20, kMostArgumentBytes = 128 << 10;
constexpr std::string_view kInterpreters[] = {"python", "perl", "ruby", "php", "node", "lua"};

bool Mentions(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return lower.find("prctl") != std::string::npos || lower.find("subreaper") != std::string::npos;
}

bool IsInterpreter(std::string_view name) {
  return std::any_of(std::begin(kInterpreters), std::end(kInterpreters),
                     [name](std::string_view one) { return name.starts_with(one); });
}

// Python reaches prctl only by a module that may not even be loaded: a script may start programs that call prctl.
bool CallsForeignCode(const Ancestor& ancestor) {
  if (!std::string_view(ancestor.name).starts_with("python")) return true;
  const std::string maps = ReadWhole(fmt::format("/proc/{}/maps", ancestor.pid));
  return maps.empty() || maps.find("/_ctypes.") != std::string::npos || maps.find("cffi") != std::string::npos ||
         maps.find("prctl") != std::string::npos;
}

// Reads a command line. Anybody may.
std::vector<std::string> ArgumentsOf(int pid) {
  const std::string bytes = ReadWhole(fmt::format("/proc/{}/cmdline", pid), kMostArgumentBytes);
  std::vector<std::string> arguments;
  for (const std::string_view argument : Split(bytes, std::string_view("\0", 1))) arguments.emplace_back(argument);
  return arguments;
}

bool ScriptMentions(int pid, const std::vector<std::string>& arguments) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (Mentions(arguments[i])) return true;
  }
  const auto script = std::find_if(arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end(),
                                   [](const std::string& text) { return !text.starts_with("-"); });
  if (script == arguments.end()) return false;
  const std::string_view start = script->starts_with("/") ? "root" : "cwd/";
  return Mentions(ReadWhole(fmt::format("/proc/{}/{}{}", pid, start, *script), kMaxAncestorScriptBytes));
}

// What the table of a profiled ancestor says; nothing: it has none that we may read.
std::optional<bool> TableSaysSo(const Ancestor& ancestor, const std::vector<std::string>& folders) {
  for (const std::string& path : folders) {
    const absl::StatusOr<FileDescriptor> folder = OpenFolder(path);
    if (!folder.ok()) continue;
    for (const std::string& name : ListTableNames(*folder)) {
      if (name.find(fmt::format(".{}.", ancestor.own_pid)) == std::string::npos) continue;
      const absl::StatusOr<TableFile> table = TableFile::Open(*folder, name);
      if (!table.ok() || table->owner().pid != static_cast<uint32_t>(ancestor.own_pid) ||
          !table->owner().IsOfOurNamespace() || table->liveness() != Liveness::kAlive) {
        continue;
      }
      return table->TakesOrphans();
    }
  }
  return std::nullopt;
}

bool MayTake(const Ancestor& ancestor, bool in_container, void* context) {
  const auto& folders = *static_cast<const std::vector<std::string>*>(context);
  if (const std::optional<bool> said = TableSaysSo(ancestor, folders); said.has_value()) return *said;
  const std::vector<std::string> arguments = ArgumentsOf(ancestor.pid);
  std::optional<bool> calls = CallsForSubreaper(fmt::format("/proc/{}/exe", ancestor.pid));
  // Another user's process hides its executable, but not the path by which it was started.
  if (!calls.has_value() && !arguments.empty() && arguments[0].starts_with("/"))
    calls = CallsForSubreaper(arguments[0]);
  if (calls.value_or(false)) return true;
  if (IsInterpreter(ancestor.name) && CallsForeignCode(ancestor) && ScriptMentions(ancestor.pid, arguments))
    return true;
  return !calls.has_value() && in_container;
}

std::string NameOf(const Ancestor& ancestor) { return fmt::format("{} (pid {})", ancestor.name, ancestor.own_pid); }

}  // namespace

std::optional<OrphanParent> WhoNoticesOrphans(const std::string& process, const std::vector<std::string>& tables) {
  Ancestor who;
  auto folders = tables;
  if (WhereOrphansGo(process.c_str(), &who, MayTake, &folders) == Orphans::kUnnoticed) return std::nullopt;
  if (who.pid == 0) return OrphanParent{"a process that cannot be seen"};
  return OrphanParent{NameOf(who)};
}

std::optional<std::string> WhoEndsWithTheProgram(const std::string& process) {
  struct Seen {
    bool run = false;
    std::string reaper;
  } seen;
  ForEachAncestor(
      process.c_str(),
      [](const Ancestor& ancestor, void* context) {
        auto& of_all = *static_cast<Seen*>(context);
        if (std::string_view(ancestor.name) == "holdfast") of_all.run = true;
        if (ancestor.is_first && EndsWithItsChild(ancestor.name)) of_all.reaper = NameOf(ancestor);
      },
      &seen);
  return seen.run || seen.reaper.empty() ? std::nullopt : std::optional(seen.reaper);
}

}  // namespace holdfast
