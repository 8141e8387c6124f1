// One table with three formats: aligned text, JSON, CSV. Every view fills one of these.
//
//   TextTable table;
//   table.columns = {{"function", "function", Column::kLeft}, {"self", "self", Column::kRight}};
//   table.rows.push_back({{Cell::Text("main"), Cell::Number("1.5MiB", 1572864)}, Heat(0.3)});
//   Print(table, style, out);
//
// Text is for people: it has units and percentages, fits the width of the terminal and is coloured there; shortened
// texts end in an ellipsis. JSON and CSV are for programs: they have plain numbers and are complete. Text from profiles
// is made printable (control characters become '?').
#ifndef HOLDFAST_REPORT_SHOW_TEXT_TABLE_H_
#define HOLDFAST_REPORT_SHOW_TEXT_TABLE_H_

#include <concepts>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace holdfast {

struct Cell {
  enum Kind : uint8_t { kText, kInteger, kReal };
  std::string shown;
  Kind kind = kText;
  int64_t integer = 0;
  double real = 0;
  std::string text = "";  // for JSON and CSV; for numbers the number

  static Cell Text(std::string_view text) { return {.shown = std::string(text), .text = std::string(text)}; }
  // A cell with different text for people and for programs.
  static Cell Text(std::string shown, std::string_view text) {
    return {.shown = std::move(shown), .text = std::string(text)};
  }
  static Cell Number(std::string shown, int64_t number) {
    return {.shown = std::move(shown), .kind = kInteger, .integer = number};
  }
  static Cell Real(std::string shown, double number) {
    return {.shown = std::move(shown), .kind = kReal, .real = number};
  }
};

struct Column {
  enum Align : uint8_t { kLeft, kRight };
  std::string key;    // for JSON and CSV; "" = not there
  std::string title;  // for text; "" = not there
  Align align = kRight;
  size_t min_width = 0;
  size_t gap = 1;  // blanks before the column
  // For lines that are limited to a width:
  size_t needs_width = 0;  // in narrower lines the column is left out
  bool shrinks = false;    // texts are shortened in the middle to fit the line; the first such column is indented
  bool wraps = false;      // stacks ("a ← b") are wrapped; at most one column, the last
};

struct TableRow {
  std::vector<Cell> cells;
  double heat = 0;                        // fraction of the total, 0 … 1: determines the colour
  std::vector<std::string> details = {};  // lines below the row, if the style wants them
  size_t indent = 0;                      // steps, as in a tree
  bool is_heading = false;                // for the rows below: the text of the last cell over the whole line
};

// A line above the rows.
struct HeaderLine {
  enum Tone : uint8_t { kPlain, kAnswer, kWarning };  // determines the colour
  std::string text;
  Tone tone;

  template <std::convertible_to<std::string> Text>
  HeaderLine(Text&& of, Tone as = kPlain) : text(std::forward<Text>(of)), tone(as) {}  // NOLINT: implicit
};

struct TextTable {
  std::vector<Column> columns;
  std::vector<TableRow> rows;
  // Above the rows: lines of text, and members of the JSON object (with values as JSON).
  std::vector<HeaderLine> header;
  std::vector<std::pair<std::string, std::string>> members;
  bool has_details = false;  // for columns left out; without details, the titles then end in …
};

enum class Format : uint8_t { kTable, kJson, kCsv };
absl::StatusOr<Format> ParseFormat(std::string_view text);

struct Style {
  Format format = Format::kTable;
  bool color = false;
  size_t width = 0;      // of lines; 0 = unlimited
  bool details = false;  // lines below the rows, complete whatever their length
};

// `color`: auto (on a terminal, unless NO_COLOR is set), always, never. Terminal properties, including the default
// width, are those of standard output.
absl::StatusOr<Style> StyleFor(std::string_view format, std::string_view color, std::optional<size_t> width = {});

void Print(const TextTable& table, const Style& style, std::ostream& out);

// Returns the text in quotes, escaped. The result is valid UTF-8 for any `text`.
std::string JsonString(std::string_view text);
std::string JsonNumber(double number);  // null for NaN and infinities
std::string CsvField(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_TEXT_TABLE_H_
