// Versions of symbols in loaded objects, read without the dynamic linker.
#ifndef HOLDFAST_INTERPOSE_BASE_SYMBOL_VERSIONS_H_
#define HOLDFAST_INTERPOSE_BASE_SYMBOL_VERSIONS_H_

#include <elf.h>
#include <link.h>

#include "sampler/contract/dynamic_symbols.h"
#include "sampler/contract/text.h"

namespace holdfast {

// The highest bit hides a definition from references without a version.
inline constexpr Elf64_Half kVersionMask = 0x7fff;
inline constexpr Elf64_Half kHiddenVersion = 0x8000;

template <typename Record>
const Record* After(const void* record, size_t bytes) {
  return reinterpret_cast<const Record*>(static_cast<const char*>(record) + bytes);
}

struct DefinedVersions {
  const Elf64_Half* numbers = nullptr;
  const Elf64_Verdef* names = nullptr;
};

// ld.so relocates DT_VERSYM in place, but neither DT_VERDEF nor DT_VERNEED.
inline DefinedVersions DefinedVersionsOf(const link_map& map) {
  DefinedVersions found;
  for (const Elf64_Dyn* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_VERSYM)
      found.numbers = reinterpret_cast<const Elf64_Half*>(AddressIn(*entry, map.l_ld, map.l_addr));
    if (entry->d_tag == DT_VERDEF) found.names = reinterpret_cast<const Elf64_Verdef*>(map.l_addr + entry->d_un.d_ptr);
  }
  return found;
}

// Null: the object has no such version.
inline const char* NameOfVersion(const DefinedVersions& versions, Elf64_Half number, const char* names) {
  for (const Elf64_Verdef* version = versions.names; version != nullptr;
       version = After<Elf64_Verdef>(version, version->vd_next)) {
    if ((version->vd_ndx & kVersionMask) == number)
      return names + After<Elf64_Verdaux>(version, version->vd_aux)->vda_name;
    if (version->vd_next == 0) break;
  }
  return nullptr;
}

inline bool IsNamed(const DefinedVersions& versions, Elf64_Half number, const char* names, const char* name) {
  const char* found = NameOfVersion(versions, number, names);
  return found != nullptr && TextEquals(found, name);
}

inline bool BeginsNamed(const DefinedVersions& versions, Elf64_Half number, const char* names, const char* beginning) {
  const char* found = NameOfVersion(versions, number, names);
  while (found != nullptr && *beginning != 0 && *found == *beginning) ++found, ++beginning;
  return found != nullptr && *beginning == 0;
}

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_SYMBOL_VERSIONS_H_
