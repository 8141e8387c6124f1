#include "interpose/base/find_functions.h"

#include <link.h>

#include <cstdint>

#include "interpose/base/defined_functions.h"
#include "interpose/base/late_functions.h"
#include "interpose/base/readiness.h"
#include "sampler/contract/loaded_objects.h"

extern "C" HOLDFAST_HIDDEN const char __ehdr_start[];

namespace holdfast {
namespace {

bool IsLibrary(const link_map* object) { return object->l_addr == reinterpret_cast<uintptr_t>(__ehdr_start); }

const link_map* FirstAfterLibrary() {
  const link_map* object = FirstObject();
  if (loaded_late) return object;  // the library is after them all
  while (object != nullptr && !IsLibrary(object)) object = NextInSearch(object);
  return object != nullptr ? NextInSearch(object) : nullptr;
}

}  // namespace

void* FindFunction(const SymbolName& name) {
  for (const link_map* object = FirstObject(); object != nullptr; object = NextInSearch(object)) {
    if (void* found = DefinedFunctions(object).Find(name, nullptr)) return found;
  }
  return nullptr;
}

void* FindNextFunction(const SymbolName& name) {
  for (const link_map* object = FirstAfterLibrary(); object != nullptr; object = NextInSearch(object)) {
    if (IsLibrary(object)) continue;
    if (void* found = DefinedFunctions(object).Find(name, nullptr)) return found;
  }
  return nullptr;
}

bool CallWithObjectsLocked(void (*call)(void* given), void* given) {
  using Visitor = int (*)(dl_phdr_info*, size_t, void*);
  const auto visit_all = reinterpret_cast<int (*)(Visitor, void*)>(FindFunction("dl_iterate_phdr"));
  if (visit_all == nullptr) return false;
  struct Call {
    void (*function)(void*);
    void* given;
  } one = {call, given};
  // At the first object, which exists always, the whole list is locked.
  const Visitor visit = [](dl_phdr_info*, size_t, void* to) {
    const auto* wanted = static_cast<const Call*>(to);
    wanted->function(wanted->given);
    return 1;
  };
  visit_all(visit, &one);
  return true;
}

void FindRealFunctions() {
  int left = kRealFunctions;
  for (const link_map* object = FirstAfterLibrary(); object != nullptr && left != 0; object = NextInSearch(object)) {
    if (IsLibrary(object)) continue;
    const DefinedFunctions defined(object);
    for (int i = 0; i < kRealFunctions; ++i) {
      void** const function = RealFunction(i);
      if (*function != nullptr) continue;
      *function = defined.Find(kRealNames[i].name, kRealNames[i].version);
      if (*function == nullptr && loaded_late && kRealNames[i].version == nullptr)
        *function = defined.FindHiddenOfGlibc(kRealNames[i].name);
      if (*function != nullptr) --left;
    }
  }
  if (left != 0) SubstituteMissing();
}

}  // namespace holdfast
