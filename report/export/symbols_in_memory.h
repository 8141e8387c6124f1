// The exported functions of a module, read from the process's memory: for a file that can be opened no more.
//
// A library that was deleted before any stack passed through it can be opened by root alone (/proc/PID/map_files). What is
// mapped still has .dynsym, the build id and the program headers: enough for an ELF file of a few kilobytes that names the
// exported functions, kept in a memfd.
#ifndef HOLDFAST_REPORT_EXPORT_SYMBOLS_IN_MEMORY_H_
#define HOLDFAST_REPORT_EXPORT_SYMBOLS_IN_MEMORY_H_

#include <sys/types.h>

#include "report/base/file_descriptor.h"
#include "report/table/snapshot.h"

namespace holdfast {

// Invalid: the kernel does not let us look, or the module has no such symbols. The memory is hostile: tables are bounded.
FileDescriptor SymbolsInMemory(pid_t pid, const ModuleInfo& module);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_SYMBOLS_IN_MEMORY_H_
