// The program headers of a module in the memory of another process.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_HEADERS_OF_MODULE_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_HEADERS_OF_MODULE_H_

#include <elf.h>

#include <cstdint>
#include <vector>

#include "report/observe/table/thread_status.h"

namespace holdfast {

// `start`: where the file's ELF header is mapped; `head` gets it. Empty: there is no ELF file of this machine's kind.
// Usually the headers follow the ELF header. Some tools (BOLT) move them to another part of the file; then the mappings
// of the process say where that part is.
std::vector<Elf64_Phdr> ReadProgramHeaders(const ProcessMemory& memory, uint64_t start, Elf64_Ehdr* head);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_HEADERS_OF_MODULE_H_
