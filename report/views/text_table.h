// One table, three ways out: aligned text, JSON, CSV. Every view fills one of these.
//
//   TextTable table;
//   table.columns = {{"function", "function", Column::kLeft}, {"self", "self", Column::kRight}};
//   table.rows.push_back({{Cell::Text("main"), Cell::Number("1.5MiB", 1572864)}, Heat(0.3)});
//   Print(table, style, out);
//
// Text is for people: units, percentages, fitted to the width of a terminal, coloured there. What is shortened has an ellipsis. JSON and CSV are for
// programs: plain numbers, everything, never cut. Text of profiles is made printable (control characters become '?').
#ifndef HOLDFAST_REPORT_VIEWS_TEXT_TABLE_H_
#define HOLDFAST_REPORT_VIEWS_TEXT_TABLE_H_

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
  std::string text = "";  // what JSON and CSV say; for numbers the number

  static Cell Text(std::string_view text) { return {.shown = std::string(text), .text = std::string(text)}; }
  // Other words for people than for programs.
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
  std::string key;    // in JSON and CSV; "" = not there
  std::string title;  // in text; "" = not there
  Align align = kRight;
  size_t min_width = 0;
  size_t gap = 1;  // blanks before it
  // Where lines are cut to a width:
  size_t needs_width = 0;  // it is not there in narrower ones
  bool shrinks = false;  // its texts are shortened in the middle, so that the whole line fits; the first has the indent
  bool wraps = false;    // its stacks, "a ← b", go over several lines; at most one, and the last
};

struct TableRow {
  std::vector<Cell> cells;
  double heat = 0;                        // its share of everything, 0 … 1: what its colour says
  std::vector<std::string> details = {};  // lines under it, where the style wants them
  size_t indent = 0;                      // steps, as in a tree
  bool is_heading = false;                // of the rows below: text in the last cell, over the whole line
};

struct TextTable {
  std::vector<Column> columns;
  std::vector<TableRow> rows;
  // What stands above the rows: lines of text, and members of the JSON object (values as JSON).
  std::vector<std::string> header;
  std::vector<std::pair<std::string, std::string>> members;
  bool has_details = false;  // which say what columns leave out; else the titles end in … where columns are left out
};

enum class Format : uint8_t { kTable, kJson, kCsv };
absl::StatusOr<Format> ParseFormat(std::string_view text);

struct Style {
  Format format = Format::kTable;
  bool color = false;
  size_t width = 0;      // no line is longer; 0 = any
  bool details = false;  // lines under the rows, whole however long
};

// `color`: auto (on a terminal, unless NO_COLOR is set), always, never. Colours, and the width unless it is given, are those of
// standard output.
absl::StatusOr<Style> StyleFor(std::string_view format, std::string_view color, std::optional<size_t> width = {});

void Print(const TextTable& table, const Style& style, std::ostream& out);

// "text" in quotes, escaped; valid UTF-8 whatever `text` holds.
std::string JsonString(std::string_view text);
std::string JsonNumber(double number);  // null when it is none
std::string CsvField(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_VIEWS_TEXT_TABLE_H_
