// Looks up a symbol in a loaded object without the dynamic linker: no lock, no allocation.
//
//     const DynamicSymbols libc = SymbolsAt(map->l_ld, map->l_addr);
//     const Elf64_Sym* found = FindSymbol(libc, "malloc", IsDefinition);
//
// Any thread, signal handlers, as long as the object stays loaded. Compares names without strcmp: a sanitizer defines
// one that cannot be called before the sanitizer has started.
#ifndef HOLDFAST_SAMPLER_CONTRACT_DYNAMIC_SYMBOLS_H_
#define HOLDFAST_SAMPLER_CONTRACT_DYNAMIC_SYMBOLS_H_

#include <elf.h>

#include <cstdint>

#include "sampler/contract/text.h"

namespace holdfast {

// The GNU hash table of an object (DT_GNU_HASH, which nearly every object of the last fifteen years has):
//   4 numbers: buckets, first symbol in the table, words of the Bloom filter, shift; then filter, buckets, chains.
//
// The older DT_HASH: 2 numbers: buckets, symbols; then buckets, chains. Imports are in it, too.
struct DynamicSymbols {
  uintptr_t bias = 0;
  const uint32_t* hash = nullptr;
  const uint32_t* old_hash = nullptr;
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
};

// Returns the address that an entry of the section at `dynamic` points to. ld.so relocates the section in place, except
// if it is read-only (the vDSO). A relocated address is in the same object as the section, and no object is larger than
// kMaxObjectBytes. The bias does not tell: it is negative if the object is below the addresses in its file.
inline constexpr uintptr_t kMaxObjectBytes = uintptr_t{1} << 32;
inline uintptr_t AddressIn(const Elf64_Dyn& entry, const Elf64_Dyn* dynamic, uintptr_t bias) {
  const uintptr_t address = entry.d_un.d_ptr, section = reinterpret_cast<uintptr_t>(dynamic);
  const bool is_relocated = address - section + kMaxObjectBytes < 2 * kMaxObjectBytes;
  return is_relocated ? address : address + bias;
}

// `dynamic` may be null: an object without symbols. Stops as soon as all is found, because every start calls it for
// each object.
inline DynamicSymbols SymbolsAt(const Elf64_Dyn* dynamic, uintptr_t bias) {
  DynamicSymbols found;
  found.bias = bias;
  for (const Elf64_Dyn* entry = dynamic; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag > DT_SYMTAB && entry->d_tag != DT_GNU_HASH) continue;
    const uintptr_t address = AddressIn(*entry, dynamic, bias);
    if (entry->d_tag == DT_GNU_HASH) found.hash = reinterpret_cast<const uint32_t*>(address);
    if (entry->d_tag == DT_HASH) found.old_hash = reinterpret_cast<const uint32_t*>(address);
    if (entry->d_tag == DT_SYMTAB) found.symbols = reinterpret_cast<const Elf64_Sym*>(address);
    if (entry->d_tag == DT_STRTAB) found.names = reinterpret_cast<const char*>(address);
    if (found.hash != nullptr && found.symbols != nullptr && found.names != nullptr) break;
  }
  return found;
}

constexpr uint32_t HashOfSymbol(const char* name) {
  uint32_t hash = 5381;
  for (const char* at = name; *at != '\0'; ++at) hash = hash * 33 + static_cast<uint8_t>(*at);
  return hash;
}

constexpr uint32_t OldHashOfSymbol(const char* name) {
  uint32_t hash = 0;
  for (const char* at = name; *at != '\0'; ++at) {
    hash = (hash << 4) + static_cast<uint8_t>(*at);
    hash = (hash ^ (hash >> 24 & 0xf0)) & 0xfffffff;
  }
  return hash;
}

// A name, hashed once for all objects that are searched.
struct SymbolName {
  constexpr SymbolName(const char* name) : text(name), hash(HashOfSymbol(name)) {}

  const char* text;
  uint32_t hash;
};

// Returns the first symbol of this name for which `wanted` is true, or null.
template <typename Wanted>
const Elf64_Sym* FindSymbol(const DynamicSymbols& object, const SymbolName& name, Wanted wanted) {
  if (object.symbols == nullptr || object.names == nullptr) return nullptr;
  if (object.hash == nullptr) {
    const uint32_t buckets = object.old_hash != nullptr ? object.old_hash[0] : 0;
    if (buckets == 0) return nullptr;
    const uint32_t *const bucket = object.old_hash + 2, *const chain = bucket + buckets;
    for (uint32_t i = bucket[OldHashOfSymbol(name.text) % buckets]; i != STN_UNDEF; i = chain[i]) {
      const Elf64_Sym& symbol = object.symbols[i];
      if (wanted(symbol) && TextEquals(object.names + symbol.st_name, name.text)) return &symbol;
    }
    return nullptr;
  }
  const uint32_t hash = name.hash;
  const uint32_t buckets = object.hash[0], first = object.hash[1], words = object.hash[2], shift = object.hash[3];
  if (buckets == 0 || words == 0) return nullptr;
  const auto* filter = reinterpret_cast<const uint64_t*>(object.hash + 4);
  const uint64_t word = filter[hash / 64 % words];
  if ((word >> hash % 64 & word >> (hash >> shift) % 64 & 1) == 0) return nullptr;
  const auto* bucket = reinterpret_cast<const uint32_t*>(filter + words);
  const uint32_t* chain = bucket + buckets;
  uint32_t index = bucket[hash % buckets];
  if (index < first) return nullptr;
  for (;; ++index) {
    const uint32_t other = chain[index - first];
    const Elf64_Sym& symbol = object.symbols[index];
    if ((other | 1) == (hash | 1) && TextEquals(object.names + symbol.st_name, name.text) && wanted(symbol))
      return &symbol;
    if ((other & 1) != 0) return nullptr;  // the last of its bucket
  }
}

inline bool IsDefinition(const Elf64_Sym& symbol) { return symbol.st_shndx != SHN_UNDEF; }

inline bool IsImport(const Elf64_Sym& symbol) { return symbol.st_shndx == SHN_UNDEF; }

inline void* AddressOf(const DynamicSymbols& object, const Elf64_Sym& symbol) {
  return reinterpret_cast<void*>(symbol.st_shndx == SHN_ABS ? symbol.st_value : object.bias + symbol.st_value);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_DYNAMIC_SYMBOLS_H_
