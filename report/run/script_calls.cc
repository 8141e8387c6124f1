#include "report/run/script_calls.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/split.h"

namespace holdfast {
namespace {

constexpr size_t kMaxScriptBytes = 1 << 20, kMaxEnvironmentBytes = 1 << 20;
constexpr size_t kMaxImported = 3000;

bool Mentions(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return absl::StrContains(lower, "prctl") || absl::StrContains(lower, "subreaper");
}

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Adds the folders of packages in `prefix`/lib: "python3.11/site-packages", "python3/dist-packages".
void AddPackages(const std::string& prefix, std::vector<std::string>* folders) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir((prefix + "/lib").c_str()), closedir);
  while (const dirent* entry = listing != nullptr ? readdir(listing.get()) : nullptr) {
    if (!absl::StartsWith(entry->d_name, "python")) continue;
    for (const char* name : {"site-packages", "dist-packages"})
      folders->push_back(fmt::format("{}/lib/{}/{}", prefix, entry->d_name, name));
  }
}

class Modules {
 public:
  // `root`, `cwd`: of the process, as paths that we can open.
  Modules(std::string root, std::string cwd) : root_(std::move(root)), cwd_(std::move(cwd)) {}

  // Translates a path of the process into one that we can open.
  std::string Path(const std::string& path) const {
    return path.starts_with("/") ? root_ + path : fmt::format("{}/{}", cwd_, path);
  }
  void AddFolder(const std::string& folder) { folders_.push_back(folder); }
  void AddPrefix(const std::string& prefix) { AddPackages(prefix, &folders_); }

  void AddFile(const std::string& path) {
    if (seen_.insert(path).second && IsFile(path)) waiting_.push_back(path);
  }
  void AddImportsOf(const std::string& text, const std::string& folder) {
    for (const std::string& module : ImportedModules(text)) AddModule(module, folder);
  }
  void AddModule(const std::string& module, const std::string& beside) {
    if (module.starts_with(".")) {
      std::string folder = beside;
      size_t dots = 1;
      for (; dots < module.size() && module[dots] == '.'; ++dots) folder = FolderOf(folder);
      AddParts(folder, module.substr(dots));
      return;
    }
    AddParts(beside, module);
    for (const std::string& folder : folders_) AddParts(folder, module);
  }

  bool AnyMentions() {
    for (size_t read = 0; !waiting_.empty(); ++read) {
      if (read == kMaxImported) return true;
      const std::string path = waiting_.front();
      waiting_.pop_front();
      const std::string text = ReadWhole(path, kMaxScriptBytes);
      if (Mentions(text) || absl::StrContains(text, ".syscall(")) return true;
      AddImportsOf(text, FolderOf(path));
    }
    return false;
  }

 private:
  // "a.b": adds a.py, a/__init__.py, a/b.py and a/b/__init__.py.
  void AddParts(std::string folder, const std::string& module) {
    for (const std::string_view part : Split(module, ".")) {
      if (part.empty()) break;
      folder += fmt::format("/{}", part);
      AddFile(folder + ".py");
      AddFile(folder + "/__init__.py");
    }
  }

  const std::string root_, cwd_;
  std::vector<std::string> folders_;
  std::set<std::string> seen_;
  std::deque<std::string> waiting_;
};

}  // namespace

std::vector<std::string> ImportedModules(std::string_view text) {
  std::vector<std::string> modules;
  const auto words_of = [](std::string_view list) {
    std::vector<std::string_view> words;
    for (std::string_view word : Split(list, ",()")) {
      word = word.substr(0, word.find('#'));
      const size_t start = word.find_first_not_of(" \t\\");
      if (start == std::string_view::npos) continue;
      word.remove_prefix(start);
      words.push_back(word.substr(0, word.find_first_of(" \t\r;\\")));
    }
    return words;
  };
  for (std::string_view line : Split(text, "\n;")) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.starts_with("import ")) {
      for (const std::string_view word : words_of(line.substr(7))) modules.emplace_back(word);
    } else if (const size_t names = line.find(" import ");
               line.starts_with("from ") && names != std::string_view::npos) {
      std::string from(line.substr(5, names - std::min<size_t>(names, 5)));
      absl::StripAsciiWhitespace(&from);
      modules.push_back(from);
      for (const std::string_view word : words_of(line.substr(names + 8))) {
        if (word != "*") modules.push_back(fmt::format("{}{}{}", from, from.ends_with(".") ? "" : ".", word));
      }
    }
  }
  return modules;
}

