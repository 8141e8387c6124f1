#include "interpose/base/import_entries.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>

#include <initializer_list>

#include "interpose/base/defined_names.h"
#include "interpose/base/find_functions.h"
#include "interpose/base/symbol_versions.h"
#include "sampler/arch/processor.h"
#include "sampler/arch/relocation_types.h"
#include "sampler/capture/find_object.h"
#include "sampler/capture/program_headers.h"
#include "sampler/contract/dynamic_symbols.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/contract/syscalls.h"

extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];

namespace holdfast {

// ---- Versions of symbols ----

const char* NeededVersion(const ImportingObject& object, uint32_t symbol) {
  if (object.versions == nullptr || object.needed == nullptr) return nullptr;
  const Elf64_Half number = object.versions[symbol] & kVersionMask;
  for (const Elf64_Verneed* file = object.needed;; file = After<Elf64_Verneed>(file, file->vn_next)) {
    const auto* version = After<Elf64_Vernaux>(file, file->vn_aux);
    for (int i = 0; i < file->vn_cnt; ++i, version = After<Elf64_Vernaux>(version, version->vna_next)) {
      if ((version->vna_other & kVersionMask) == number) return object.names + version->vna_name;
    }
    if (file->vn_next == 0) return nullptr;
  }
}

namespace {

constexpr Elf64_Half kNoVersion = 1, kOldestVersion = 2;  // in the order of the object; 0: local

// Whether the dynamic linker takes a definition in `definer` for this version; `needed` null: for none. As check_match of
// glibc's elf/dl-lookup.c, but for the newest of several versions if none is needed.
bool IsTaken(const DefinedVersions& versions, const DynamicSymbols& defined, const Elf64_Sym& found,
             const char* needed) {
  if (versions.numbers == nullptr) return true;  // no version of an object without any differs
  const Elf64_Half marked = versions.numbers[&found - defined.symbols], number = marked & kVersionMask;
  if (needed == nullptr) return number <= kOldestVersion;
  return (marked == number && number <= kNoVersion) || IsNamed(versions, number, defined.names, needed);
}

// `at` null: any definition.
bool Defines(const link_map& definer, const char* name, const char* needed, const void* at) {
  const DynamicSymbols defined = SymbolsAt(definer.l_ld, definer.l_addr);
  const DefinedVersions versions = DefinedVersionsOf(definer);
  const auto fits = [&](const Elf64_Sym& found) {
    const bool is_chosen_at_run_time = ELF64_ST_TYPE(found.st_info) == STT_GNU_IFUNC;
    if (!IsDefinition(found) || (at != nullptr && !is_chosen_at_run_time && AddressOf(defined, found) != at))
      return false;
    return IsTaken(versions, defined, found, needed);
  };
  return FindSymbol(defined, name, fits) != nullptr;
}

// Whether the dynamic linker will bind a symbol that the object imports to `real`, the first default definition in the
// order of objects. Any version of a name may be another function.
bool WillLeadTo(const ImportingObject& object, uint32_t symbol, const void* real) {
  const link_map* definer = ObjectOf(real);
  if (definer == nullptr || object.symbols[symbol].st_shndx != SHN_UNDEF) return false;
  return Defines(*definer, object.names + object.symbols[symbol].st_name, NeededVersion(object, symbol), real);
}

// ---- Entries ----

struct Replacing {
  const Replacements* by;
  bool any;
};

void Replace(const ImportingObject& object, const ImportEntry& entry, void* given) {
  auto* replacing = static_cast<Replacing*>(given);
  const Replacements& by = *replacing->by;
  const int number = by.number_of(entry.name);
  if (number < 0 || by.reals[number] == nullptr || !LeadsTo(object, entry, by.reals[number])) return;
  replacing->any |= StoreEntry(object, entry.at, reinterpret_cast<uintptr_t>(by.wrappers[number]));
}

}  // namespace

bool DescribeImports(const link_map* map, ImportingObject* object) {
  object->map = map;
  for (const Elf64_Dyn* entry = map->l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const uintptr_t address = AddressIn(*entry, map->l_ld, map->l_addr);
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
      case DT_VERSYM:
        object->versions = reinterpret_cast<const Elf64_Half*>(address);
        break;
      case DT_VERNEED:
        object->needed = reinterpret_cast<const Elf64_Verneed*>(map->l_addr + entry->d_un.d_ptr);
        break;
      default:
        break;
    }
  }
  dl_find_object found;
  if (object->symbols == nullptr || object->names == nullptr || !FindObject(map->l_ld, &found)) return false;
  object->start = reinterpret_cast<uintptr_t>(found.dlfo_map_start);
  object->end = reinterpret_cast<uintptr_t>(found.dlfo_map_end);
  // Constructors of libraries may have started threads, which record.
  const auto* one_thread = static_cast<const char*>(FindFunction("__libc_single_threaded"));
  const ProgramHeaders headers = FindProgramHeaders(
      found, one_thread != nullptr && *one_thread != 0 ? HeaderSearch::kMappings : HeaderSearch::kMemory);
  for (const Elf64_Phdr& header : headers) {
    const uintptr_t start = map->l_addr + header.p_vaddr, page = start & ~(PageBytes() - 1);
    if (header.p_type == PT_LOAD && page < object->start) object->start = page;
    if (header.p_type == PT_LOAD && start + header.p_memsz > object->end) object->end = start + header.p_memsz;
    if (header.p_type != PT_GNU_RELRO) continue;
    object->relro_start = page;
    object->relro_end = (start + header.p_memsz) & ~(PageBytes() - 1);  // as libc: only whole pages
  }
  return headers.first != nullptr;
}

