#include "report/analysis/how_to_name.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/base/base_name.h"
#include "report/base/load_library.h"
#include "report/base/say.h"
#include "report/names/elf/debug_file_finder.h"
#include "report/profile/object_names.h"

namespace holdfast {
namespace {

constexpr size_t kMaxNamed = 3;

bool HasLine(const std::string& text, std::string_view line) {
  for (size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) {
    const size_t end = at + line.size();
    if ((at == 0 || text[at - 1] == '\n') && (end == text.size() || text[end] == '\n')) return true;
  }
  return false;
}

// "a", "a and b", "a, b and 2 more".
std::string Listed(std::vector<std::string> names) {
  const size_t more = names.size() > kMaxNamed ? names.size() - kMaxNamed : 0;
  names.resize(names.size() - more);
  if (more > 0) return fmt::format("{} and {} more", fmt::join(names, ", "), more);
  if (names.size() < 2) return names.empty() ? "" : names[0];
  const std::string last = std::move(names.back());
  names.pop_back();
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

// Returns whether a readable debug file with the names exists. Advising another one would then not help.
bool HasDebugFile(const std::string& build_id, const std::string& root) {
  if (build_id.size() < 4) return false;
  auto fd = OpenRegular(
      fmt::format("{}/usr/lib/debug/.build-id/{}/{}.debug", root, build_id.substr(0, 2), build_id.substr(2)));
  if (!fd.ok()) return false;
  const auto file = OpenDebugFile(*std::move(fd), 0);
  return file.ok() && (*file)->build_id == build_id && ((*file)->has_symtab || (*file)->has_lines());
}

// How to get names for one object.
struct Ways {
  bool is_here = false;  // a debug file is installed
  std::string package;
  bool can_be_fetched = false;
};

// Caches packages, because dpkg's lists have some megabytes and a server repeats this sentence every second.
std::string KnownPackageOf(const std::string& path, const std::string& root) {
  if (!root.empty()) return PackageOfFile(path, root);
  static constinit std::mutex mutex;  // guards `known`
  static auto& known = *new std::map<std::string, std::string>;
  constexpr size_t kMax = 1024;
  const std::lock_guard lock(mutex);
  if (known.size() > kMax) known.clear();
  const auto [place, added] = known.try_emplace(path);
  if (added) place->second = PackageOfFile(path);
  return place->second;
}

Ways WaysTo(const UnnamedCode::Object& object, const std::string& root) {
  Ways ways;
  ways.is_here = HasDebugFile(object.build_id, root);
  if (ways.is_here) return ways;
  const bool has_file = access((root + object.path).c_str(), F_OK) == 0;
  if (has_file) ways.package = KnownPackageOf(object.path, root);
  // debuginfod servers have only what distributions built. A local file that is in no package was built by its owner.
  const bool own_build = has_file && ways.package.empty() && access((root + "/var/lib/dpkg/info").c_str(), F_OK) == 0;
  // A static tool cannot load the library that asks servers.
  ways.can_be_fetched = !object.build_id.empty() && !own_build && !IsLinkedStatically();
  return ways;
}

// "apt install x-dbgsym (or export DEBUGINFOD_URLS=…); then holdfast symbolize FILES"
std::string StepsTo(const std::vector<UnnamedCode::Object>& objects, const std::vector<std::string>& files,
                    const std::string& root) {
  std::vector<std::string> packages, own, unread;
  bool can_be_fetched = false;
  for (const UnnamedCode::Object& object : objects) {
    const Ways ways = WaysTo(object, root);
    can_be_fetched = can_be_fetched || ways.can_be_fetched;
    if (!object.unread.empty()) unread.push_back(object.unread);
    if (!ways.package.empty()) {
      const std::string package = ways.package + "-dbgsym";
      if (std::find(packages.begin(), packages.end(), package) == packages.end()) packages.push_back(package);
    } else if (!ways.is_here && !ways.can_be_fetched) {
      own.emplace_back(BaseName(object.path));
    }
  }
  std::vector<std::string> steps;
  const char* servers = std::getenv("DEBUGINFOD_URLS");
  const bool asked = servers != nullptr && servers[0] != 0;
  if (can_be_fetched && !asked) {
    const std::string server = "DEBUGINFOD_URLS=" + DebuginfodServer(root);
    steps.push_back(packages.empty() ? "export " + server
                                     : fmt::format("apt install {} (or export {})", fmt::join(packages, " "), server));
  } else if (!packages.empty() && !asked) {
    steps.push_back(fmt::format("apt install {}", fmt::join(packages, " ")));
  }
  // These files were tried already and would fail again.
  if (!unread.empty()) {
    steps.push_back(fmt::format("replace the unreadable file ({})", fmt::join(unread, "; ")));
  }
  std::string command = "holdfast symbolize";
  if (!own.empty()) command += " --debug-dir DIR";
  for (const std::string& file : files) command += " " + (file == "-" ? std::string("FILE") : ShellQuoted(file));
  if (!own.empty()) command += fmt::format(", with the unstripped {} or its debug file in DIR", Listed(own));
  steps.push_back(command);
  return fmt::format("{}", fmt::join(steps, "; then "));
}

std::vector<std::string> NamesOfObjects(const std::vector<UnnamedCode::Object>& objects) {
  std::vector<std::string> names;
  names.reserve(objects.size());
  for (const UnnamedCode::Object& object : objects)
    names.emplace_back(object.called.empty() ? BaseName(object.path) : object.called);
  return names;
}

}  // namespace

std::string PackageOfFile(std::string_view path, const std::string& root) {
  // If /lib is a link to /usr/lib, packages may list either path.
  std::vector<std::string> names = {std::string(path)};
  if (path.starts_with("/usr/")) {
    names.emplace_back(path.substr(4));
  } else {
    names.push_back("/usr" + std::string(path));
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/var/lib/dpkg/info", error)) {
    const std::string list = entry.path().filename().string();
    constexpr std::string_view kEnd = ".list";
    if (!list.ends_with(kEnd)) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string files{std::istreambuf_iterator<char>(in), {}};
    if (std::none_of(names.begin(), names.end(), [&](const std::string& name) { return HasLine(files, name); }))
      continue;
    const std::string package = list.substr(0, list.size() - kEnd.size());
    return package.substr(0, package.find(':'));  // libc6:amd64
  }
  return "";
}

std::string DebuginfodServer(const std::string& root) {
  std::ifstream in(root + "/etc/os-release");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("ID=")) continue;
    std::string id = line.substr(3);
    std::erase(id, '"');
    for (const char* known : {"debian", "ubuntu"}) {
      if (id == known) return fmt::format("https://debuginfod.{}.{}", id, id == "debian" ? "net" : "com");
    }
    if (id == "fedora") return "https://debuginfod.fedoraproject.org";
    if (id == "arch") return "https://debuginfod.archlinux.org";
  }
  return "https://debuginfod.elfutils.org";  // forwards to the servers of the distributions
}

