// The words through which an object calls functions of other objects: entries of its global offset table, and pointers
// in its data. The dynamic linker fills them in.
//
//     slot 0x3fc8, R_X86_64_JUMP_SLOT, "free"         call *0x3fc8(%rip), at run time at bias + 0x3fc8
//
// The file is untrusted and is read as in elf_file.h. Any thread.
#ifndef HOLDFAST_REPORT_NAMES_ELF_IMPORT_SLOTS_H_
#define HOLDFAST_REPORT_NAMES_ELF_IMPORT_SLOTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/names/elf/elf_file.h"

namespace holdfast {

struct ImportSlot {
  uint64_t address;  // without bias
  uint32_t type;     // the relocation's type, R_X86_64_… or R_AARCH64_…
  std::string name;
};
std::vector<ImportSlot> ImportSlotsOf(const ElfFile& elf, const std::vector<std::string_view>& names);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_IMPORT_SLOTS_H_