bool IsOwnLibrary(const ImportingObject& object) { return object.start == reinterpret_cast<uintptr_t>(__ehdr_start); }

bool IsUnbound(const ImportingObject& object, const ImportEntry& entry, uintptr_t leads_to) {
  return entry.symbol != 0 && leads_to >= object.start && leads_to < object.end;
}

bool LeadsTo(const ImportingObject& object, const ImportEntry& entry, const void* real) {
  const uintptr_t leads_to = *entry.at;
  if (leads_to == reinterpret_cast<uintptr_t>(real)) return true;
  return IsUnbound(object, entry, leads_to) && WillLeadTo(object, entry.symbol, real);
}

bool IsDefinedEarlier(const char* name, const char* needed, const void* real) {
  const link_map* definer = ObjectOf(real);
  for (const link_map* object = FirstObject(); object != nullptr && object != definer; object = NextInSearch(object)) {
    if (object->l_ld != nullptr && Defines(*object, name, needed, nullptr)) return true;
  }
  return false;
}

// MADV_POPULATE_READ or _WRITE: fails where the page may not be read, or written (EINVAL), and changes no byte.
static long Populate(uintptr_t page, int advice) {
  const long result = RawSyscall(SYS_madvise, page, PageBytes(), advice);
  return SyscallFailed(result) || ActsOnAdvice(advice) ? result : -EINVAL;  // EINVAL: as before Linux 5.14
}
static long PopulateForWrites(uintptr_t page) {
  constexpr int kPopulateWrite = 23;
  return Populate(page, kPopulateWrite);
}

bool IsWritable(uintptr_t page) { return !SyscallFailed(PopulateForWrites(page)); }

bool TellsWhatIsWritable() {
  uintptr_t own = 0;
  return IsWritable(reinterpret_cast<uintptr_t>(&own) & ~(PageBytes() - 1));
}

// Linux before 5.14 does not know MADV_POPULATE. There, futex tells: it reads a word, or adds 0 to it.
static bool FutexReads(uintptr_t word) {
  const timespec no_time = {0, 0};
  return RawSyscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &no_time, 0, 0) != -EFAULT;
}
static bool FutexWrites(uintptr_t word) {
  uint32_t nobodys = 0;
  constexpr unsigned kAddNothing = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
  return RawSyscall(SYS_futex, &nobodys, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, word, kAddNothing) != -EFAULT;
}

bool MayBeRead(uintptr_t page) {
  constexpr int kPopulateRead = 22;
  return !SyscallFailed(Populate(page, kPopulateRead)) || FutexReads(page);
}

bool StoreEntry(const ImportingObject& object, uintptr_t* entry, uintptr_t value) {
  const uintptr_t page = reinterpret_cast<uintptr_t>(entry) & ~(PageBytes() - 1);
  // Who made such a page writable may write to it again. A program may protect its own data, too.
  const bool sealed =
      object.IsInRelro(entry) ? !IsWritable(page) : PopulateForWrites(page) == -EINVAL && !FutexWrites(page);
  if (sealed && SyscallFailed(RawSyscall(SYS_mprotect, page, PageBytes(), PROT_READ | PROT_WRITE))) return false;
  __atomic_store_n(entry, value, __ATOMIC_RELEASE);
  if (sealed) RawSyscall(SYS_mprotect, page, PageBytes(), PROT_READ);
  return true;
}

void VisitEntries(const ImportingObject& object,
                  void (*visit)(const ImportingObject& object, const ImportEntry& entry, void* given), void* given) {
  for (const Relocations& of : {object.calls, object.data}) {
    for (size_t i = 0; of.first != nullptr && i < of.bytes / sizeof(Elf64_Rela); ++i) {
      const Elf64_Rela& relocation = of.first[i];
      const auto type = ELF64_R_TYPE(relocation.r_info);
      // The last case is a pointer in the object's own data: `free_function = mi_free`. It must equal the others, as
      // without us.
      const bool is_data = type == kPointer && relocation.r_addend == 0;
      if (type != kCallSlot && type != kGlobalSlot && !is_data) continue;
      const auto symbol = static_cast<uint32_t>(ELF64_R_SYM(relocation.r_info));
      auto* entry = reinterpret_cast<uintptr_t*>(object.map->l_addr + relocation.r_offset);
      if (reinterpret_cast<uintptr_t>(entry) % sizeof *entry != 0) continue;
      // Only slots for calls are bound late. Another slot that leads into its own object has the address of a stub there,
      // because the program compares such pointers. The stub's slot for calls leads to us.
      const uint32_t unbound = type == kCallSlot ? symbol : 0;
      visit(object, {entry, object.names + object.symbols[symbol].st_name, unbound}, given);
    }
  }
}

bool ReplaceImports(const ImportingObject& object, const Replacements& by) {
  Replacing replacing = {&by, false};
  VisitEntries(object, Replace, &replacing);
  return replacing.any;
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
