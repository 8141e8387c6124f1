#include "interpose/own_names/own_names.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "interpose/base/defined_names.h"
#include "interpose/own_names/wrappers.h"
#include "sampler/contract/dynamic_symbols.h"
#include "sampler/contract/syscalls.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/process/process.h"
#include "sampler/stacks/program_headers.h"

extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];

namespace holdfast {
namespace {

struct Relocations {
  const Elf64_Rela* first = nullptr;
  size_t bytes = 0;
};

// The parts of an object's dynamic section that lead to its entries.
struct Object {
  const link_map* map;
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  Relocations calls, data;
  uintptr_t start = 0, end = 0;              // its mapping
  uintptr_t relro_start = 0, relro_end = 0;  // read-only after relocation
};

bool Describe(const link_map* map, Object* object) {
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

// −1: none of ours. Objects have thousands of symbols; most fail the first comparison.
int NumberOf(const char* name) {
  if (strncmp(name, "mi_", 3) != 0 && strncmp(name, "tc_", 3) != 0 && strncmp(name, "je_", 3) != 0 &&
      strncmp(name, "_rjem_", 6) != 0 && strstr(name, "allocx") == nullptr)
    return -1;
  for (int i = 0; i < kOwnNames; ++i) {
    if (strcmp(name, kOwnNameTexts[i]) == 0) return i;
  }
  return -1;
}

// Sets one entry. It leads to the allocator or, before the first call, back into the object (lazy binding).
bool SetEntry(const Object& object, uintptr_t* entry, int number, bool is_lazy) {
  const auto at = reinterpret_cast<uintptr_t>(entry);
  if (at % sizeof *entry != 0) return false;
  const uintptr_t leads_to = *entry;
  if (leads_to != reinterpret_cast<uintptr_t>(own_reals[number]) &&
      (!is_lazy || leads_to < object.start || leads_to >= object.end))
    return false;
  const bool sealed = at >= object.relro_start && at < object.relro_end;
  const uintptr_t page = at & ~(kPageBytes - 1);
  if (sealed && SyscallFailed(RawSyscall(SYS_mprotect, page, kPageBytes, PROT_READ | PROT_WRITE))) return false;
  __atomic_store_n(entry, reinterpret_cast<uintptr_t>(own_wrappers[number]), __ATOMIC_RELEASE);
  if (sealed) RawSyscall(SYS_mprotect, page, kPageBytes, PROT_READ);
  return true;
}

bool SetEntries(const Object& object, const Relocations& of) {
  bool any = false;
  for (size_t i = 0; of.first != nullptr && i < of.bytes / sizeof(Elf64_Rela); ++i) {
    const Elf64_Rela& relocation = of.first[i];
    const auto type = ELF64_R_TYPE(relocation.r_info);
    // The last case is a pointer in the object's own data: `free_function = mi_free`. It must equal the others, as
    // without us.
    const bool is_data = type == R_X86_64_64 && relocation.r_addend == 0;
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && !is_data) continue;
    const int number = NumberOf(object.names + object.symbols[ELF64_R_SYM(relocation.r_info)].st_name);
    if (number < 0 || own_reals[number] == nullptr) continue;
    any |= SetEntry(object, reinterpret_cast<uintptr_t*>(object.map->l_addr + relocation.r_offset), number, !is_data);
  }
  return any;
}

constexpr struct {
  OwnName sized, unsized;
} kUnsized[] = {
    {kOwn_sdallocx, kOwn_dallocx},
    {kOwn_je_sdallocx, kOwn_je_dallocx},
    {kOwn__rjem_sdallocx, kOwn__rjem_dallocx},
    {kOwn_mi_free_size, kOwn_mi_free},
    {kOwn_mi_free_size_aligned, kOwn_mi_free_aligned},
    {kOwn_tc_free_sized, kOwn_tc_free},
    {kOwn_tc_delete_sized, kOwn_tc_delete},
    {kOwn_tc_deletearray_sized, kOwn_tc_deletearray},
    {kOwn_tc_delete_sized_aligned, kOwn_tc_delete_aligned},
    {kOwn_tc_deletearray_sized_aligned, kOwn_tc_deletearray_aligned},
};

bool AnyIsDefined() {
  static constexpr SymbolName kNames[] = {"mallocx", "je_mallocx", "_rjem_mallocx", "mi_malloc", "tc_malloc"};
  return IsAnyDefinedAnywhere(kNames, static_cast<int>(sizeof kNames / sizeof *kNames));
}

}  // namespace

void BindOwnNames() {
  if (!process.recording.load(std::memory_order_relaxed) || !AnyIsDefined()) return;
  for (int i = 0; i < kOwnNames; ++i) {
    // A failing search would allocate.
    void* found = IsDefinedAnywhere(kOwnNameTexts[i]) ? dlsym(RTLD_DEFAULT, kOwnNameTexts[i]) : nullptr;
    if (found != nullptr && ObjectOf(found) != nullptr && ObjectOf(found) != _r_debug.r_map) own_reals[i] = found;
  }
  for (const auto& [sized, unsized] : kUnsized) own_unsized[sized] = own_reals[unsized];
  bool any = false;
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
    Object object;
    if (!Describe(map, &object) || object.start == reinterpret_cast<uintptr_t>(__ehdr_start)) continue;
    // An allocator's own calls are part of one that is already counted.
    bool is_allocator = false;
    for (const void* of : own_reals) {
      const auto address = reinterpret_cast<uintptr_t>(of);
      is_allocator |= address >= object.start && address < object.end;
    }
    if (is_allocator) continue;
    any |= SetEntries(object, object.calls);
    any |= SetEntries(object, object.data);
  }
  if (any) GiveUpTag();
}

}  // namespace holdfast
