// Entries of loaded objects that lead to functions of other objects (the GOT), and replacing them by wrappers, as the
// dynamic linker would have set them:
//
//     program's GOT:  mallocx ──► libjemalloc.so             before
//                     mallocx ──► our wrapper ──► libjemalloc.so
//
// For names that we must not export, because programs that check for them (`if (mallocx)`, dlsym) would find them. Only
// objects that are loaded when the program starts are reached; results of dlsym stay as they are. Only before main, by
// one thread.
#ifndef HOLDFAST_INTERPOSE_BASE_IMPORT_ENTRIES_H_
#define HOLDFAST_INTERPOSE_BASE_IMPORT_ENTRIES_H_

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/contract/attributes.h"

namespace holdfast {

struct Relocations {
  const Elf64_Rela* first = nullptr;
  size_t bytes = 0;
};

// The parts of an object's dynamic section that lead to its entries.
struct ImportingObject {
  const link_map* map;
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  Relocations calls, data;
  const Elf64_Half* versions = nullptr;      // number of the version of each symbol; null: the object has none
  const Elf64_Verneed* needed = nullptr;     // their names, for those of other objects
  uintptr_t start = 0, end = 0;              // its mapping
  uintptr_t relro_start = 0, relro_end = 0;  // read-only after relocation

  bool IsInRelro(const uintptr_t* entry) const {
    const auto at = reinterpret_cast<uintptr_t>(entry);
    return at >= relro_start && at < relro_end;
  }
};

// False: the object imports nothing, or cannot be read.
HOLDFAST_HIDDEN bool DescribeImports(const link_map* map, ImportingObject* object);

// Whether this is the library itself.
HOLDFAST_HIDDEN bool IsOwnLibrary(const ImportingObject& object);

// The functions to replace, by number. An entry is replaced if it leads to the real function. Before the first call it
// leads back into its object (lazy binding). Then it is replaced if the dynamic linker would bind it to the real
// function: other versions of the name, or another object, may have other functions.
struct Replacements {
  int (*number_of)(const char* name);  // −1: none of them. Called for each entry: fast for other names
  void* const* reals;                  // null: not there
  void* const* wrappers;
};
// Returns whether any entry was set.
HOLDFAST_HIDDEN bool ReplaceImports(const ImportingObject& object, const Replacements& by);

// One entry of an object.
struct ImportEntry {
  uintptr_t* at;
  const char* name;
  uint32_t symbol;  // 0: a pointer in the object's data, which is never bound lazily
};
HOLDFAST_HIDDEN void VisitEntries(const ImportingObject& object,
                                  void (*visit)(const ImportingObject& object, const ImportEntry& entry, void* given),
                                  void* given);
// Whether the entry, which leads there, will be bound at its first call.
HOLDFAST_HIDDEN bool IsUnbound(const ImportingObject& object, const ImportEntry& entry, uintptr_t leads_to);
// Returns the version of a symbol that the object needs; null: any.
HOLDFAST_HIDDEN const char* NeededVersion(const ImportingObject& object, uint32_t symbol);
// Whether an object that comes before `real`'s in search order defines this version: the linker then binds a name to that
// one. Reads all objects before it.
HOLDFAST_HIDDEN bool IsDefinedEarlier(const char* name, const char* needed, const void* real);
// Whether the entry leads to the real function, or will when it is bound.
HOLDFAST_HIDDEN bool LeadsTo(const ImportingObject& object, const ImportEntry& entry, const void* real);
// Whether the page may be written as it is. Before Linux 5.14, false.
HOLDFAST_HIDDEN bool IsWritable(uintptr_t page);
// Whether IsWritable can be true.
HOLDFAST_HIDDEN bool TellsWhatIsWritable();
// Whether the page may be read: a program may protect its own data.
HOLDFAST_HIDDEN bool MayBeRead(uintptr_t page);
// Changes the entry by one store, as other threads may be calling through it. False: its page cannot be made writable.
HOLDFAST_HIDDEN bool StoreEntry(const ImportingObject& object, uintptr_t* entry, uintptr_t value);

// Whether the object imports any name for which `wanted` is true.
HOLDFAST_HIDDEN bool ImportsAny(const ImportingObject& object, bool (*wanted)(const char* name));

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_IMPORT_ENTRIES_H_
