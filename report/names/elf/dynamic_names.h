// The properties of an executable or shared library that `holdfast doctor` checks: which names it defines and needs,
// and whether it has symbols and a build id.
//
// The file is untrusted: it is read as in elf_file.h and must be a regular file. Tables above the limits of ElfSymbols
// are rejected. Any thread.
#ifndef HOLDFAST_REPORT_NAMES_ELF_DYNAMIC_NAMES_H_
#define HOLDFAST_REPORT_NAMES_ELF_DYNAMIC_NAMES_H_

#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"

namespace holdfast {

struct DynamicNames {
  absl::flat_hash_set<std::string> defines, needs;  // functions in .dynsym, without versions
  std::string own_allocator;  // a function in .symtab that reveals a private malloc, such as "_rjem_malloc"; "" = none
  bool may_name_allocator = false;  // .symtab has the first name of an allocator's family, as the library looks for it
  bool has_hidden_malloc = false;   // malloc and free are defined, but not exported
  bool throws_itself = false;       // .symtab has a linked-in C++ runtime or unwinder that is private to this object
  absl::flat_hash_set<std::string> scopes;  // of its functions' names: "tbb", "folly", "parking_lot_core"
  std::string build_id;                     // lower-case hexadecimal; "" = none
  bool has_symtab = false;
  bool is_go = false;
  bool has_nims_heap = false;  // .symtab has the allocator of Nim, which -d:useMalloc leaves out
  bool has_openmp = false;     // it defines functions of an OpenMP runtime
  // Whether it calls what every tested allocator calls, as the library asks too (sampler/entries/entry_plan.h). If not,
  // functions that are named like an allocator's may pass their calls on.
  bool may_have_own_allocator() const;
  bool is_symbolic = false;  // linked with -Bsymbolic: its own definitions answer its own calls
};

// Whether this function of an OpenMP runtime starts the threads of a region. Compilers put the kind of a loop into the name:
// GOMP_parallel_loop_nonmonotonic_dynamic.
bool StartsOpenMpRegion(std::string_view function);

absl::StatusOr<DynamicNames> ReadDynamicNames(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_DYNAMIC_NAMES_H_
