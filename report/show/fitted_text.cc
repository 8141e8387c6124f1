#include "report/show/fitted_text.h"

#include <algorithm>
#include <cctype>

#include "fmt/format.h"
#include "report/base/utf8.h"

namespace holdfast {
namespace {

// Returns the start of each character, and the end.
std::vector<size_t> StartsOf(std::string_view text) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) starts.push_back(i);
  }
  starts.push_back(text.size());
  return starts;
}

// Returns "Table<…>::Get(…)": replaces the contents of each bracket of this kind that follows a name.
std::string WithoutLists(std::string_view text, char open) {
  std::string made;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool behind_name = i > 0 && (std::isalnum(static_cast<unsigned char>(text[i - 1])) || text[i - 1] == '_' ||
                                       text[i - 1] == '>' || text[i - 1] == '}' || text[i - 1] == '~');
    if (c == open && (depth > 0 || (behind_name && !made.ends_with("operator")))) {
      if (depth++ == 0) made += open == '<' ? "<…" : text.substr(i + 1).starts_with(")") ? "(" : "(…";
    }
    if (c == (open == '<' ? '>' : ')') && depth > 0 && text[i - 1] != '-') --depth;
    if (depth == 0) made += c;
  }
  return depth == 0 ? made : std::string(text);
}

// For "app::Table<…>::Get(…)", returns the position of "Get(…)": after the first :: outside brackets. Returns npos if
// there is none.
size_t AfterQualifier(std::string_view name) {
  int depth = 0;
  for (size_t i = 0; i + 1 < name.size(); ++i) {
    if (name[i] == '<' || name[i] == '(') ++depth;
    if ((name[i] == '>' || name[i] == ')') && depth > 0) --depth;
    if (depth == 0 && name[i] == ':' && name[i + 1] == ':') return i + 2;
  }
  return std::string_view::npos;
}

}  // namespace

std::string CutTo(std::string_view text, size_t width) {
  if (width == 0 || WidthOf(text) <= width) return std::string(text);
  size_t end = 0;
  for (size_t characters = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 && ++characters == width) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string ShortenedTo(std::string_view text, size_t width) {
  if (width == 0 || WidthOf(text) <= width) return std::string(text);
  // A name matters more than the object after it.
  constexpr std::string_view kSomeObject = "  (…)";
  if (const size_t object = text.rfind("  ("); object != std::string_view::npos && text.ends_with(')')) {
    if (WidthOf(text.substr(0, object)) + WidthOf(kSomeObject) <= width) {
      return fmt::format("{}{}", text.substr(0, object), kSomeObject);
    }
    return ShortenedTo(text.substr(0, object), width);
  }
  // A function's name matters more than its parameters.
  const std::string no_arguments = WithoutLists(text, '('), no_templates = WithoutLists(no_arguments, '<');
  if (WidthOf(no_arguments) <= width) return no_arguments;
  if (WidthOf(no_templates) <= width) return no_templates;
  // If both do not fit, the function's own name matters more than its namespaces.
  std::string_view own = no_templates;
  while (AfterQualifier(own) != std::string_view::npos) own.remove_prefix(AfterQualifier(own));
  const size_t tail = (width - 1) / 2, head = width - 1 - tail;
  for (std::string_view rest = no_templates; WidthOf(own) > tail && rest.size() > own.size();) {
    rest.remove_prefix(AfterQualifier(rest));
    if (WidthOf(rest) + 3 <= width) return fmt::format("…::{}", rest);
  }
  const std::string_view bare = own.substr(0, std::min({own.find("<…"), own.find("(…"), own.size()}));
  if (WidthOf(own) > tail && !bare.empty() && bare.size() < own.size()) {
    if (own.size() < no_templates.size() && WidthOf(bare) + 3 <= width) return fmt::format("…::{}", bare);
    if (own.size() == no_templates.size() && WidthOf(bare) + 1 <= width) return fmt::format("{}…", bare);
  }
  text = no_templates;
  const std::vector<size_t> starts = StartsOf(text);
  std::string_view before = text.substr(0, starts[head]);
  std::string_view after = tail == 0 ? std::string_view() : text.substr(starts[starts.size() - 1 - tail]);
  // One ellipsis suffices for the cut and for a shortened list beside it.
  constexpr std::string_view kEllipsis = "…";
  if (before.ends_with(kEllipsis)) before.remove_suffix(kEllipsis.size());
  if (after.starts_with(kEllipsis)) after.remove_prefix(kEllipsis.size());
  return fmt::format("{}{}{}", before, kEllipsis, after);
}

size_t HangingIndent(std::string_view line) {
  constexpr size_t kKeys = 9;
  if (line.size() > kKeys && line[0] != ' ' && line[kKeys - 1] == ' ' && line[kKeys] != ' ') return kKeys;
  const size_t first = std::min(line.find_first_not_of(' '), line.size());
  return first + 2;
}

std::vector<std::string> Wrapped(std::string_view text, size_t width, size_t indent) {
  if (width == 0 || WidthOf(text) <= width) return {std::string(text)};
  indent = std::min(indent, width / 2);
  std::vector<std::string> lines;
  std::string lead;
  while (!text.empty()) {
    const size_t room = width - lead.size();
    const std::vector<size_t> starts = StartsOf(text);
    size_t end = text.size(), next = text.size();
    if (starts.size() - 1 > room) {
      // Break at the last blank that fits, except for blanks at the beginning of the text.
      const size_t most = starts[room];
      const size_t blank = text.rfind(' ', most), begin = text.find_first_not_of(' ');
      end = next = most;
      if (blank != std::string_view::npos && blank > begin) {
        end = std::min(text.find_last_not_of(' ', blank) + 1, blank);
        next = std::min(text.find_first_not_of(' ', blank), text.size());
      }
    }
    lines.push_back(fmt::format("{}{}", lead, text.substr(0, end)));
    text.remove_prefix(next);
    lead.assign(indent, ' ');
  }
  return lines;
}

std::string WrappedLines(std::string_view text, size_t width) {
  std::string made;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    for (const std::string& piece : Wrapped(line, width, HangingIndent(line))) made += piece + "\n";
    if (end == std::string_view::npos) {
      made.pop_back();
      break;
    }
    text.remove_prefix(end + 1);
  }
  return made;
}

