#include "report/names/symbolize/symbolize_options.h"

#include <filesystem>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/base/base_name.h"

namespace holdfast {
namespace {

using Reasons = std::vector<std::pair<std::string, std::string>>;

// Groups files with the same reason.
std::string List(const Reasons& reasons) {
  constexpr size_t kMax = 8;
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const auto& [path, why] : reasons) {
    const std::string& reason = why;  // A lambda cannot capture a structured binding in clang 14
    auto place =
        std::find_if(by_reason.begin(), by_reason.end(), [&](const auto& entry) { return entry.first == reason; });
    if (place == by_reason.end()) place = by_reason.insert(place, {why, {}});
    place->second.emplace_back(BaseName(path));
  }
  std::string text;
  for (auto& [why, files] : by_reason) {
    const size_t more = files.size() > kMax ? files.size() - kMax : 0;
    files.resize(files.size() - more);
    text += fmt::format("{}{}{} ({})", text.empty() ? "" : "; ", fmt::join(files, ", "),
                        more > 0 ? fmt::format(" and {} more", more) : "", why);
  }
  return text;
}

}  // namespace

void AddDebugDirOption(CLI::App* command, std::vector<std::string>* debug_dirs) {
  command
      ->add_option("--debug-dir", *debug_dirs,
                   "Also search DIR for the program's files and debug files, by build id (before\n"
                   "/usr/lib/debug)")
      ->type_name("DIR")
      ->check([](const std::string& path) {
        std::error_code error;
        if (std::filesystem::is_directory(path, error)) return std::string();
        return "\"" + path + "\" is not a folder" + (error ? " (" + error.message() + ")" : "");
      });
}

DebugFileFinder::Options DebugFileOptions(const std::vector<std::string>& debug_dirs) {
  DebugFileFinder::Options options;
  std::vector<std::string> roots;
  for (const std::string& dir : debug_dirs) {
    roots.push_back(std::filesystem::absolute(dir).lexically_normal().string());
    while (roots.back().size() > 1 && roots.back().ends_with('/')) roots.back().pop_back();
  }
  options.searched = roots;
  options.roots.insert(options.roots.begin(), roots.begin(), roots.end());
  options.debuginfod = true;
  return options;
}

std::string SummaryOf(const SymbolizeReport& report) {
  std::string text =
      fmt::format("{} of {} addresses named, {} with lines", report.named, report.locations, report.with_lines);
  if (!report.no_names.empty()) text += fmt::format("; no names: {}", List(report.no_names));
  if (!report.no_lines.empty()) text += fmt::format("; no lines: {}", List(report.no_lines));
  return text;
}

}  // namespace holdfast
