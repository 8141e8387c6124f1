// The variables of one ELF file by address, from .symtab, otherwise from .dynsym.
//
// The file is untrusted: it is read as in elf_file.h. Tables above the limits of ElfSymbols are rejected. After Load
// everything is in memory, and the file may be closed. Any thread.
#ifndef HOLDFAST_REPORT_NAMES_ELF_DATA_SYMBOLS_H_
#define HOLDFAST_REPORT_NAMES_ELF_DATA_SYMBOLS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

class DataSymbols {
 public:
  // Returns null if the file cannot be read or has another build id (lower-case hexadecimal).
  static std::unique_ptr<DataSymbols> Load(int fd, std::string_view build_id);

  // Returns the mangled name of the variable that contains an ELF address, without a version; "" if there is none.
  // `start`, if not null: where the variable begins.
  std::string_view Find(uint64_t elf_address, uint64_t* start = nullptr) const;

 private:
  struct Variable {
    uint64_t start, size;
    uint32_t name;  // offset in names_
  };
  std::vector<Variable> variables_;  // by address
  std::string names_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_DATA_SYMBOLS_H_
