// The functions of one ELF file, by address: which symbol holds an address, and how the file is laid out.
//
// Names come from .symtab, else from .dynsym and .gnu_debugdata (mini debug information). What counts as a function:
// STT_FUNC and STT_GNU_IFUNC in executable segments, and untyped labels in executable sections (hand-written
// assembler). Where several symbols hold an address, the innermost; at one address the first in this order: has a size,
// is not weak, is global, fewest leading underscores, shortest, alphabet. A symbol without a size holds what no other
// does, up to the next symbol or the end of its section.
//
// The file is hostile: it is read as elf_file.h does, and only when it is a regular file; tables above the limits below are
// refused (the largest known, Chromium's, has 2 million symbols: 48 MB and 200 MB of names), and longer names are none.
// After Load everything is in memory (24 bytes a symbol and its name) and the file closed. Immutable but for FunctionCalled: any thread.
#ifndef HOLDFAST_REPORT_ELF_ELF_SYMBOLS_H_
#define HOLDFAST_REPORT_ELF_ELF_SYMBOLS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace holdfast {

class ElfSymbols {
 public:
  static constexpr uint64_t kMaxSymbolBytes = uint64_t{256} << 20;
  static constexpr uint64_t kMaxNameBytes = uint64_t{1} << 30;
  static constexpr size_t kMaxName = 16 * 1024;

  // `fd` stays the caller's. A file with another build id (lower-case hexadecimal, "" = none) is an error, and is not
  // read further. The message of an error says what is wrong with the file, without its name.
  static absl::StatusOr<std::unique_ptr<ElfSymbols>> Load(int fd, std::string_view build_id);

  const std::string& build_id() const { return build_id_; }  // lower-case hexadecimal; "" when there is none
  bool has_symtab() const { return has_symtab_; }
  size_t memory_bytes() const;

  // The mangled name of the function at an ELF address, without a version; "" when no symbol holds it.
  std::string_view Find(uint64_t elf_address) const;

  // The function that holds an address: its code from the first byte on, and its name as Find says it. Of functions that
  // nest, parts may be functions here.
  struct Function {
    uint64_t start = 0, end = 0;
    std::string_view name = {};
  };
  std::optional<Function> FunctionAt(uint64_t elf_address) const;

  // One that goes by this name, the first by address where several do. The first call makes an index: not two at a time.
  std::optional<Function> FunctionCalled(std::string_view name) const;

  // Where the bytes at `file_offset` lie, by the executable program header that maps them (whole pages are mapped).
  std::optional<uint64_t> AddressOfOffset(uint64_t file_offset) const;

  // Where a mapping of `size` bytes begins that holds an executable segment: for debug files, whose headers do not say
  // where the program's bytes lie. Nothing when there is none, or more than one.
  std::optional<uint64_t> AddressOfMapping(uint64_t size) const;

  // Whether the address lies in an executable segment.
  bool IsCode(uint64_t elf_address) const;

  // Takes the names of `debug` (the separate debug file of the same build) in place of the own ones.
  void TakeNamesOf(ElfSymbols* debug);

 private:
  friend class ElfReader;
  struct Range {  // [start, end), disjoint and sorted
    uint64_t start, end;
    uint32_t name;  // offset in names_
  };
  struct CodeSegment {  // executable PT_LOAD
    uint64_t address, size, offset;
  };

  std::string build_id_;
  bool has_symtab_ = false;
  std::vector<CodeSegment> segments_;
  std::vector<Range> ranges_;
  std::string names_;  // the string table of the symbols, ends in a zero
  std::string_view NameOf(const Range& range) const;
  mutable std::vector<std::pair<uint32_t, uint32_t>> by_name_;  // hash, index of the range; sorted
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ELF_ELF_SYMBOLS_H_
