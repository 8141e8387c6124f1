#include "report/analysis/growth/suppressions.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

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

// Matches the whole text: `*` matches any text, `?` any character.
bool MatchesGlob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// Whether a pattern may be for the allocation function itself, which our stacks do not contain.
bool MayBeAllocation(std::string_view pattern) {
  constexpr std::string_view kNames[] = {"malloc",   "calloc",        "realloc",        "reallocarray",
                                         "memalign", "aligned_alloc", "posix_memalign", "valloc",
                                         "pvalloc",  "_Znwm",         "_Znam"};
  return pattern.starts_with("_Znw") || pattern.starts_with("_Zna") || pattern.starts_with("operator new") ||
         std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view name) { return MatchesGlob(pattern, name); });
}

std::string WithoutBlanks(std::string line) {
  line.erase(0, line.find_first_not_of(" \t\r"));
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r' || line.back() == '\t')) line.pop_back();
  return line;
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
  size_t number = 0, first = 0;
  std::vector<std::string> block;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = WithoutBlanks(std::move(line));
    if (line.empty() || line[0] == '#') continue;
    if (first == 0 && line == "{") {
      first = number;
      block.clear();
      continue;
    }
    if (first != 0) {
      if (line != "}") {
        block.push_back(line);
        continue;
      }
      if (const auto added = AddBlock(block, fmt::format("{}:{}", name, first)); !added.ok()) return added;
      first = 0;
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 1 == line.size()) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: \"{}\" is not a suppression. Write leak:PATTERN.", name, number, line));
    }
    if (line.substr(0, colon) == "leak") patterns_.push_back(line.substr(colon + 1));
  }
  if (first != 0)
    return absl::InvalidArgumentError(fmt::format("{}:{}: the suppression has no closing }}. Add it.", name, first));
  return absl::OkStatus();
}

absl::Status Suppressions::AddBlock(std::span<const std::string> lines, std::string_view place) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}. Write a name, Memcheck:Leak, and a line fun:, obj: or ... for each call.", place, what));
  };
  if (lines.size() < 2) return wrong("the suppression has no kind");
  const std::string& kind = lines[1];
  const size_t colon = kind.find(':');
  if (colon == std::string::npos) return wrong(fmt::format("\"{}\" is not TOOL:KIND", kind));
  if (kind.find("Memcheck") > colon || kind.substr(colon + 1) != "Leak") return absl::OkStatus();
  StackPattern pattern;
  constexpr std::string_view kKinds = "match-leak-kinds:";
  for (const std::string& line : lines.subspan(2)) {
    if (line.starts_with(kKinds)) {
      const bool all = line.find("all") != std::string::npos;
      pattern.direct = all || line.find("definite") != std::string::npos;
      pattern.indirect = all || line.find("indirect") != std::string::npos;
    } else if (line == "...") {
      pattern.frames.push_back({Frame::Kind::kAny, ""});
    } else if (line.starts_with("fun:")) {
      pattern.frames.push_back({Frame::Kind::kFunction, line.substr(4)});
    } else if (line.starts_with("obj:")) {
      pattern.frames.push_back({Frame::Kind::kObject, line.substr(4)});
    } else {
      return wrong(fmt::format("\"{}\" describes no call", line));
    }
  }
  if (pattern.frames.empty()) return wrong("the suppression names no call");
  stacks_.push_back(std::move(pattern));
  return absl::OkStatus();
}

bool Suppressions::Matches(std::string_view name) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const std::string& p) { return MatchesTemplate(p, name); });
}

// Matches the innermost calls; the outer ones may be any. Greedy matching would be wrong: `...` may cover a call that
// the next pattern matches as well. The search is bounded, because neither side is long: frames × calls.
bool Suppressions::MatchesFrom(std::span<const Frame> frames, std::span<const SuppressibleCall> calls) {
  std::vector<bool> reached(calls.size() + 1, false);  // after the frames so far: how many calls they may have covered
  reached[0] = true;
  for (const Frame& frame : frames) {
    std::vector<bool> next(calls.size() + 1, false);
    for (size_t i = 0; i <= calls.size(); ++i) {
      if (!reached[i]) continue;
      if (frame.kind == Frame::Kind::kAny) {
        std::fill(next.begin() + static_cast<ptrdiff_t>(i), next.end(), true);
        break;
      }
      if (i == calls.size()) continue;
      const SuppressibleCall& call = calls[i];
      if (frame.kind == Frame::Kind::kObject
              ? MatchesGlob(frame.pattern, call.object)
              : MatchesGlob(frame.pattern, call.function) || MatchesGlob(frame.pattern, call.mangled))
        next[i + 1] = true;
    }
    reached = std::move(next);
  }
  return std::find(reached.begin(), reached.end(), true) != reached.end();
}

bool Suppressions::MatchesStack(std::span<const SuppressibleCall> calls, bool direct) const {
  for (const SuppressibleCall& call : calls) {
    if (Matches(call.function) || Matches(call.object)) return true;
  }
  return std::any_of(stacks_.begin(), stacks_.end(), [&](const StackPattern& pattern) {
    if (!(direct ? pattern.direct : pattern.indirect)) return false;
    const std::span<const Frame> frames(pattern.frames);
    const bool begins_with_allocation = frames[0].kind == Frame::Kind::kFunction && MayBeAllocation(frames[0].pattern);
    return MatchesFrom(frames, calls) || (begins_with_allocation && MatchesFrom(frames.subspan(1), calls));
  });
}

}  // namespace holdfast
