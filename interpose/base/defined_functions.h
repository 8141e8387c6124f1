// The functions that one loaded object defines, by name and version.
#ifndef HOLDFAST_INTERPOSE_BASE_DEFINED_FUNCTIONS_H_
#define HOLDFAST_INTERPOSE_BASE_DEFINED_FUNCTIONS_H_

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include "interpose/base/symbol_versions.h"
#include "sampler/contract/dynamic_symbols.h"

namespace holdfast {

class DefinedFunctions {
 public:
  explicit DefinedFunctions(const link_map* object)
      : symbols_(SymbolsAt(object->l_ld, object->l_addr)),
        versions_(object->l_ld != nullptr ? DefinedVersionsOf(*object) : DefinedVersions{}) {}

  // `version` null: the default one.
  void* Find(const SymbolName& name, const char* version) const {
    const Elf64_Sym* symbol = FindSymbol(symbols_, name, [&](const Elf64_Sym& candidate) {
      return IsDefinition(candidate) && candidate.st_value != 0 && ELF64_ST_TYPE(candidate.st_info) != STT_TLS &&
             Fits(candidate, version);
    });
    return symbol != nullptr ? Resolved(*symbol) : nullptr;
  }
  // Finds a function that has only a hidden version of glibc's. The dynamic linker binds a program to it that needs this
  // version: libc_malloc_debug.so has malloc@GLIBC_2.2.5 only.
  void* FindHiddenOfGlibc(const SymbolName& name) const {
    if (versions_.numbers == nullptr || versions_.names == nullptr) return nullptr;
    const Elf64_Sym* symbol = FindSymbol(symbols_, name, [&](const Elf64_Sym& candidate) {
      return IsDefinition(candidate) && candidate.st_value != 0 && ELF64_ST_TYPE(candidate.st_info) == STT_FUNC &&
             BeginsNamed(versions_, versions_.numbers[&candidate - symbols_.symbols] & kVersionMask, symbols_.names,
                         "GLIBC_");
    });
    return symbol != nullptr ? AddressOf(symbols_, *symbol) : nullptr;
  }

 private:
  bool Fits(const Elf64_Sym& symbol, const char* version) const {
    if (versions_.numbers == nullptr || (version != nullptr && versions_.names == nullptr)) return true;
    const Elf64_Half number = versions_.numbers[&symbol - symbols_.symbols];
    if (version == nullptr) return (number & kHiddenVersion) == 0;
    return IsNamed(versions_, number & kVersionMask, symbols_.names, version);
  }

  void* Resolved(const Elf64_Sym& symbol) const {
    void* address = AddressOf(symbols_, symbol);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_GNU_IFUNC) return address;
    return reinterpret_cast<void* (*)(unsigned long)>(address)(getauxval(AT_HWCAP));
  }

  DynamicSymbols symbols_;
  DefinedVersions versions_;
};

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_DEFINED_FUNCTIONS_H_
