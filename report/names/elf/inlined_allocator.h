// Recognises an executable with an allocator that is inlined into the program: `-flto` over both puts the quick part of
// malloc into its callers, which then call the slow part themselves. Redirected entries see none of these allocations,
// and nothing in the process tells.
//
// Searches the code of x86-64 for calls of the slow part from functions under other names. jemalloc, mimalloc, gperftools,
// google/tcmalloc and snmalloc name it in .symtab, of the executable or its debug file. Without that, or if not even the
// allocator is found to call its slow part, the answer is that it cannot be told. Files are untrusted: they are read as in
// elf_file.h, in pieces. Any thread.
#ifndef HOLDFAST_REPORT_NAMES_ELF_INLINED_ALLOCATOR_H_
#define HOLDFAST_REPORT_NAMES_ELF_INLINED_ALLOCATOR_H_

#include <string>

namespace holdfast {

struct InlinedAllocator {
  bool is_inlined = false;
  // "the executable's allocator is inlined into functions of the program (-flto): …", or "cannot tell whether …". "": it is
  // not.
  std::string text = {};
};

// `path`: of an executable with redirected entries, below `root`. `debug`: its debug file if that is known, otherwise it is
// looked for.
InlinedAllocator InlinedAllocatorOf(const std::string& path, const std::string& root = "",
                                    const std::string& debug = "");

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_INLINED_ALLOCATOR_H_
