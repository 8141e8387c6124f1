#include "report/views/text_table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/utf8.h"

namespace holdfast {
namespace {

constexpr char kHot[] = "\x1b[1;31m", kWarm[] = "\x1b[33m", kCold[] = "\x1b[2m", kBold[] = "\x1b[1m",
               kPlain[] = "\x1b[0m";

std::string CutTo(std::string_view text, size_t width) {
  if (width == 0 || WidthOf(text) <= width) return std::string(text);
  size_t end = 0;
  for (size_t characters = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 && ++characters == width) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

// Gives the columns that shrink what the others leave of the line: each as much, but no more than it has.
template <typename IsShown>
void Shrink(const TextTable& table, const Style& style, IsShown is_shown, std::vector<size_t>* widths) {
  constexpr size_t kNarrowest = 6;
  size_t whole = 0;
  std::vector<size_t> shrinking;
  for (size_t c = 0; c < widths->size(); ++c) {
    if (!is_shown(table.columns[c])) continue;
    whole += (*widths)[c] + (whole == 0 ? 0 : table.columns[c].gap);
    if (table.columns[c].shrinks) shrinking.push_back(c);
  }
  if (style.width == 0 || whole <= style.width || shrinking.empty()) return;
  size_t room = style.width;
  for (const size_t c : shrinking) whole -= (*widths)[c];
  room = room > whole ? room - whole : 0;
  std::sort(shrinking.begin(), shrinking.end(), [&](size_t a, size_t b) { return (*widths)[a] < (*widths)[b]; });
  for (size_t i = 0; i < shrinking.size(); ++i) {
    size_t& width = (*widths)[shrinking[i]];
    width = std::min(width, std::max(kNarrowest, room / (shrinking.size() - i)));
    room -= std::min(room, width);
  }
}

void PrintText(const TextTable& table, const Style& style, std::ostream& out) {
  for (const std::string& line : table.header) out << CutTo(Printable(line), style.width) << "\n";
  std::vector<size_t> widths;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t width = std::max(table.columns[c].min_width, WidthOf(table.columns[c].title));
    for (const TableRow& row : table.rows) width = std::max(width, WidthOf(row.cells[c].shown));
    widths.push_back(width);
  }
  const auto is_shown = [&](const Column& column) {
    return !column.title.empty() && (style.width == 0 || style.width >= column.needs_width);
  };
  Shrink(table, style, is_shown, &widths);
  const auto line = [&](const auto& text_of) {
    std::string made;
    bool first = true;
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const Column& column = table.columns[c];
      if (!is_shown(column)) continue;
      const std::string text = ShortenedTo(Printable(text_of(c)), column.shrinks ? widths[c] : 0);
      const std::string blanks(widths[c] - std::min(widths[c], WidthOf(text)), ' ');
      if (!std::exchange(first, false)) made.append(column.gap, ' ');
      made += column.align == Column::kRight ? blanks + text : text + blanks;
    }
    made.resize(made.find_last_not_of(' ') + 1);
    return CutTo(made, style.width);
  };
  const auto painted = [&](const std::string& text, const char* color) {
    return style.color && color[0] != 0 ? color + text + kPlain : text;
  };
  if (std::any_of(table.columns.begin(), table.columns.end(),
                  [](const auto& column) { return !column.title.empty(); }) &&
      !table.columns.empty()) {
    out << painted(line([&](size_t c) { return table.columns[c].title; }), kBold) << "\n";
  }
  for (const TableRow& row : table.rows) {
    const char* color = row.heat >= 0.1 ? kHot : row.heat >= 0.01 ? kWarm : row.heat < 0.001 ? kCold : "";
    out << painted(line([&](size_t c) { return row.cells[c].shown; }), color) << "\n";
    for (size_t i = 0; style.details && i < row.details.size(); ++i) out << "    " << Printable(row.details[i]) << "\n";
  }
}

std::string JsonValue(const Cell& cell) {
  if (cell.kind == Cell::kInteger) return fmt::format("{}", cell.integer);
  return cell.kind == Cell::kReal ? JsonNumber(cell.real) : JsonString(cell.text);
}

void PrintJson(const TextTable& table, std::ostream& out) {
  out << "{\n";
  for (const auto& [key, value] : table.members) out << fmt::format("  {}: {},\n", JsonString(key), value);
  out << "  \"rows\": [";
  for (size_t i = 0; i < table.rows.size(); ++i) {
    out << (i == 0 ? "\n    {" : ",\n    {");
    bool first = true;
    for (size_t c = 0; c < table.columns.size(); ++c) {
      if (table.columns[c].key.empty()) continue;
      out << (std::exchange(first, false) ? "" : ", ") << JsonString(table.columns[c].key) << ": "
          << JsonValue(table.rows[i].cells[c]);
    }
    out << "}";
  }
  out << (table.rows.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

void PrintCsv(const TextTable& table, std::ostream& out) {
  const auto line = [&](const auto& text_of) {
    bool first = true;
    for (size_t c = 0; c < table.columns.size(); ++c) {
      if (table.columns[c].key.empty()) continue;
      out << (std::exchange(first, false) ? "" : ",") << text_of(c);
    }
    out << "\n";
  };
  line([&](size_t c) { return table.columns[c].key; });
  for (const TableRow& row : table.rows) {
    line([&](size_t c) {
      const Cell& cell = row.cells[c];
      return cell.kind == Cell::kText ? CsvField(cell.text) : JsonValue(cell);
    });
  }
}

// "Table<…>::Get(…)": without what stands in brackets of this kind behind a name.
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

}  // namespace

std::string ShortenedTo(std::string_view text, size_t width) {
  if (width == 0 || WidthOf(text) <= width) return std::string(text);
  // What a function is called says more than what it takes.
  const std::string no_arguments = WithoutLists(text, '('), no_templates = WithoutLists(no_arguments, '<');
  if (WidthOf(no_arguments) <= width) return no_arguments;
  if (WidthOf(no_templates) <= width) return no_templates;
  text = no_templates;
  std::vector<size_t> starts;  // of characters
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) starts.push_back(i);
  }
  const size_t tail = (width - 1) / 2, head = width - 1 - tail;
  return fmt::format("{}…{}", text.substr(0, starts[head]),
                     tail == 0 ? std::string_view() : text.substr(starts[starts.size() - tail]));
}

