#include "report/analysis/calls_text.h"

#include <algorithm>

#include "fmt/format.h"
#include "report/base/utf8.h"
#include "report/profiles/frame_origin.h"

namespace holdfast {
namespace {

constexpr size_t kMostCalls = 3;

}  // namespace

std::string CallsText(const Profile& profile, const std::vector<uint32_t>& stack) {
  std::vector<std::string> calls;
  std::string innermost;
  for (const uint32_t frame : stack) {
    const Profile::Location& location = profile.locations[frame];
    const std::string_view object = location.mapping == Profile::kNone
                                        ? std::string_view()
                                        : profile.strings[profile.mappings[location.mapping].file];
    for (const Profile::Line& line : profile.LinesOf(location)) {
      if (line.function == Profile::kNone) continue;
      const std::string_view name = profile.strings[profile.functions[line.function].name];
      if (innermost.empty()) innermost = NameAlone(name);
      // "<std::sync::Mutex<T> as Trait>::lock" is std's as well.
      if (IsSystemFrame(name, object) || IsSystemFrame(name.substr(name.starts_with('<') ? 1 : 0), object) ||
          name.starts_with('[') || calls.size() == kMostCalls)
        continue;
      std::string short_name = NameAlone(name);
      if (calls.empty() || calls.back() != short_name) calls.push_back(std::move(short_name));
    }
  }
  if (calls.empty()) return innermost;
  std::string text = calls[0];
  for (size_t i = 1; i < calls.size(); ++i) text += " ← " + calls[i];
  return text;
}

std::string NameAlone(std::string_view function) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  // Rust's "<stuck::Server as core::ops::Drop>::drop": stuck::Server::drop.
  if (const size_t end = function.rfind(">::"); function.starts_with('<') && end != std::string_view::npos) {
    return fmt::format("{}{}", NameAlone(function.substr(1, std::min(function.find(" as "), end) - 1)),
                       function.substr(end + 1));
  }
  std::string name;
  int angles = 0, braces = 0;
  for (size_t i = 0; i < function.size(); ++i) {
    if (function.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
      continue;
    }
    const char c = function[i];
    const bool is_operator = name.ends_with("operator") || name.ends_with("operator<") || name.ends_with("operator-") ||
                             name.ends_with("operator>") || name.ends_with("operator(");
    if (is_operator && c != ' ') {
      name += c;
      continue;
    }
    if (c == '{') ++braces;
    if (c == '<' && braces == 0) ++angles;
    if (angles == 0) {
      if (c == '(' && braces == 0) break;
      if (c == ' ' && braces == 0 && !name.ends_with("operator")) {
        name.clear();  // that was the type of what it returns
      } else {
        name += c;
      }
    }
    if (c == '}') --braces;
    if (c == '>' && braces == 0 && angles > 0) --angles;
  }
  return name.empty() ? std::string(function) : name;
}

std::string ForHowLong(int64_t ns) {
  constexpr int64_t kMs = 1'000'000, kSecond = 1'000 * kMs, kMinute = 60 * kSecond, kHour = 60 * kMinute;
  if (ns < kMs) return fmt::format("{} µs", ns / 1000);
  if (ns < kSecond) return fmt::format("{} ms", ns / kMs);
  if (ns < kMinute) return fmt::format("{:.1f} s", static_cast<double>(ns / (kSecond / 10)) / 10);
  if (ns < kHour) return fmt::format("{} min {} s", ns / kMinute, ns % kMinute / kSecond);
  return fmt::format("{} h {} min", ns / kHour, ns % kHour / kMinute);
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
