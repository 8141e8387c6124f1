// Line tables: which line of which file the code at an address was made of. Versions 2 to 5.
//
// A table is a program that yields rows (address, file, line) in sequences; a row holds up to the address of the next
// one, the last row of a sequence only says where it ends. Where several rows have one address, the last one holds it.
#ifndef HOLDFAST_REPORT_DWARF_LINES_H_
#define HOLDFAST_REPORT_DWARF_LINES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/base/time_budget.h"
#include "report/dwarf/unit.h"

namespace holdfast::dwarf {

struct LineRow {
  uint64_t file = 0;  // number in the table
  uint32_t line = 0;  // 0: code that belongs to no line
  bool found = false;
};

class LineTable {
 public:
  // The table of `unit`, whose sections must outlive it; null when it has none that can be read.
  static std::unique_ptr<LineTable> Open(Unit* unit);

  // rows[i] for addresses[i], which are sorted. Code in sequences whose first address is refused by `is_code` was
  // thrown away by the linker, which leaves addresses such as 0. False when the deadline came first.
  bool Find(std::span<const uint64_t> addresses, const std::function<bool(uint64_t)>& is_code, const Deadline& deadline,
            std::vector<LineRow>* rows) const;

  // The path of a file: absolute, or relative when the unit does not say where it was compiled; "" for a wrong number.
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
  uint64_t program_ = 0;  // where it begins in bytes_
  uint8_t min_instruction_ = 1, line_range_ = 1, opcode_base_ = 1;
  int8_t line_base_ = 0;
  std::vector<uint8_t> operand_counts_;
  std::vector<Value> directories_;
  std::vector<File> files_;
};

// `path` seen from `folder`: itself when it is absolute.
std::string JoinPath(std::string_view folder, std::string_view path);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_DWARF_LINES_H_
