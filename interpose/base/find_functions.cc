#include "interpose/base/find_functions.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include "interpose/base/late_functions.h"
#include "interpose/base/module_scope.h"
#include "interpose/base/symbol_versions.h"
#include "sampler/contract/loaded_objects.h"

extern "C" HOLDFAST_HIDDEN const char __ehdr_start[];

namespace holdfast {
namespace {

bool IsLibrary(const link_map* object) { return object->l_addr == reinterpret_cast<uintptr_t>(__ehdr_start); }

const link_map* FirstAfterLibrary() {
  const link_map* object = FirstObject();
  while (object != nullptr && !IsLibrary(object)) object = NextInSearch(object);
  return object != nullptr ? NextInSearch(object) : nullptr;
}

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

}  // namespace

void* FindFunction(const SymbolName& name) {
  for (const link_map* object = FirstObject(); object != nullptr; object = NextInSearch(object)) {
    if (void* found = DefinedFunctions(object).Find(name, nullptr)) return found;
  }
  return nullptr;
}

void* FindNextFunction(const SymbolName& name) {
  for (const link_map* object = FirstAfterLibrary(); object != nullptr; object = NextInSearch(object)) {
    if (void* found = DefinedFunctions(object).Find(name, nullptr)) return found;
  }
  return nullptr;
}

bool FindLateFunction(bool is_alone, const SymbolName& name, const char* version, void** found) {
  struct Wanted {
    const SymbolName& name;
    const char* version;
    void* found;
  } wanted = {name, version, nullptr};
  const auto visit = [](const link_map* object, void* given) {
    auto* one = static_cast<Wanted*>(given);
    one->found = DefinedFunctions(object).Find(one->name, one->version);
    return one->found != nullptr;
  };
  const bool searched = VisitAfterLibrary(is_alone, visit, &wanted);
  *found = wanted.found;
  return searched;
}

void FindRealFunctions() {
  int left = kRealFunctions;
  for (const link_map* object = FirstAfterLibrary(); object != nullptr && left != 0; object = NextInSearch(object)) {
    const DefinedFunctions defined(object);
    for (int i = 0; i < kRealFunctions; ++i) {
      void** const function = RealFunction(i);
      if (*function != nullptr) continue;
      *function = defined.Find(kRealNames[i].name, kRealNames[i].version);
      if (*function != nullptr) --left;
    }
  }
  if (left != 0) SubstituteMissing();
}

}  // namespace holdfast
