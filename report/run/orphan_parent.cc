#include "report/run/orphan_parent.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/base/holdfast_library.h"
#include "report/base/split.h"
#include "report/names/elf/call_arguments.h"
#include "report/names/elf/elf_file.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/table_folder.h"
#include "report/run/script_calls.h"
#include "report/run/system_libraries.h"
#include "sampler/contract/orphan_reaper.h"

namespace holdfast {
namespace {

constexpr size_t kMaxArgumentBytes = 128 << 10, kMaxNamesBytes = 128 << 20;
constexpr std::string_view kInterpreters[] = {"python", "perl", "ruby", "php", "node", "lua"};
// Libraries that call arbitrary libc functions on behalf of programs that have no text to search.
constexpr std::string_view kForeignCalls[] = {"jnidispatch", "libjffi", "ffi_bindings.node", "koffi"};

bool RunsScripts(std::string_view name) {
  return std::any_of(std::begin(kInterpreters), std::end(kInterpreters),
                     [name](std::string_view one) { return name.starts_with(one); });
}

// Returns the files that a process has mapped as code. The names of deleted files keep their mark.
std::vector<std::string> MappedCode(int pid) {
  std::vector<std::string> paths;
  const std::string maps = ReadWhole(fmt::format("/proc/{}/maps", pid));
  for (const std::string_view line : Split(maps, "\n")) {
    const size_t path = line.find('/'), rights = line.find(' ');
    if (path == std::string_view::npos || rights + 4 > line.size() || line[rights + 3] != 'x') continue;
    if (paths.empty() || paths.back() != line.substr(path)) paths.emplace_back(line.substr(path));
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

// Whether a program or library may define the symbol. Reads only the names of symbols, because debug information makes
// some interpreters tens of megabytes large.
bool MayDefine(std::string_view symbol, const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const std::unique_ptr<ElfFile> elf = file.valid() ? ElfFile::Open(file.get()) : nullptr;
  if (elf == nullptr) return false;
  const auto has_symbol = [&](const Elf64_Shdr& section) {
    if (section.sh_type != SHT_STRTAB) return false;
    const std::optional<std::string> names = elf->BytesOf(section, kMaxNamesBytes);
    return !names.has_value() || names->find(symbol) != std::string::npos;
  };
  const auto sections = elf->sections();
  const bool has_names =
      std::any_of(sections.begin(), sections.end(), [](const auto& one) { return one.sh_type == SHT_STRTAB; });
  return !has_names || std::any_of(sections.begin(), sections.end(), has_symbol);
}

// Whether the interpreter may call foreign code. Python reaches prctl only through a module for foreign calls. Without
// that module, a script that mentions prctl can only start programs that call prctl.
bool CallsForeignCode(int pid, std::string_view program, const std::vector<std::string>& code) {
  if (!program.starts_with("python") || code.empty()) return true;
  for (const std::string& path : code) {
    if (path.find("/_ctypes.") != std::string::npos || path.find("cffi") != std::string::npos ||
        path.find("prctl") != std::string::npos) {
      return true;
    }
  }
  // Some builds have the module in the interpreter itself. The interpreter is large, so compare the names above first.
  return std::any_of(code.begin(), code.end(), [pid](const std::string& path) {
    const std::string_view name = BaseName(path);
    return (name.starts_with("python") || name.starts_with("libpython")) &&
           MayDefine("PyInit__ctypes", fmt::format("/proc/{}/root{}", pid, path));
  });
}

// Reads a command line, which any user may do.
std::vector<std::string> ArgumentsOf(int pid) {
  const std::string bytes = ReadWhole(fmt::format("/proc/{}/cmdline", pid), kMaxArgumentBytes);
  std::vector<std::string> arguments;
  for (const std::string_view argument : Split(bytes, std::string_view("\0", 1))) arguments.emplace_back(argument);
  return arguments;
}

// Returns what the table of a profiled ancestor says, or nothing if it has no table that we may read.
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

struct Asked {
  const std::vector<std::string>& folders;
  std::string process;                                                               // its ancestors are judged
  std::map<std::pair<uint64_t, uint64_t>, std::optional<SubreaperCall>> known = {};  // by device and inode
};

std::optional<SubreaperCall> CallOf(const std::string& path, Asked* asked, bool only_imported = false) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  const auto [known, is_new] = asked->known.try_emplace({info.st_dev, info.st_ino});
  if (is_new) known->second = FindSubreaperCall(path, only_imported);
  return known->second;
}

// Whether a library that the ancestor has loaded may call prctl(PR_SET_CHILD_SUBREAPER). System libraries such as
// libcap pass on any option that they are given, so only calls with a constant option count for them.
bool LibraryMayCall(int pid, const std::vector<std::string>& code, Asked* asked) {
  return std::any_of(code.begin(), code.end(), [&](const std::string& mapped) {
    const std::string_view path = WithoutDeletedMark(mapped);
    const std::string_view name = BaseName(path);
    if (IsHoldfastLibrary(path)) return false;  // calls it only for our own processes
    for (const std::string_view foreign : kForeignCalls) {
      if (name.find(foreign) != std::string_view::npos) return true;
    }
    if (name.find(".so") == std::string_view::npos && !name.ends_with(".node")) return false;
    const bool is_systems = IsSystemLibrary(path);
    // If a library was replaced, only root can read the old file. A system library has a successor at the same path.
    const std::optional<SubreaperCall> call = CallOf(fmt::format("/proc/{}/root{}", pid, path), asked, is_systems);
    if (!call.has_value()) return !is_systems;
    return *call == SubreaperCall::kCalls || (*call == SubreaperCall::kComputed && !is_systems);
  });
}

// Where a shell finds the command, if the process is still named after it ("bash", or "-bash" for a login); "": nowhere.
std::string CommandPath(std::string_view command, std::string_view name) {
  if (command.starts_with('-')) command.remove_prefix(1);
  if (command.empty() || command != name) return "";
  for (const char* folder : {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}) {
    std::string path = fmt::format("{}/{}", folder, command);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

bool MayTake(const Ancestor& ancestor, bool in_container, void* context) {
  auto& asked = *static_cast<Asked*>(context);
  // The kernel gives no orphan to a zombie.
  if (HasEnded(ancestor.pid)) return false;
  if (const std::optional<bool> said = TableSaysSo(ancestor, asked.folders); said.has_value()) return *said;
  // If the main thread has exited, /proc shows memory and files only under another thread.
  const int pid = ThreadWithMemory(ancestor.pid);
  const std::vector<std::string> arguments = ArgumentsOf(pid);
  const std::string first = arguments.empty() ? "" : arguments[0];
  std::optional<SubreaperCall> call = CallOf(fmt::format("/proc/{}/exe", pid), &asked);
  // Another user's process hides its executable, but not the path with which it was started.
  if (!call.has_value() && first.starts_with("/")) call = CallOf(first, &asked);
  if (!call.has_value() && first.find('/') != std::string::npos)
    call = CallOf(fmt::format("/proc/{}/cwd/{}", asked.process, first), &asked);
  if (!call.has_value() && first.find('/') == std::string::npos)
    call = CallOf(CommandPath(first, ancestor.name), &asked);
  if (call == SubreaperCall::kCalls) return true;
  const std::vector<std::string> code = MappedCode(pid);
  const std::string program = RunsScripts(ancestor.name) ? ancestor.name : first.substr(first.rfind('/') + 1);
  if (RunsScripts(program)) {
    if (CallsForeignCode(pid, program, code) && ScriptMayCallPrctl(pid, asked.process, program, arguments)) {
      return true;
    }
  } else if (call == SubreaperCall::kComputed) {
    return true;
  }
  return LibraryMayCall(pid, code, &asked) || (!call.has_value() && in_container);
}

std::string NameOf(const Ancestor& ancestor) { return fmt::format("{} (pid {})", ancestor.name, ancestor.own_pid); }

}  // namespace

std::optional<OrphanParent> ParentOfOrphans(const std::string& process, const std::vector<std::string>& tables) {
  Ancestor who;
  Asked asked = {.folders = tables, .process = process};
  if (WhereOrphansGo(process.c_str(), &who, MayTake, &asked) == Orphans::kUnnoticed) return std::nullopt;
  if (who.pid == 0) return OrphanParent{"a process that cannot be seen"};
  return OrphanParent{NameOf(who)};
}

std::optional<std::string> EndsWithProgram(const std::string& process) {
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
