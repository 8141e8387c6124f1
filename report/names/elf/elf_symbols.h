// The functions of one ELF file by address: which symbol contains an address, and how the file is laid out.
//
// Names come from .symtab, otherwise from .dynsym and .gnu_debugdata (mini debug information). Functions are STT_FUNC
// and STT_GNU_IFUNC in executable segments, and untyped labels in executable sections (hand-written assembler). If
// several symbols contain an address, the innermost wins. Among symbols with one address the order is: has a size, is
// not weak, is global, fewest leading underscores, shortest, alphabetical. A symbol without a size covers addresses
// that no other symbol covers, up to the next symbol or the end of its section, or 200 bytes if there is only .dynsym.
//
// The file is untrusted: it is read as in elf_file.h and must be a regular file. Tables above the limits below are
// rejected, and longer names are ignored. The largest known table, Chromium's, has 2 million symbols: 48 MB, and 200 MB
// of names.
// After Load everything is in memory (24 bytes plus the name for each symbol), and the file is closed. Any thread; only
// FunctionCalled is not thread-safe.
#ifndef HOLDFAST_REPORT_NAMES_ELF_ELF_SYMBOLS_H_
#define HOLDFAST_REPORT_NAMES_ELF_ELF_SYMBOLS_H_

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

  // The caller keeps `fd`. Returns an error, without reading further, if the file has another build id (lower-case
  // hexadecimal, "" = none). The error's message describes the problem without the file's name.
  static absl::StatusOr<std::unique_ptr<ElfSymbols>> Load(int fd, std::string_view build_id);

  const std::string& build_id() const { return build_id_; }  // lower-case hexadecimal; "" = none
  bool has_symtab() const { return has_symtab_; }
  size_t memory_bytes() const;

  // Returns the mangled name of the function at an ELF address, without a version; "" if no symbol contains the
  // address.
  std::string_view Find(uint64_t elf_address) const;

  // The function that contains an address: its code range, and its name as from Find. If functions nest, the parts of
  // the outer one are separate functions here.
  struct Function {
    uint64_t start = 0, end = 0;
    std::string_view name = {};
  };
  std::optional<Function> FunctionAt(uint64_t elf_address) const;

  // Returns a function with this name; the first by address if there are several. The first call builds an index, so
  // calls must not be concurrent.
  std::optional<Function> FunctionCalled(std::string_view name) const;

  // Returns the address of the bytes at `file_offset`, by the executable program header that maps them (whole pages are
  // mapped).
  std::optional<uint64_t> AddressOfOffset(uint64_t file_offset) const;

  // Returns the address of the only executable segment that a mapping of `size` bytes can hold; nothing if there is
  // none or more than one. For debug files: their headers do not have the offsets of the program's bytes.
  std::optional<uint64_t> AddressOfMapping(uint64_t size) const;

  // Returns whether the address is in an executable segment.
  bool IsCode(uint64_t elf_address) const;

  // Replaces the names by those of `debug`, the separate debug file of the same build.
  void TakeNamesOf(ElfSymbols* debug);

 private:
  friend class ElfReader;
  struct Range {  // [start, end), disjoint and sorted
    uint64_t start, end;
    uint32_t name;  // offset in names_
  };
  struct CodeSegment {  // an executable PT_LOAD segment
    uint64_t address, size, offset;
  };

  std::string build_id_;
  bool has_symtab_ = false;
  std::vector<CodeSegment> segments_;
  std::vector<Range> ranges_;
  std::string names_;  // the symbols' string table, ending with a zero byte
  std::string_view NameOf(const Range& range) const;
  mutable std::vector<std::pair<uint32_t, uint32_t>> by_name_;  // hash of the name and index of the range, sorted
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_ELF_SYMBOLS_H_
