#include "report/show/text_table.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/utf8.h"
#include "report/base/visible_directions.h"
#include "report/show/fitted_text.h"
#include "report/show/pager.h"

namespace holdfast {
namespace {

constexpr char kHot[] = "\x1b[1;31m", kWarm[] = "\x1b[33m", kCold[] = "\x1b[2m", kBold[] = "\x1b[1m",
               kPlain[] = "\x1b[0m";

class TextPrinter {
 public:
  TextPrinter(const TextTable& table, const Style& style, std::ostream& out) : table_(table), style_(style), out_(out) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      size_t width = std::max(table.columns[c].min_width, WidthOf(table.columns[c].title));
      for (const TableRow& row : table.rows) {
        if (!row.is_heading)
          width = std::max(width, 2 * (c == Indented() ? row.indent : 0) + WidthOf(row.cells[c].shown));
      }
      widths_.push_back(width);
    }
    Shrink();
  }

  void Print() {
    for (const HeaderLine& header : table_.header) {
      const std::string line = Printable(WithVisibleDirections(header.text));
      const char* color = header.tone == HeaderLine::kAnswer ? kBold : header.tone == HeaderLine::kWarning ? kWarm : "";
      for (const std::string& piece : Wrapped(line, style_.width, HangingIndent(line))) Put(piece, color);
    }
    const auto has_title = [](const Column& column) { return !column.title.empty(); };
    if (std::any_of(table_.columns.begin(), table_.columns.end(), has_title)) PutTitles();
    for (const TableRow& row : table_.rows) {
      const char* color = row.heat >= 0.1 ? kHot : row.heat >= 0.01 ? kWarm : row.heat < 0.001 ? kCold : "";
      if (row.is_heading) {
        for (const std::string& piece :
             Wrapped(Printable(WithVisibleDirections(row.cells.back().shown)), style_.width, 4))
          Put(piece, color);
        continue;
      }
      for (const std::string& line : Lines([&](size_t c) { return row.cells[c].shown; }, row.indent)) Put(line, color);
      for (size_t i = 0; style_.details && i < row.details.size(); ++i) {
        Put("    " + Printable(WithVisibleDirections(row.details[i])), "");  // whole, so that it can be copied
      }
    }
  }

 private:
  static constexpr size_t kNarrowest = 6;        // for a column that shrinks
  static constexpr size_t kNarrowestStack = 30;  // for a wrapped column; if narrower, it goes below the others

  bool IsShown(const Column& column) const {
    return !column.title.empty() && (style_.width == 0 || style_.width >= column.needs_width);
  }
  size_t Indented() const {  // the column that shows a row's indent
    const auto at =
        std::find_if(table_.columns.begin(), table_.columns.end(), [](const Column& c) { return c.shrinks; });
    return static_cast<size_t>(at - table_.columns.begin());
  }
  void Put(const std::string& text, const char* color) {
    out_ << (style_.color && color[0] != 0 ? color + text + kPlain : text) << "\n";
  }

  // Divides the rest of the line equally among the columns that shrink or wrap. No column gets more than its text
  // needs.
  void Shrink() {
    size_t whole = 0;
    std::vector<size_t> shrinking;
    for (size_t c = 0; c < widths_.size(); ++c) {
      const Column& column = table_.columns[c];
      if (!IsShown(column)) continue;
      whole += widths_[c] + (whole == 0 ? 0 : column.gap);
      if (column.shrinks || column.wraps) shrinking.push_back(c);
    }
    if (style_.width == 0 || whole <= style_.width || shrinking.empty()) return;
    for (const size_t c : shrinking) whole -= widths_[c];
    size_t room = style_.width > whole ? style_.width - whole : 0;
    std::sort(shrinking.begin(), shrinking.end(), [&](size_t a, size_t b) { return widths_[a] < widths_[b]; });
    for (size_t i = 0; i < shrinking.size(); ++i) {
      size_t& width = widths_[shrinking[i]];
      width = std::min(width, std::max(kNarrowest, room / (shrinking.size() - i)));
      room -= std::min(room, width);
    }
  }

  void PutTitles() {
    std::string titles = Lines([&](size_t c) { return table_.columns[c].title; }, 0)[0];
    const bool leaves_out = std::any_of(table_.columns.begin(), table_.columns.end(), [&](const Column& column) {
      return !column.title.empty() && !IsShown(column);
    });
    if (leaves_out && !table_.has_details && WidthOf(titles) + 2 <= style_.width) titles += " …";
    Put(titles, kBold);
  }

