// The program headers of a loaded module, in its own memory.
//
// Linkers put the program headers behind the ELF header, in the first page. Other tools move them: BOLT to a segment of
// their own near the end of the file. Some images have no ELF header in memory at all. So the headers are searched, and
// accepted only if they describe this module: a load segment contains its code, and PT_DYNAMIC is at its dynamic
// section.
//
//     ELF header ── e_phoff ──► same page     usual
//                           ──► elsewhere     where /proc/self/maps says that this part of the file is mapped
//     AT_PHDR ────────────────► main program  if neither is found
//
// Any thread, signal handlers; no allocation, no loader call. Every page is probed before it is read.
#ifndef HOLDFAST_SAMPLER_CAPTURE_PROGRAM_HEADERS_H_
#define HOLDFAST_SAMPLER_CAPTURE_PROGRAM_HEADERS_H_

#include <elf.h>

#include <cstdint>

#include "sampler/contract/attributes.h"

struct dl_find_object;

namespace holdfast {

struct ProgramHeaders {
  const Elf64_Phdr* first = nullptr;  // null: not found
  int count = 0;
  const Elf64_Phdr* begin() const { return first; }
  const Elf64_Phdr* end() const { return first + count; }
};

// Whether the search may read /proc/self/maps: it uses a static buffer, so only one thread at a time may.
enum class HeaderSearch : uint8_t { kMemory, kMappings };

HOLDFAST_HIDDEN ProgramHeaders FindProgramHeaders(const dl_find_object& found, HeaderSearch search);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_PROGRAM_HEADERS_H_
