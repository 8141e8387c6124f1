// An allocator that is linked into a program's executable: whether its functions can be redirected at their entry, as the
// library will decide when the program starts.
//
// The file is untrusted; see elf_file.h.
#ifndef HOLDFAST_REPORT_RUN_LINKED_ALLOCATOR_H_
#define HOLDFAST_REPORT_RUN_LINKED_ALLOCATOR_H_

#include <string>
#include <string_view>

#include "report/names/elf/dynamic_names.h"
#include "sampler/contract/entry_state.h"

namespace holdfast {

struct LinkedAllocator {
  bool is_there = false;
  bool is_seen = false;           // all of it, unless the process finds a reason against it
  bool is_redirected = false;     // its functions are changed when it starts
  bool may_lack = false;          // it is, but functions without names, or with memory of their own, may not be
  bool replaces_malloc = false;   // the executable defines malloc and free themselves
  std::string text = {};          // what is seen, or what is not and what to do; one line
  std::string why_not_late = {};  // it is only redirected at the start; "": also in a program that runs
};

// `path`: of the executable that `names` were read from. `wanted`: HOLDFAST_ENTRIES. `root`: with which `path` begins, for a
// process in a container.
LinkedAllocator LinkedAllocatorOf(const std::string& path, const DynamicNames& names, Entries wanted,
                                  const std::string& root = "");

// HOLDFAST_ENTRIES of this environment.
Entries EntriesWanted();
// A value of --entries or HOLDFAST_ENTRIES.
Entries EntriesNamed(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_LINKED_ALLOCATOR_H_
