// Recognises an executable with an allocator that is inlined into the program: `-flto` over both puts the quick part of
// malloc into its callers, which then call the slow part themselves. Redirected entries see none of these allocations,
// and nothing in the process tells.
//
// Searches the code of x86-64 for calls of the slow part, which mimalloc, jemalloc and gperftools name in .symtab, from functions
// under other names. The file is untrusted: it is read as in elf_file.h, in pieces. Any thread.
#ifndef HOLDFAST_REPORT_NAMES_ELF_INLINED_ALLOCATOR_H_
#define HOLDFAST_REPORT_NAMES_ELF_INLINED_ALLOCATOR_H_

#include <string>

namespace holdfast {

// "the executable's allocator is inlined into functions of the program (-flto): …". "": it is not, or nothing can be told.
std::string InlinedAllocatorText(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_INLINED_ALLOCATOR_H_
