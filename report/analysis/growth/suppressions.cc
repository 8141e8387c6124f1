#include "report/analysis/growth/suppressions.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "fmt/format.h"

namespace holdfast {
namespace {

// Matches a pattern: `*` matches any text; without ^ and $ the pattern may match anywhere.
bool MatchesTemplate(std::string_view pattern, std::string_view text) {
  const bool from_start = pattern.starts_with('^'), to_end = pattern.ends_with('$');
  if (from_start) pattern.remove_prefix(1);
  if (to_end && !pattern.empty()) pattern.remove_suffix(1);
  bool anchored = from_start;
  while (true) {
    const size_t star = pattern.find('*');
    const std::string_view part = pattern.substr(0, star);
    if (star == std::string_view::npos) {
      if (to_end) return anchored ? text == part : text.ends_with(part);
      return anchored ? text.starts_with(part) : text.find(part) != std::string_view::npos;
    }
    const size_t at = anchored ? (text.starts_with(part) ? 0 : std::string_view::npos) : text.find(part);
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at + part.size());
    pattern.remove_prefix(star + 1);
    anchored = false;
  }
}

}  // namespace

absl::Status Suppressions::AddFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return absl::InvalidArgumentError(fmt::format("--suppressions {}: cannot be read. Check the path.", path));
  return AddText(text.str(), path);
}

absl::Status Suppressions::AddText(std::string_view text, std::string_view name) {
  std::istringstream lines{std::string(text)};
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.erase(0, line.find_first_not_of(" \t\r"));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r' || line.back() == '\t')) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 1 == line.size()) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: \"{}\" is not a suppression. Write leak:PATTERN.", name, number, line));
    }
    if (line.substr(0, colon) == "leak") patterns_.push_back(line.substr(colon + 1));
  }
  return absl::OkStatus();
}

bool Suppressions::Matches(std::string_view name) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const std::string& p) { return MatchesTemplate(p, name); });
}

}  // namespace holdfast
