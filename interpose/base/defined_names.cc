#include "interpose/base/defined_names.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

namespace holdfast {
namespace {

// The GNU hash table of an object (DT_GNU_HASH; nearly every object of the last fifteen years has one):
//   4 numbers: buckets, first symbol in the table, words of the Bloom filter, shift; then filter, buckets, chains.
// Of the older DT_HASH, only the second number is looked at: how many symbols there are.
struct Symbols {
  const uint32_t* hash = nullptr;
  const uint32_t* old_hash = nullptr;
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
};

Symbols SymbolsOf(const link_map* object) {
  Symbols found;
  for (const Elf64_Dyn* entry = object->l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const uintptr_t address = AddressIn(*entry, object);
    if (entry->d_tag == DT_GNU_HASH) found.hash = reinterpret_cast<const uint32_t*>(address);
    if (entry->d_tag == DT_HASH) found.old_hash = reinterpret_cast<const uint32_t*>(address);
    if (entry->d_tag == DT_SYMTAB) found.symbols = reinterpret_cast<const Elf64_Sym*>(address);
    if (entry->d_tag == DT_STRTAB) found.names = reinterpret_cast<const char*>(address);
  }
  return found;
}

uint32_t HashOf(const char* name) {
  uint32_t hash = 5381;
  for (const char* at = name; *at != '\0'; ++at) hash = hash * 33 + static_cast<uint8_t>(*at);
  return hash;
}

// Whether an object has a symbol of this name that is `wanted`.
template <typename Wanted>
bool HasSymbol(const Symbols& object, const char* name, uint32_t hash, Wanted wanted) {
  if (object.symbols == nullptr || object.names == nullptr) return false;
  if (object.hash == nullptr) {
    for (uint32_t i = 0; object.old_hash != nullptr && i < object.old_hash[1]; ++i) {
      if (wanted(object.symbols[i]) && strcmp(object.names + object.symbols[i].st_name, name) == 0) return true;
    }
    return false;
  }
  const uint32_t buckets = object.hash[0], first = object.hash[1], words = object.hash[2], shift = object.hash[3];
  if (buckets == 0 || words == 0) return false;
  const auto* filter = reinterpret_cast<const uint64_t*>(object.hash + 4);
  const uint64_t word = filter[hash / 64 % words];
  if ((word >> hash % 64 & word >> (hash >> shift) % 64 & 1) == 0) return false;
  const auto* bucket = reinterpret_cast<const uint32_t*>(filter + words);
  const uint32_t* chain = bucket + buckets;
  uint32_t index = bucket[hash % buckets];
  if (index < first) return false;
  for (;; ++index) {
    const uint32_t other = chain[index - first];
    const Elf64_Sym& symbol = object.symbols[index];
    if ((other | 1) == (hash | 1) && strcmp(object.names + symbol.st_name, name) == 0 && wanted(symbol)) return true;
    if ((other & 1) != 0) return false;  // the last of its bucket
  }
}

bool IsDefinition(const Elf64_Sym& symbol) { return symbol.st_shndx != SHN_UNDEF; }

const link_map* FirstThatDefines(const char* name, const link_map* object = _r_debug.r_map) {
  const uint32_t hash = HashOf(name);
  while (object != nullptr && !HasSymbol(SymbolsOf(object), name, hash, IsDefinition)) object = object->l_next;
  return object;
}

}  // namespace

const link_map* ObjectOf(const void* address) {
  dl_find_object found;
  return address != nullptr && _dl_find_object(const_cast<void*>(address), &found) == 0 ? found.dlfo_link_map : nullptr;
}

bool IsDefinedAnywhere(const char* name) { return FirstThatDefines(name) != nullptr; }

bool IsAnyDefinedAnywhere(const char* const* names, int count) {
  for (const link_map* object = _r_debug.r_map; object != nullptr; object = object->l_next) {
    const Symbols symbols = SymbolsOf(object);
    for (int i = 0; i < count; ++i) {
      if (HasSymbol(symbols, names[i], HashOf(names[i]), IsDefinition)) return true;
    }
  }
  return false;
}

bool IsDefinedBehind(const char* name, const void* base) {
  const link_map* object = _r_debug.r_map;
  while (object != nullptr && object->l_addr != reinterpret_cast<uintptr_t>(base)) object = object->l_next;
  return object != nullptr && FirstThatDefines(name, object->l_next) != nullptr;
}

bool IsDefinedFirstAt(const char* name, const void* base) {
  const link_map* object = FirstThatDefines(name);
  return object != nullptr && object->l_addr == reinterpret_cast<uintptr_t>(base);
}

bool IsEntryFor(const char* name, const void* address) {
  const link_map* object = ObjectOf(address);
  if (object == nullptr) return false;
  const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - object->l_addr;
  return HasSymbol(SymbolsOf(object), name, HashOf(name), [offset](const Elf64_Sym& symbol) {
    return symbol.st_shndx == SHN_UNDEF && symbol.st_value == offset;
  });
}

}  // namespace holdfast
