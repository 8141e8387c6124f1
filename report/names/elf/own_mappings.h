// An executable that maps memory by functions of its own, which come before every preloaded library's: calls of them are
// not recorded, unless they call libc's `syscall`, as those of gperftools' tcmalloc do.
//
// The file is untrusted: it is read as in elf_file.h. Any thread.
#ifndef HOLDFAST_REPORT_NAMES_ELF_OWN_MAPPINGS_H_
#define HOLDFAST_REPORT_NAMES_ELF_OWN_MAPPINGS_H_

#include <string>

namespace holdfast {

// "the executable defines mmap itself: calls of it are not in map profiles". "": it defines none of these functions, or
// their calls are seen.
std::string OwnMappingsText(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_OWN_MAPPINGS_H_
