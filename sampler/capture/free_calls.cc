#include "sampler/capture/free_calls.h"

#include <elf.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <initializer_list>

#include "sampler/arch/relocation_types.h"
#include "sampler/capture/find_object.h"
#include "sampler/contract/attributes.h"

namespace holdfast {
namespace {

// Both 0 until they are known.
constinit std::atomic<uintptr_t> own_start{0}, own_end{0};

// A module with more imports or relocations is not checked: reading them would take milliseconds.
constexpr uint32_t kMaxSymbols = 1 << 16;
constexpr uint64_t kMaxRelocations = 1 << 17;

constexpr char kFree[] = "free";

struct DynamicTables {
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  uint64_t name_bytes = 0;
  const uint32_t* gnu_hash = nullptr;
  const Elf64_Rela* calls = nullptr;
  uint64_t call_bytes = 0;
  const Elf64_Rela* others = nullptr;
  uint64_t other_bytes = 0, relative = 0;
  bool symbolic = false;
};

DynamicTables TablesOf(uintptr_t dynamic, AddressRange module, uint64_t bias) {
  DynamicTables tables;
  // glibc has added the bias to these addresses, other loaders have not.
  const auto at = [&](uint64_t value) -> const void* {
    for (const uint64_t address : {value, value + bias}) {
      if (address >= module.start && address < module.end) return reinterpret_cast<const void*>(address);
    }
    return nullptr;
  };
  for (const auto* entry = reinterpret_cast<const Elf64_Dyn*>(dynamic); entry->d_tag != DT_NULL; ++entry) {
    const uint64_t value = entry->d_un.d_val;
    switch (entry->d_tag) {
      case DT_SYMTAB:
        tables.symbols = static_cast<const Elf64_Sym*>(at(value));
        break;
      case DT_STRTAB:
        tables.names = static_cast<const char*>(at(value));
        break;
      case DT_STRSZ:
        tables.name_bytes = value;
        break;
      case DT_GNU_HASH:
        tables.gnu_hash = static_cast<const uint32_t*>(at(value));
        break;
      case DT_JMPREL:
        tables.calls = static_cast<const Elf64_Rela*>(at(value));
        break;
      case DT_PLTRELSZ:
        tables.call_bytes = value;
        break;
      case DT_RELA:
        tables.others = static_cast<const Elf64_Rela*>(at(value));
        break;
      case DT_RELASZ:
        tables.other_bytes = value;
        break;
      case DT_RELACOUNT:
        tables.relative = value;
        break;
      case DT_SYMBOLIC:
        tables.symbolic = true;
        break;
      case DT_FLAGS:
        tables.symbolic = tables.symbolic || (value & DF_SYMBOLIC) != 0;
        break;
      default:
        break;
    }
  }
  return tables;
}

bool IsFree(const DynamicTables& tables, const Elf64_Sym& symbol) {
  return symbol.st_name + sizeof kFree <= tables.name_bytes &&
         memcmp(tables.names + symbol.st_name, kFree, sizeof kFree) == 0;
}

// Returns the symbol's number; 0: the module neither imports nor defines it. Imported symbols precede those in the hash
// table.
uint32_t FindFree(const DynamicTables& tables) {
  const uint32_t buckets = tables.gnu_hash[0], first = tables.gnu_hash[1], words = tables.gnu_hash[2];
  if (buckets == 0) return 0;
  for (uint32_t i = 1; i < first && i < kMaxSymbols; ++i) {
    if (IsFree(tables, tables.symbols[i])) return i;
  }
  uint32_t hash = 5381;
  for (const char* at = kFree; *at != '\0'; ++at) hash = hash * 33 + static_cast<unsigned char>(*at);
  const uint32_t* bucket = tables.gnu_hash + 4 + uint64_t{words} * 2;
  const uint32_t* chain = bucket + buckets;
  uint32_t i = bucket[hash % buckets];
  if (i < first) return 0;
  for (uint32_t steps = 0; steps < kMaxSymbols; ++i, ++steps) {
    if ((chain[i - first] | 1) == (hash | 1) && IsFree(tables, tables.symbols[i])) return i;
    if ((chain[i - first] & 1) != 0) break;
  }
  return 0;
}

const uintptr_t* FindWord(const Elf64_Rela* first, uint64_t bytes, uint32_t symbol, AddressRange module,
                          uint64_t bias) {
  const uint64_t count = bytes / sizeof(Elf64_Rela);
  for (uint64_t i = 0; first != nullptr && i < count && i < kMaxRelocations; ++i) {
    const uint64_t type = ELF64_R_TYPE(first[i].r_info);
    if (ELF64_R_SYM(first[i].r_info) != symbol || (type != kCallSlot && type != kGlobalSlot)) continue;
    const uint64_t word = bias + first[i].r_offset;
    if (word % sizeof(uintptr_t) == 0 && word >= module.start && word < module.end)
      return reinterpret_cast<const uintptr_t*>(word);
  }
  return nullptr;
}

}  // namespace

void SetOwnCode(AddressRange code) {
  own_end.store(code.end, std::memory_order_relaxed);
  own_start.store(code.start, std::memory_order_release);
}

FreeCalls::Where WhereTo(uintptr_t target, AddressRange module) {
  if (target >= module.start && target < module.end) return FreeCalls::kNotYet;
  if (target >= own_start.load(std::memory_order_relaxed) && target < own_end.load(std::memory_order_relaxed))
    return FreeCalls::kHere;
  dl_find_object found;
  // A main program that takes the address of free has its own entry for it, which leads here as well.
  if (!FindObject(target, &found) || found.dlfo_link_map->l_name[0] == '\0') return FreeCalls::kHere;
  return FreeCalls::kElsewhere;
}

HOLDFAST_COLD FreeCalls FreeCallsOf(uintptr_t dynamic, AddressRange module, uint64_t bias) {
  if (own_start.load(std::memory_order_acquire) == 0 || dynamic < module.start || dynamic >= module.end) return {};
  const DynamicTables tables = TablesOf(dynamic, module, bias);
  if (tables.symbols == nullptr || tables.names == nullptr || tables.gnu_hash == nullptr) return {};
  const uint32_t symbol = FindFree(tables);
  if (symbol == 0) return {};
  const bool defines = tables.symbols[symbol].st_shndx != SHN_UNDEF;
  if (defines && tables.symbolic) return {FreeCalls::kElsewhere, nullptr};
  const uintptr_t* word = FindWord(tables.calls, tables.call_bytes, symbol, module, bias);
  if (word == nullptr && tables.others != nullptr) {
    const uint64_t skipped = tables.relative * sizeof(Elf64_Rela);
    if (skipped < tables.other_bytes)
      word = FindWord(tables.others + tables.relative, tables.other_bytes - skipped, symbol, module, bias);
  }
  if (word == nullptr) return {};
  const uintptr_t target = __atomic_load_n(word, __ATOMIC_RELAXED);
  if (defines && target == bias + tables.symbols[symbol].st_value) return {FreeCalls::kElsewhere, nullptr};
  const FreeCalls::Where where = WhereTo(target, module);
  return {where, where == FreeCalls::kNotYet ? word : nullptr};
}

}  // namespace holdfast