  // Indents a frame of a deep tree. If the column is too narrow for the indent, writes the depth as a number instead.
  std::string Indent(const std::string& text, size_t indent, size_t width) const {
    if (style_.width == 0 || 2 * indent + std::min(WidthOf(text), width / 2) <= width) {
      return std::string(2 * indent, ' ') + ShortenedTo(text, style_.width == 0 ? 0 : width - 2 * indent);
    }
    std::string depth = fmt::format("{}: ", indent);
    const size_t blanks = width / 2 > depth.size() ? width / 2 - depth.size() : 0;
    depth.insert(0, blanks, ' ');
    return depth + ShortenedTo(text, width > depth.size() ? width - depth.size() : 1);
  }

  template <typename TextOf>
  std::vector<std::string> Lines(const TextOf& text_of, size_t indent) const {
    std::string made;
    std::vector<std::string> below;  // lines of a wrapped column
    bool first = true;
    for (size_t c = 0; c < table_.columns.size(); ++c) {
      const Column& column = table_.columns[c];
      if (!IsShown(column)) continue;
      std::string text = Printable(WithVisibleDirections(text_of(c)));
      if (column.wraps && style_.width != 0 && WidthOf(text) > widths_[c]) {
        const bool fits = widths_[c] >= kNarrowestStack;
        const size_t lead = fits ? WidthOf(made) + column.gap : 4;
        below = WrappedStack(text, style_.width - std::min(lead, style_.width - 1));
        for (std::string& line : below) line.insert(0, lead, ' ');
        text.clear();
        if (fits) {
          text = below[0].substr(lead);
          below.erase(below.begin());
        }
      }
      if (column.shrinks) text = Indent(text, c == Indented() ? indent : 0, widths_[c]);
      const std::string blanks(widths_[c] - std::min(widths_[c], WidthOf(text)), ' ');
      if (!std::exchange(first, false)) made.append(column.gap, ' ');
      made += column.align == Column::kRight ? blanks + text : text + blanks;
    }
    made.resize(made.find_last_not_of(' ') + 1);
    below.insert(below.begin(), CutTo(made, style_.width));
    return below;
  }

  // Breaks "a ← b ← c" into lines of whole functions.
  static std::vector<std::string> WrappedStack(std::string_view text, size_t width) {
    constexpr std::string_view kArrow = " ← ";
    std::vector<std::string> lines;
    while (!text.empty()) {
      const size_t end = std::min(text.find(kArrow), text.size());
      const std::string_view arrow = lines.empty() ? "" : "← ";
      const std::string function =
          fmt::format("{}{}", arrow, ShortenedTo(text.substr(0, end), width - std::min(width - 1, WidthOf(arrow))));
      if (lines.empty() || WidthOf(lines.back()) + 1 + WidthOf(function) > width) {
        lines.push_back(function);
      } else {
        lines.back() += " " + function;
      }
      text.remove_prefix(std::min(end + kArrow.size(), text.size()));
    }
    return lines;
  }

  const TextTable& table_;
  const Style& style_;
  std::ostream& out_;
  std::vector<size_t> widths_;
};

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
      if (cell.kind == Cell::kReal && !std::isfinite(cell.real))
        return std::string();  // unknown: an empty field in CSV
      return cell.kind == Cell::kText ? CsvField(cell.text) : JsonValue(cell);
    });
  }
}

}  // namespace

absl::StatusOr<Format> ParseFormat(std::string_view text) {
  if (text == "table" || text == "text") return Format::kTable;
  if (text == "json") return Format::kJson;
  if (text == "csv") return Format::kCsv;
  return absl::InvalidArgumentError(fmt::format("--format {}: no such format. Use table, json or csv.", text));
}

absl::StatusOr<Style> StyleFor(std::string_view format, std::string_view color, std::optional<size_t> width) {
  const auto parsed = ParseFormat(format);
  if (!parsed.ok()) return parsed.status();
  if (color != "auto" && color != "always" && color != "never") {
    return absl::InvalidArgumentError(fmt::format("--color {}: unknown value. Use auto, always or never.", color));
  }
  Style style{.format = *parsed};
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  const char* no_color = std::getenv("NO_COLOR");
  style.color = color == "always" || (color == "auto" && terminal && (no_color == nullptr || no_color[0] == 0));
  style.width = width.value_or(ScreenWidth());
  return style;
}

void Print(const TextTable& table, const Style& style, std::ostream& out) {
  switch (style.format) {
    case Format::kTable:
      return TextPrinter(table, style, out).Print();
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