absl::StatusOr<Format> ParseFormat(std::string_view text) {
  if (text == "table" || text == "text") return Format::kTable;
  if (text == "json") return Format::kJson;
  if (text == "csv") return Format::kCsv;
  return absl::InvalidArgumentError(fmt::format("--format {}: no such format. Take table, json or csv.", text));
}

absl::StatusOr<Style> StyleFor(std::string_view format, std::string_view color) {
  const auto parsed = ParseFormat(format);
  if (!parsed.ok()) return parsed.status();
  if (color != "auto" && color != "always" && color != "never") {
    return absl::InvalidArgumentError(fmt::format("--color {}: not known. Take auto, always or never.", color));
  }
  Style style{.format = *parsed};
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  const char* no_color = std::getenv("NO_COLOR");
  style.color = color == "always" || (color == "auto" && terminal && (no_color == nullptr || no_color[0] == 0));
  winsize size{};
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) style.width = size.ws_col;
  return style;
}

void Print(const TextTable& table, const Style& style, std::ostream& out) {
  switch (style.format) {
    case Format::kTable:
      return PrintText(table, style, out);
    case Format::kJson:
      return PrintJson(table, out);
    case Format::kCsv:
      return PrintCsv(table, out);
  }
}

std::string JsonString(std::string_view text) {
  std::string valid;
  if (ValidUtf8Prefix(text) != text.size()) text = valid = RepairUtf8(text);
  std::string made = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      made += '\\';
      made += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      made += fmt::format("\\u{:04x}", byte);
    } else {
      made += c;
    }
  }
  return made + "\"";
}

std::string JsonNumber(double number) { return std::isfinite(number) ? fmt::format("{}", number) : "null"; }

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"') made += '"';
    made += c;
  }
  return made + "\"";
}

}  // namespace holdfast
