// Reads the exported functions of a module from the process's memory, for a file that can no longer be opened.
//
// If a library was deleted before it occurred in any stack, only root can open it (/proc/PID/map_files). Its mapped
// part still has .dynsym, the build id and the program headers. That is enough for an ELF file of a few kilobytes with
// the names of exported functions, in a memfd.
#ifndef HOLDFAST_REPORT_BUILDER_SYMBOLS_IN_MEMORY_H_
#define HOLDFAST_REPORT_BUILDER_SYMBOLS_IN_MEMORY_H_

#include <sys/types.h>

#include "report/base/file_descriptor.h"
#include "report/observe/table/snapshot.h"

namespace holdfast {

// Returns an invalid descriptor if the kernel does not permit reading, or the module has no such symbols. The memory is
// untrusted: tables are bounded.
FileDescriptor SymbolsInMemory(pid_t pid, const ModuleInfo& module);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_SYMBOLS_IN_MEMORY_H_