bool ScriptMayCallPrctl(int pid, const std::string& process, std::string_view program,
                        const std::vector<std::string>& arguments) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (Mentions(arguments[i]) || absl::StrContains(arguments[i], ".syscall(")) return true;
  }
  // Both are hidden if the process belongs to another user.
  const std::string own_root = fmt::format("/proc/{}/root", pid), own_cwd = fmt::format("/proc/{}/cwd", pid);
  const bool is_hidden = access(own_cwd.c_str(), X_OK) != 0;
  Modules modules(is_hidden ? "" : own_root, is_hidden ? fmt::format("/proc/{}/cwd", process) : own_cwd);
  size_t script = 1;
  while (script < arguments.size() && arguments[script].starts_with("-") && arguments[script] != "-m" &&
         arguments[script] != "-c") {
    ++script;
  }
  if (!program.starts_with("python")) {
    if (script >= arguments.size()) return false;
    const std::string text = ReadWhole(modules.Path(arguments[script]), kMaxScriptBytes);
    return Mentions(text) || absl::StrContains(text, "syscall");
  }
  const std::string environment = ReadWhole(fmt::format("/proc/{}/environ", pid), kMaxEnvironmentBytes);
  for (const std::string_view variable : Split(environment, std::string_view("\0", 1))) {
    if (!variable.starts_with("PYTHONPATH=")) continue;
    for (const std::string_view folder : Split(variable.substr(sizeof "PYTHONPATH=" - 1), ":"))
      modules.AddFolder(modules.Path(std::string(folder)));
  }
  std::vector<std::string> prefixes = {"/usr", "/usr/local"};
  char executable[4096];
  const ssize_t length = readlink(fmt::format("/proc/{}/exe", pid).c_str(), executable, sizeof executable);
  if (length > 0) prefixes.push_back(FolderOf(FolderOf(std::string(executable, static_cast<size_t>(length)))));
  if (!arguments.empty() && arguments[0].starts_with("/")) prefixes.push_back(FolderOf(FolderOf(arguments[0])));
  if (script < arguments.size() && arguments[script].starts_with("/"))
    prefixes.push_back(FolderOf(FolderOf(arguments[script])));  // a virtual environment
  std::sort(prefixes.begin(), prefixes.end());
  prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
  for (const std::string& prefix : prefixes) modules.AddPrefix(modules.Path(prefix + "/"));
  const std::string here = modules.Path("");
  if (script + 1 < arguments.size() && arguments[script] == "-m") {
    modules.AddModule(arguments[script + 1], here);
    modules.AddModule(arguments[script + 1] + ".__main__", here);
  } else if (script + 1 < arguments.size() && arguments[script] == "-c") {
    modules.AddImportsOf(arguments[script + 1], here);
  } else if (script < arguments.size()) {
    const std::string path = modules.Path(arguments[script]);
    modules.AddFile(path);
    modules.AddFile(path + "/__main__.py");
  }
  // "gunicorn app:main", "celery -A app": arguments may also name modules.
  for (size_t i = script + 1; i < arguments.size(); ++i) {
    const std::string name = arguments[i].substr(0, arguments[i].find(':'));
    if (!name.empty() && name.find('/') == std::string::npos && !name.starts_with("-")) modules.AddModule(name, here);
  }
  return modules.AnyMentions();
}

}  // namespace holdfast