namespace {

// `begin`: the column in which the description of the line's first words begins. In a line with one column, `begin` is
// the start of that column and `words` is 0.
struct ColumnRange {
  size_t words, text;
};
ColumnRange ColumnsOf(std::string_view line) {
  const size_t first = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.find("  ", first);
  if (gap == std::string_view::npos) return {0, first};
  return {gap, std::min(line.find_first_not_of(' ', gap), line.size())};
}

}  // namespace

std::string FittedHelp(std::string_view text, size_t width) {
  if (width == 0) return std::string(text);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) == text.npos ? text.size() : text.find('\n', at) + 1)
    lines.emplace_back(text.substr(at, text.find('\n', at) - at));
  std::string made;
  for (size_t i = 0, next; i < lines.size(); i = next) {
    const ColumnRange columns = ColumnsOf(lines[i]);
    std::string whole = lines[i];
    bool fits = WidthOf(whole) <= width;
    for (next = i + 1; next < lines.size(); ++next) {
      const ColumnRange below = ColumnsOf(lines[next]);
      const bool begins = lines[next].empty() || lines[next].starts_with("Usage: ") || lines[next].starts_with("Exit ");
      if (whole.empty() || begins || below.words != 0 || below.text != columns.text) break;
      fits = fits && WidthOf(lines[next]) <= width;
      whole += " " + lines[next].substr(below.text);
    }
    if (fits) {
      for (size_t line = i; line < next; ++line) made += lines[line] + "\n";
      continue;
    }
    constexpr size_t kBelow = 6;
    size_t indent = columns.text;
    if (indent > width / 2) {
      if (columns.words != 0) {
        for (const std::string& piece : Wrapped(whole.substr(0, columns.words), width, kBelow)) made += piece + "\n";
      }
      whole = std::string(kBelow, ' ') + whole.substr(indent);
      indent = kBelow;
    }
    for (const std::string& piece : Wrapped(whole, width, indent)) made += piece + "\n";
  }
  return made;
}

}  // namespace holdfast
