#include "report/analysis/locks/calls_text.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/utf8.h"

namespace holdfast {
namespace {

constexpr size_t kFewCalls = 3, kInnerCalls = 10, kOuterCalls = 6;
constexpr std::string_view kArrow = " ← ";

std::vector<std::string> CallsOf(const Profile& profile, const std::vector<uint32_t>& stack, Plumbing* plumbing) {
  std::vector<std::string> calls, nameless;
  std::string innermost;
  for (const uint32_t frame : stack) {
    const Profile::Location& location = profile.locations[frame];
    for (const Profile::Line& line : profile.LinesOf(location)) {
      if (line.function == Profile::kNone) continue;
      const std::string_view name = profile.strings[profile.functions[line.function].name];
      if (innermost.empty()) innermost = ShortName(name);
      const bool is_plumbing = plumbing != nullptr && plumbing->Holds(line.function, location.mapping);
      if (is_plumbing || name.starts_with('[')) continue;
      std::vector<std::string>& to = plumbing != nullptr && IsNameless(name) && !calls.empty() ? nameless : calls;
      std::string short_name = ShortName(name);
      if (to.empty() || to.back() != short_name) to.push_back(std::move(short_name));
    }
  }
  if (calls.empty()) return {innermost};
  if (calls.size() == 1 && IsNameless(calls[0])) calls.insert(calls.end(), nameless.begin(), nameless.end());
  return calls;
}

std::string JoinedCalls(const std::vector<std::string>& calls) { return fmt::format("{}", fmt::join(calls, kArrow)); }

}  // namespace

std::vector<std::string> FewCalls(const Profile& profile, const std::vector<uint32_t>& stack, Plumbing* plumbing) {
  std::vector<std::string> calls = CallsOf(profile, stack, plumbing);
  if (calls.size() > kFewCalls) calls.resize(kFewCalls);
  return calls;
}

std::string CallsText(const Profile& profile, const std::vector<uint32_t>& stack, Plumbing* plumbing) {
  return JoinedCalls(FewCalls(profile, stack, plumbing));
}

std::string WayText(const Profile& profile, const std::vector<uint32_t>& stack, Plumbing* plumbing) {
  std::vector<std::string> calls = CallsOf(profile, stack, plumbing);
  if (calls.size() > kInnerCalls + kOuterCalls) {
    calls[kInnerCalls] = "…";
    calls.erase(calls.begin() + kInnerCalls + 1, calls.end() - kOuterCalls);
  }
  return JoinedCalls(calls);
}

std::string WrappedCalls(std::string_view calls, std::string_view indent, size_t width) {
  std::string text, line(indent);
  bool first = true;
  while (!calls.empty()) {
    const size_t end = std::min(calls.find(kArrow), calls.size());
    const std::string call =
        first ? std::string(calls.substr(0, end)) : fmt::format("{}{}", kArrow, calls.substr(0, end));
    if (!first && WidthOf(line) + WidthOf(call) > width) {
      text += line + "\n";
      line = fmt::format("{} {}", indent, call);
    } else {
      line += call;
    }
    first = false;
    calls.remove_prefix(std::min(end + kArrow.size(), calls.size()));
  }
  return first ? "" : text + line + "\n";
}

std::string Aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      line += " " + row[i];
      line += std::string(widths[i] - WidthOf(row[i]), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace holdfast
