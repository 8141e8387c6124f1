#include "sampler/contract/clock.h"

#include <elf.h>
#include <string.h>

#include "sampler/contract/dynamic_symbols.h"

namespace holdfast {

constinit ClockFunction mapped_clock = nullptr;

void FindMappedClock(const void* vdso) {
  if (vdso == nullptr) return;
  const auto start = reinterpret_cast<uintptr_t>(vdso);
  const auto* header = static_cast<const Elf64_Ehdr*>(vdso);
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phentsize != sizeof(Elf64_Phdr)) return;
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(start + header->e_phoff);
  uintptr_t bias = 0, dynamic = 0;
  for (int i = header->e_phnum; i-- > 0;) {  // backwards: the bias is that of the first segment
    if (segments[i].p_type == PT_LOAD) bias = start + segments[i].p_offset - segments[i].p_vaddr;
    if (segments[i].p_type == PT_DYNAMIC) dynamic = start + segments[i].p_offset;
  }
  if (dynamic == 0) return;
  const DynamicSymbols symbols = SymbolsAt(reinterpret_cast<const Elf64_Dyn*>(dynamic), bias);
  constexpr const char* kNames[] = {"__vdso_clock_gettime", "__kernel_clock_gettime"};  // by processor
  for (const char* name : kNames) {
    const Elf64_Sym* found = FindSymbol(symbols, name, IsDefinition);
    if (found == nullptr) continue;
    mapped_clock = reinterpret_cast<ClockFunction>(AddressOf(symbols, *found));
    return;
  }
}

}  // namespace holdfast
