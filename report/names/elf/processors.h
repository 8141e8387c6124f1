// The processors of ELF files. Names, lines and inlined calls are the same for all, so files of both processors have them.
// Programs run here only if they are for the tool's own processor. Code is decoded only for x86-64.
#ifndef HOLDFAST_REPORT_NAMES_ELF_PROCESSORS_H_
#define HOLDFAST_REPORT_NAMES_ELF_PROCESSORS_H_

#include <elf.h>

#include <cstdint>

#include "report/names/elf/elf_file.h"

namespace holdfast {

#if defined(__aarch64__)
inline constexpr uint16_t kOwnMachine = EM_AARCH64;
inline constexpr char kOwnPrograms[] = "64-bit ARM";  // for messages
inline constexpr char kOwnLoader[] = "/lib/ld-linux-aarch64.so.1";
#else
inline constexpr uint16_t kOwnMachine = EM_X86_64;
inline constexpr char kOwnPrograms[] = "64-bit x86";
inline constexpr char kOwnLoader[] = "/lib64/ld-linux-x86-64.so.2";
#endif

inline bool HasNamesHere(const ElfFile& elf) {
  return elf.is_readable() && (elf.machine() == EM_X86_64 || elf.machine() == EM_AARCH64);
}
inline bool RunsHere(const ElfFile& elf) { return elf.is_readable() && elf.machine() == kOwnMachine; }

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_PROCESSORS_H_