std::string HowToName(const UnnamedCode& code, const std::vector<std::string>& files, const std::string& root) {
  std::string text;
  if (!code.objects.empty()) {
    text = fmt::format("{:.0f}% is in code of {} without function names. To name it: {}", 100 * code.share,
                       Listed(NamesOfObjects(code.objects)), StepsTo(code.objects, files, root));
  }
  if (!code.how_to_map.empty()) {
    text += fmt::format(
        "{}{:.0f}% is called by JIT or interpreter code without a perf map. To name it, run the program again as {}",
        text.empty() ? "" : ". ", 100 * code.without_map, code.how_to_map);
  }
  return text;
}

std::string HowToNameLocks(const std::vector<NamesOfLocks>& processes, const std::vector<std::string>& files,
                           std::string_view said, const std::string& root) {
  std::vector<UnnamedCode::Object> objects;
  size_t all = 0, in_files = 0, elsewhere = 0;
  for (const auto& [profile, locks] : processes) {
    const ObjectNames object_names(*profile);
    all += locks.size();
    for (const std::string& lock : locks) {
      if (lock.starts_with("0x")) ++elsewhere;
      if (lock.starts_with("0x") || !IsNameless(lock)) continue;
      const std::string_view file = std::string_view(lock).substr(0, lock.rfind("!0x"));
      for (const Profile::Mapping& mapping : profile->mappings) {
        const std::string_view path = profile->strings[mapping.file];
        const std::string_view called = object_names.Of(path);
        if (called != file && BaseName(path) != file) continue;
        ++in_files;
        if (std::none_of(objects.begin(), objects.end(), [&](const auto& object) { return object.path == path; })) {
          objects.push_back(
              {std::string(path), std::string(profile->strings[mapping.build_id]), 0, std::string(called)});
        }
        break;
      }
    }
  }
  // As with code, ignore a small share.
  if (static_cast<double>(in_files + elsewhere) < UnnamedCode::kMinShare * static_cast<double>(all)) return "";
  std::vector<std::string> parts;
  if (in_files > 0) {
    const std::string steps = StepsTo(objects, files, root);
    parts.push_back(fmt::format("{} of {} locks {} data of {} without symbols. To name {}: {}", in_files, all,
                                in_files == 1 ? "is" : "are", Listed(NamesOfObjects(objects)),
                                in_files == 1 ? "it" : "them", said.ends_with(steps) ? "the same" : steps));
  }
  if (elsewhere > 0) {
    parts.push_back(fmt::format(
        "{} of {} locks {} neither in a file nor in a sampled heap block: a smaller --heap-interval names more of them by their allocation",
        elsewhere, all, elsewhere == 1 ? "is" : "are"));
  }
  return fmt::format("{}", fmt::join(parts, ". "));
}

}  // namespace holdfast
