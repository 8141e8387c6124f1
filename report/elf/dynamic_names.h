// What `holdfast doctor` wants to know of an executable or shared library: which names it defines and needs, whether it
// has symbols and a build id.
//
// The file is hostile: read as elf_file.h does, only when it is a regular file; tables above the limits of ElfSymbols are
// refused. Any thread.
#ifndef HOLDFAST_REPORT_ELF_DYNAMIC_NAMES_H_
#define HOLDFAST_REPORT_ELF_DYNAMIC_NAMES_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"

namespace holdfast {

struct DynamicNames {
  absl::flat_hash_set<std::string> defines, needs;  // functions of .dynsym, without versions
  std::string own_allocator;  // a name by which .symtab tells of a malloc of its own, such as "_rjem_malloc"; "" = none
  bool throws_itself =
      false;  // .symtab tells of a C++ runtime or an unwinder that is linked in, and that nobody else can reach
  std::string build_id;  // lower-case hexadecimal; "" = none
  bool has_symtab = false;
  bool is_go = false;
};

absl::StatusOr<DynamicNames> ReadDynamicNames(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ELF_DYNAMIC_NAMES_H_
