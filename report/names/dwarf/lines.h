// Line tables: the source line of the code at an address. Versions 2 to 5.
//
// A table is a program that produces rows (address, file, line) in sequences. A row holds for addresses up to the next
// row; the last row of a sequence only marks its end. If several rows have the same address, the last one holds.
#ifndef HOLDFAST_REPORT_NAMES_DWARF_LINES_H_
#define HOLDFAST_REPORT_NAMES_DWARF_LINES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/base/time_budget.h"
#include "report/names/dwarf/unit.h"

namespace holdfast::dwarf {

struct LineRow {
  uint64_t file = 0;  // number in the table
  uint32_t line = 0;  // 0: code without a line
  bool found = false;
};

class LineTable {
 public:
  // Reads the table of `unit`; returns null if there is none or it is damaged. The unit's sections must outlive the
  // table.
  static std::unique_ptr<LineTable> Open(Unit* unit);

  // Sets rows[i] for addresses[i], which are sorted. Ignores a sequence if `is_code` rejects its first address: the
  // linker discarded that code and left an address such as 0. Returns false if the deadline passed.
  bool Find(std::span<const uint64_t> addresses, const std::function<bool(uint64_t)>& is_code, const Deadline& deadline,
            std::vector<LineRow>* rows) const;

  // Returns a file's path: absolute, or relative if the unit has no compilation directory; "" for an invalid number.
  std::string FileName(uint64_t number) const;

 private:
  struct File {
    Value name;
    uint64_t directory = 0;
  };

  LineTable(Sections* sections, std::string comp_dir) : sections_(sections), comp_dir_(std::move(comp_dir)) {}
  bool ReadHeader();
  bool ReadNamesBefore5(class Cursor* cursor);
  bool ReadNamesSince5(class Cursor* cursor, bool directories);
  std::string TextOf(const Value& value) const;

  Sections* sections_;
  std::string comp_dir_;
  std::string bytes_;  // header and program
  Encoding encoding_;
  uint64_t program_ = 0;  // start of the program in bytes_
  uint8_t min_instruction_ = 1, line_range_ = 1, opcode_base_ = 1;
  int8_t line_base_ = 0;
  std::vector<uint8_t> operand_counts_;
  std::vector<Value> directories_;
  std::vector<File> files_;
};

// Returns `path` relative to `folder`; `path` itself if it is absolute.
std::string JoinPath(std::string_view folder, std::string_view path);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_LINES_H_
