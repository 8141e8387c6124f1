#include "report/names/dwarf/lines.h"

#include <algorithm>
#include <array>

#include "report/names/dwarf/constants.h"
#include "report/names/dwarf/cursor.h"

namespace holdfast::dwarf {
namespace {

constexpr uint64_t kMaxTable = uint64_t{512} << 20;
constexpr size_t kMaxNames = 1 << 20;
constexpr uint32_t kTurns = 1 << 16;  // opcodes between checks of the clock

struct LineStep {
  uint64_t address, file;
  uint32_t line;
};

// Follows the rows, one sequence at a time, and records the row that holds each requested address. Rows are not stored,
// because a unit may have millions. A sequence's results count only if the sequence ends properly.
class Sequences {
 public:
  Sequences(std::span<const uint64_t> addresses, const std::function<bool(uint64_t)>& is_code,
            std::vector<LineRow>* found)
      : addresses_(addresses), is_code_(is_code), found_(*found), ends_(addresses.size(), ~uint64_t{0}) {
    found_.assign(addresses.size(), {});
  }

  void Add(const LineStep& row) {
    // There is rarely a requested address between two rows.
    if (!open_ || row.address < row_.address || row.address > next_address_) Cross(row);
    row_ = row;
  }

  void End(const LineStep& last) {
    if (open_) Add(last);
    if (open_ && start_ < last.address && is_code_(start_)) {
      for (const auto& [index, row] : held_) {
        // Sequences normally do not overlap. If they do, the one that ends first wins.
        if (addresses_[index] < start_ || ends_[index] < last.address) continue;
        ends_[index] = last.address;
        found_[index] = row;
      }
    }
    held_.clear();
    open_ = false;
  }

 private:
  void Cross(const LineStep& row) {
    if (!open_ || row.address < row_.address) {  // rows should ascend, but the input is untrusted
      if (!open_) start_ = row.address;
      open_ = true;
      next_ =
          static_cast<size_t>(std::lower_bound(addresses_.begin(), addresses_.end(), row.address) - addresses_.begin());
    } else {
      for (; next_ < addresses_.size() && addresses_[next_] < row.address; ++next_) {
        held_.push_back({next_, {row_.file, row_.line, true}});
      }
    }
    next_address_ = next_ < addresses_.size() ? addresses_[next_] : ~uint64_t{0};
  }

