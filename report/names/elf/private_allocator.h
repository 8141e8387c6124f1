// An allocator that a shared library keeps for itself: linked into it with names of its own, hidden, or bound at link
// time. The library's calls reach that allocator directly, so no profile has what they allocate.
//
// The file is untrusted; see elf_file.h. Any thread.
#ifndef HOLDFAST_REPORT_NAMES_ELF_PRIVATE_ALLOCATOR_H_
#define HOLDFAST_REPORT_NAMES_ELF_PRIVATE_ALLOCATOR_H_

#include <string>
#include <string_view>

#include "report/names/elf/dynamic_names.h"

namespace holdfast {

// "libarrow.so has an allocator of its own (je_malloc): what libarrow.so itself takes from it is not seen". If other
// objects can call the allocator, the text says which of their calls are not seen. "": the library has none. `library`: its name in the text. `path`: where its file is read. `names`: of that file.
std::string PrivateAllocatorText(std::string_view library, const std::string& path, const DynamicNames& names);

// Returns whether the library may have such an allocator: every allocator calls mmap to get its memory, and madvise to
// give it back. Reads only the names of its symbols, in well under a millisecond for most libraries.
bool MayHavePrivateAllocator(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_PRIVATE_ALLOCATOR_H_
