#include "report/views/text_table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/utf8.h"

namespace holdfast {
namespace {

constexpr char kHot[] = "\x1b[1;31m", kWarm[] = "\x1b[33m", kCold[] = "\x1b[2m", kBold[] = "\x1b[1m",
               kPlain[] = "\x1b[0m";

// Characters, not bytes.
size_t WidthOf(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string CutTo(std::string_view text, size_t width) {
  if (width == 0 || WidthOf(text) <= width) return std::string(text);
  size_t end = 0;
  for (size_t characters = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 && ++characters == width) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

void PrintText(const TextTable& table, const Style& style, std::ostream& out) {
  for (const std::string& line : table.header) out << CutTo(Printable(line), style.width) << "\n";
  std::vector<size_t> widths;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t width = std::max(table.columns[c].min_width, WidthOf(table.columns[c].title));
    for (const TableRow& row : table.rows) width = std::max(width, WidthOf(row.cells[c].shown));
    widths.push_back(width);
  }
  const auto line = [&](const auto& text_of) {
    std::string made;
    bool first = true;
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const Column& column = table.columns[c];
      if (column.title.empty()) continue;
      const std::string text = Printable(text_of(c));
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

}  // namespace

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
