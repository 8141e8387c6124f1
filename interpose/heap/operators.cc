#include "interpose/heap/operators.h"

#include <link.h>
#include <string.h>

#include "interpose/base/attached_imports.h"
#include "interpose/base/defined_names.h"
#include "interpose/base/find_functions.h"
#include "interpose/base/module_scope.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/hot_path/this_thread.h"

// Our own, by hidden names: the exported names would give us the program's, if it has any.
#define HOLDFAST_NEW(name, parameters) extern "C" HOLDFAST_HIDDEN void* holdfast_own##name parameters;
#define HOLDFAST_DELETE(name, parameters) extern "C" HOLDFAST_HIDDEN void holdfast_own##name parameters;
#include "interpose/heap/operators.inc"
#undef HOLDFAST_NEW
#undef HOLDFAST_DELETE

extern "C" HOLDFAST_HIDDEN const char __ehdr_start[];
extern "C" HOLDFAST_HIDDEN const char _end[];

namespace holdfast {

HOLDFAST_HOT_DATA constinit bool operators_skipped = false;

namespace {

constinit bool are_global = false;
constinit Operators global_operators{};
constinit FunctionsOfModules<Operators> by_module{};

constexpr SymbolName kNames[] = {
#define HOLDFAST_NEW(name, parameters) #name,
#define HOLDFAST_DELETE(name, parameters) #name,
#include "interpose/heap/operators.inc"
#undef HOLDFAST_NEW
#undef HOLDFAST_DELETE
};
constexpr int kForms = sizeof kNames / sizeof *kNames;

Operators OperatorsIn(void* const* found) {
  Operators all{};
#define HOLDFAST_NEW(name, parameters) all.name = reinterpret_cast<void*(*)parameters>(*found++);
#define HOLDFAST_DELETE(name, parameters) all.name = reinterpret_cast<void(*) parameters>(*found++);
#include "interpose/heap/operators.inc"
#undef HOLDFAST_NEW
#undef HOLDFAST_DELETE
  return all;
}

// By its object's file name.
bool IsCxxLibrarys(const void* function) {
  const link_map* object = ObjectOf(function);
  const char* path = object != nullptr ? object->l_name : nullptr;
  if (path == nullptr) return false;
  const char* slash = strrchr(path, '/');
  const char* name = slash != nullptr ? slash + 1 : path;
  return strncmp(name, "libstdc++.so", 12) == 0 || strncmp(name, "libc++.so", 9) == 0 ||
         strncmp(name, "libc++abi.so", 12) == 0;
}

// Whether every form is a C++ library's own. A form missing from an old library is nobody's.
bool AreCxxLibrarys(const Operators& found) {
  bool all = found._Znwm != nullptr && found._ZdlPv != nullptr;
#define HOLDFAST_NEW(name, parameters) \
  all = all && (found.name == nullptr || IsCxxLibrarys(reinterpret_cast<void*>(found.name)));
#define HOLDFAST_DELETE(name, parameters) HOLDFAST_NEW(name, parameters)
#include "interpose/heap/operators.inc"
#undef HOLDFAST_NEW
#undef HOLDFAST_DELETE
  return all;
}

// Whether the program's own look-up of every form finds us. An executable with a form of its own comes before us, and
// the C++ library's other forms would have called that one.
bool ReachUs() {
  bool all = true;
  for (const SymbolName& name : kNames) all = all && IsDefinedFirstAt(name, __ehdr_start);
  return all;
}

using ModuleEntry = FunctionsOfModules<Operators>::Entry;

const Operators& OfModule(uintptr_t caller, Operators* room) {
  // One form may call another: libstdc++'s new[] jumps to new (the caller is then our own call of new[]), its nothrow
  // forms call the plain ones. All belong to the first caller.
  if (IsInOperator() ||
      caller - reinterpret_cast<uintptr_t>(__ehdr_start) < static_cast<uintptr_t>(_end - __ehdr_start)) {
    if (LastOperators() != nullptr) return static_cast<const ModuleEntry*>(LastOperators())->functions;
    *room = {};
    return *room;
  }
  // Most calls come from the module of the last one: the loader's table need not be searched.
  const auto* last = static_cast<const ModuleEntry*>(LastOperators());
  if (LIKELY(last != nullptr && last->IsOf(caller))) return last->functions;
  SetLastOperators(nullptr);
  const link_map* module = ObjectOf(reinterpret_cast<void*>(caller));
  if (const ModuleEntry* entry = by_module.Find(module); LIKELY(entry != nullptr)) {
    SetLastOperators(entry);
    return entry->functions;
  }
  void* functions[kForms];
  const bool stay = FindInScope(module, kNames, kForms, functions);
  Operators& found = *room;
  found = OperatorsIn(functions);
  found.skippable = owns_malloc && AreCxxLibrarys(found);
  if (!found.skippable) other_allocators.fetch_or(kOtherNew);
  // A result without any definition is remembered as well, until a dlclose: a search writes memory that threads share.
  const ModuleEntry* entry = by_module.Remember(module, found, !stay || found._Znwm == nullptr);
  if (found._Znwm != nullptr) SetLastOperators(entry);
  return found;
}

}  // namespace

void FindOperators() {
  if (!IsDefinedAfter("_Znwm", __ehdr_start)) return;  // a C program: one search instead of twenty
  void* functions[kForms];
  FindAfterLibrary(kNames, kForms, functions);
  Operators found = OperatorsIn(functions);
  if (found._Znwm == nullptr) return;
  found.skippable = owns_malloc && AreCxxLibrarys(found) && ReachUs();
  global_operators = found;
  are_global = true;
  if (!found.skippable) {
    other_allocators.fetch_or(kOtherNew);
    return;
  }
  SkipOperators();
  UseTagInDelete();
}

void FindAllocatorsOperators() {
  static constinit void* functions[kForms] = {};
  const link_map* allocator = ObjectOf(reinterpret_cast<const void*>(real.malloc));
  if (!owns_malloc || allocator == nullptr || allocator == FirstObject()) return;
  for (int i = 0; i < kForms; ++i) {
    functions[i] = FindNextFunction(kNames[i]);
    if (ObjectOf(functions[i]) != allocator) functions[i] = nullptr;
    are_global = are_global || functions[i] != nullptr;
  }
  if (!are_global) return;
  global_operators = OperatorsIn(functions);
  other_allocators.fetch_or(kOtherNew);
  RedirectAlso({kNames, functions, kForms});
}

const Operators& OperatorsFor(uintptr_t caller, Operators* room) {
  return are_global ? global_operators : OfModule(caller, room);
}

void ForgetOperatorsByModule() {
  if (!are_global) by_module.ForgetUnloaded();
}

void OperatorsInForkedChild() { by_module.ForgetWriter(); }

}  // namespace holdfast