  std::span<const uint64_t> addresses_;
  const std::function<bool(uint64_t)>& is_code_;
  std::vector<LineRow>& found_;
  std::vector<uint64_t> ends_;  // the end of the sequence that holds each address
  bool open_ = false;
  uint64_t start_ = 0;
  size_t next_ = 0;  // the first address without a row
  uint64_t next_address_ = 0;
  LineStep row_ = {};
  std::vector<std::pair<size_t, LineRow>> held_;
};

}  // namespace

std::string JoinPath(std::string_view folder, std::string_view path) {
  if (folder.empty() || path.starts_with('/')) return std::string(path);
  std::string joined(folder);
  if (!joined.ends_with('/')) joined += '/';
  return joined.append(path);
}

std::unique_ptr<LineTable> LineTable::Open(Unit* unit) {
  if (!unit->line_offset.has_value()) return nullptr;
  std::unique_ptr<LineTable> table(new LineTable(unit->file(), unit->comp_dir));
  Cursor cursor(unit->file()->line.Window(*unit->line_offset, 16));
  uint64_t length = cursor.U32();
  if (length == 0xffffffff) {
    length = cursor.U64();
    table->encoding_.offset_size = 8;
  }
  if (!cursor.ok() || length > kMaxTable ||
      !unit->file()->line.Read(*unit->line_offset + cursor.offset(), length, &table->bytes_) || !table->ReadHeader()) {
    return nullptr;
  }
  return table;
}

bool LineTable::ReadHeader() {
  Cursor cursor(bytes_);
  encoding_.version = cursor.U16();
  if (encoding_.version < 2 || encoding_.version > 5) return false;
  // Sizes of addresses and segment selectors.
  if (encoding_.version >= 5 && (cursor.U8() != 8 || cursor.U8() != 0)) return false;
  const uint64_t header_length = cursor.Offset(encoding_.offset_size);
  program_ = cursor.offset() + header_length;
  min_instruction_ = cursor.U8();
  if (encoding_.version >= 4) cursor.U8();  // maximum operations per instruction: 1 except on VLIW machines
  cursor.U8();                              // default_is_stmt
  line_base_ = static_cast<int8_t>(cursor.U8());
  line_range_ = cursor.U8();
  opcode_base_ = cursor.U8();
  if (!cursor.ok() || line_range_ == 0 || opcode_base_ == 0 || header_length > bytes_.size()) return false;
  for (int i = 1; i < opcode_base_; ++i) operand_counts_.push_back(cursor.U8());
  if (encoding_.version < 5) return ReadNamesBefore5(&cursor);
  return ReadNamesSince5(&cursor, true) && ReadNamesSince5(&cursor, false);
}

bool LineTable::ReadNamesBefore5(Cursor* cursor) {
  const auto text = [](std::string_view bytes) { return Value{Value::kText, 0, bytes}; };
  directories_.push_back({});  // 0: the compilation directory
  files_.push_back({});        // 0: none
  while (cursor->ok()) {
    const std::string_view name = cursor->CString();
    if (name.empty()) break;
    directories_.push_back(text(name));
  }
  while (cursor->ok()) {
    const std::string_view name = cursor->CString();
    if (name.empty()) break;
    files_.push_back({text(name), cursor->Uleb()});
    cursor->Uleb();  // time
    cursor->Uleb();  // size
  }
  return cursor->ok();
}

bool LineTable::ReadNamesSince5(Cursor* cursor, bool directories) {
  std::vector<std::pair<uint64_t, AttributeSpec>> formats;
  for (int count = cursor->U8(); count > 0; --count) {
    const uint64_t content = cursor->Uleb();
    formats.push_back({content, {.form = static_cast<uint16_t>(cursor->Uleb())}});
  }
  const uint64_t count = cursor->Uleb();
  if (count > kMaxNames) return false;
  for (uint64_t i = 0; i < count && cursor->ok(); ++i) {
    File file;
    for (const auto& [content, spec] : formats) {
      const Value value = ReadValue(cursor, spec, encoding_);
      if (content == DW_LNCT_path) file.name = value;
      if (content == DW_LNCT_directory_index) file.directory = value.number;
    }
    if (directories) {
      directories_.push_back(file.name);
    } else {
      files_.push_back(file);
    }
  }
  return cursor->ok();
}

bool LineTable::Find(std::span<const uint64_t> addresses, const std::function<bool(uint64_t)>& is_code,
                     const Deadline& deadline, std::vector<LineRow>* rows) const {
  Sequences sequences(addresses, is_code, rows);
  Cursor cursor(bytes_, program_);
  LineStep row{0, 1, 1};
  const auto advance = [&](uint64_t operations) { row.address += operations * min_instruction_; };
  // The increments of each special opcode; most opcodes are special.
  std::array<std::pair<uint32_t, int32_t>, 256> special;
  for (int i = opcode_base_; i < 256; ++i) {
    const int adjusted = i - opcode_base_;
    special[static_cast<size_t>(i)] = {adjusted / line_range_ * min_instruction_, line_base_ + adjusted % line_range_};
  }
  for (uint32_t turn = 1; !cursor.AtEnd(); ++turn) {
    if (turn % kTurns == 0 && deadline.Passed()) return false;
    const uint8_t opcode = cursor.U8();
    if (opcode >= opcode_base_) {
      row.address += special[opcode].first;
      row.line += static_cast<uint32_t>(special[opcode].second);
      sequences.Add(row);
      continue;
    }
    switch (opcode) {
      case kLnsExtended: {
        Cursor extended(cursor.Bytes(cursor.Uleb()));
        switch (extended.U8()) {
          case DW_LNE_end_sequence:
            sequences.End(row);
            row = {0, 1, 1};
            break;
          case DW_LNE_set_address:
            row.address = extended.U64();
            break;
          default:
            break;  // also define_file, which no compiler emits
        }
        break;
      }
      case DW_LNS_copy:
        sequences.Add(row);
        break;
      case DW_LNS_advance_pc:
        advance(cursor.Uleb());
        break;
      case DW_LNS_advance_line:
        row.line += static_cast<uint32_t>(cursor.Sleb());
        break;
      case DW_LNS_set_file:
        row.file = cursor.Uleb();
        break;
      case DW_LNS_const_add_pc:
        advance((255u - opcode_base_) / line_range_);
        break;
      case DW_LNS_fixed_advance_pc:
        row.address += cursor.U16();
        break;
      default:
        // Skips columns, statement flags and newer opcodes. The header has their operand counts.
        for (int count = operand_counts_[opcode - 1u]; count > 0; --count) cursor.Uleb();
        break;
    }
    if (!cursor.ok()) break;  // keep the rows before the damage
  }
  return true;
}

std::string LineTable::FileName(uint64_t number) const {
  if (number >= files_.size()) return {};
  const File& file = files_[number];
  const std::string name = TextOf(file.name);
  if (name.empty() || name.starts_with('/')) return name;
  const std::string folder = file.directory < directories_.size() ? TextOf(directories_[file.directory]) : "";
  return JoinPath(JoinPath(comp_dir_, folder), name);
}

std::string LineTable::TextOf(const Value& value) const {
  switch (value.kind) {
    case Value::kText:
      return std::string(value.text);
    case Value::kStr:
      return sections_->str.StringAt(value.number);
    case Value::kLineStr:
      return sections_->line_str.StringAt(value.number);
    default:
      return {};
  }
}

}  // namespace holdfast::dwarf
