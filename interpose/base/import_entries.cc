#include "interpose/base/import_entries.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include "sampler/arch/processor.h"
#include "sampler/contract/dynamic_symbols.h"
#include "sampler/contract/syscalls.h"
#include "sampler/stacks/program_headers.h"

extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];

namespace holdfast {
namespace {

bool SetEntry(const ImportingObject& object, uintptr_t* entry, const void* real, void* wrapper, bool is_lazy) {
  const auto at = reinterpret_cast<uintptr_t>(entry);
  if (at % sizeof *entry != 0) return false;
  const uintptr_t leads_to = *entry;
  if (leads_to != reinterpret_cast<uintptr_t>(real) && (!is_lazy || leads_to < object.start || leads_to >= object.end))
    return false;
  const bool sealed = at >= object.relro_start && at < object.relro_end;
  const uintptr_t page = at & ~(kPageBytes - 1);
  if (sealed && SyscallFailed(RawSyscall(SYS_mprotect, page, kPageBytes, PROT_READ | PROT_WRITE))) return false;
  __atomic_store_n(entry, reinterpret_cast<uintptr_t>(wrapper), __ATOMIC_RELEASE);
  if (sealed) RawSyscall(SYS_mprotect, page, kPageBytes, PROT_READ);
  return true;
}

bool SetEntries(const ImportingObject& object, const Relocations& of, const Replacements& by) {
  bool any = false;
  for (size_t i = 0; of.first != nullptr && i < of.bytes / sizeof(Elf64_Rela); ++i) {
    const Elf64_Rela& relocation = of.first[i];
    const auto type = ELF64_R_TYPE(relocation.r_info);
    // The last case is a pointer in the object's own data: `free_function = mi_free`. It must equal the others, as
    // without us.
    const bool is_data = type == R_X86_64_64 && relocation.r_addend == 0;
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && !is_data) continue;
    const int number = by.number_of(object.names + object.symbols[ELF64_R_SYM(relocation.r_info)].st_name);
    if (number < 0 || by.reals[number] == nullptr) continue;
    auto* entry = reinterpret_cast<uintptr_t*>(object.map->l_addr + relocation.r_offset);
    any |= SetEntry(object, entry, by.reals[number], by.wrappers[number], !is_data);
  }
  return any;
}

}  // namespace

bool DescribeImports(const link_map* map, ImportingObject* object) {
  object->map = map;
  for (const Elf64_Dyn* entry = map->l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const uintptr_t address = AddressIn(*entry, map->l_addr);
    switch (entry->d_tag) {
      case DT_SYMTAB:
        object->symbols = reinterpret_cast<const Elf64_Sym*>(address);
        break;
      case DT_STRTAB:
        object->names = reinterpret_cast<const char*>(address);
        break;
      case DT_JMPREL:
        object->calls.first = reinterpret_cast<const Elf64_Rela*>(address);
        break;
      case DT_PLTRELSZ:
        object->calls.bytes = entry->d_un.d_val;
        break;
      case DT_RELA:
        object->data.first = reinterpret_cast<const Elf64_Rela*>(address);
        break;
      case DT_RELASZ:
        object->data.bytes = entry->d_un.d_val;
        break;
      default:
        break;
    }
  }
  dl_find_object found;
  if (object->symbols == nullptr || object->names == nullptr || _dl_find_object(map->l_ld, &found) != 0) return false;
  object->start = reinterpret_cast<uintptr_t>(found.dlfo_map_start);
  object->end = reinterpret_cast<uintptr_t>(found.dlfo_map_end);
  // There is only one thread yet.
  const ProgramHeaders headers = FindProgramHeaders(found, HeaderSearch::kMappings);
  for (const Elf64_Phdr& header : headers) {
    const uintptr_t start = map->l_addr + header.p_vaddr, page = start & ~(kPageBytes - 1);
    if (header.p_type == PT_LOAD && page < object->start) object->start = page;
    if (header.p_type == PT_LOAD && start + header.p_memsz > object->end) object->end = start + header.p_memsz;
    if (header.p_type != PT_GNU_RELRO) continue;
    object->relro_start = page;
    object->relro_end = start + header.p_memsz;
  }
  return headers.first != nullptr;
}

bool IsOwnLibrary(const ImportingObject& object) { return object.start == reinterpret_cast<uintptr_t>(__ehdr_start); }

bool ReplaceImports(const ImportingObject& object, const Replacements& by) {
  const bool any = SetEntries(object, object.calls, by);
  return SetEntries(object, object.data, by) || any;
}

bool ImportsAny(const ImportingObject& object, bool (*wanted)(const char* name)) {
  for (const Relocations& of : {object.calls, object.data}) {
    for (size_t i = 0; of.first != nullptr && i < of.bytes / sizeof(Elf64_Rela); ++i) {
      const uint32_t symbol = ELF64_R_SYM(of.first[i].r_info);
      if (symbol != 0 && wanted(object.names + object.symbols[symbol].st_name)) return true;
    }
  }
  return false;
}

}  // namespace holdfast
