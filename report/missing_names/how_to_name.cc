#include "report/missing_names/how_to_name.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/base/base_name.h"
#include "report/base/say.h"

namespace holdfast {
namespace {

constexpr size_t kMostNamed = 3;

bool HasLine(const std::string& text, std::string_view line) {
  for (size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) {
    const size_t end = at + line.size();
    if ((at == 0 || text[at - 1] == '\n') && (end == text.size() || text[end] == '\n')) return true;
  }
  return false;
}

// "a", "a and b", "a, b and 2 more".
std::string Listed(std::vector<std::string> names) {
  const size_t more = names.size() > kMostNamed ? names.size() - kMostNamed : 0;
  names.resize(names.size() - more);
  if (more > 0) return fmt::format("{} and {} more", fmt::join(names, ", "), more);
  if (names.size() < 2) return names.empty() ? "" : names[0];
  const std::string last = std::move(names.back());
  names.pop_back();
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

bool HasDebugFile(const std::string& build_id, const std::string& root) {
  if (build_id.size() < 4) return false;
  const std::string path =
      fmt::format("{}/usr/lib/debug/.build-id/{}/{}.debug", root, build_id.substr(0, 2), build_id.substr(2));
  return access(path.c_str(), R_OK) == 0;
}

// Of one object: the ways to its names that are open.
struct Ways {
  bool is_here = false;  // a debug file
  std::string package;
  bool can_be_fetched = false;
};

Ways WaysTo(const UnnamedCode::Object& object, const std::string& root) {
  Ways ways;
  ways.is_here = HasDebugFile(object.build_id, root);
  if (ways.is_here) return ways;
  const bool has_file = access((root + object.path).c_str(), F_OK) == 0;
  if (has_file) ways.package = PackageOfFile(object.path, root);
  // Servers know what distributions built: what lies here and is of no package is not theirs.
  const bool own_build = has_file && ways.package.empty() && access((root + "/var/lib/dpkg/info").c_str(), F_OK) == 0;
  ways.can_be_fetched = !object.build_id.empty() && !own_build;
  return ways;
}

}  // namespace

std::string PackageOfFile(std::string_view path, const std::string& root) {
  // Where /lib is /usr/lib, packages may still name either.
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
  return "https://debuginfod.elfutils.org";  // asks those of the distributions
}

std::string HowToName(const UnnamedCode& code, const std::vector<std::string>& files, const std::string& root) {
  if (code.objects.empty()) return "";
  std::vector<std::string> names, packages, own;
  bool is_here = false, can_be_fetched = false;
  for (const UnnamedCode::Object& object : code.objects) {
    names.emplace_back(BaseName(object.path));
    const Ways ways = WaysTo(object, root);
    is_here = is_here || ways.is_here;
    can_be_fetched = can_be_fetched || ways.can_be_fetched;
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
  std::string command = "holdfast symbolize";
  if (!own.empty()) command += " --debug-dir DIR";
  for (const std::string& file : files) command += " " + (file == "-" ? std::string("FILE") : ShellQuoted(file));
  if (!own.empty()) command += fmt::format(", with the unstripped {} or its debug file in DIR", Listed(own));
  steps.push_back(command);
  return fmt::format("{:.0f}% lies in code without names, of {}. To name it: {}", 100 * code.share, Listed(names),
                     fmt::join(steps, "; then "));
}

}  // namespace holdfast
