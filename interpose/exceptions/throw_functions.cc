#include "interpose/exceptions/throw_functions.h"

#include <link.h>
#include <stdlib.h>

#include "interpose/base/defined_names.h"
#include "interpose/base/find_functions.h"
#include "interpose/base/module_scope.h"

extern "C" HOLDFAST_HIDDEN const char __ehdr_start[];

namespace holdfast {
namespace {

constinit ThrowFunctions global{};

constinit FunctionsOfModules<ThrowFunctions> by_module{};

template <typename Function>
void Look(const char* name, Function* function) {
  *function = reinterpret_cast<Function>(FindNextFunction(name));
}

ThrowFunctions FindFor(uintptr_t caller) {
  ThrowFunctions found{};
  const link_map* module = ObjectOf(reinterpret_cast<void*>(caller));
  if (const auto* entry = by_module.Find(module); LIKELY(entry != nullptr)) return entry->functions;
  static constexpr SymbolName kNames[] = {"__cxa_throw", "__cxa_rethrow", "__cxa_get_globals", "_Unwind_RaiseException",
                                          "_Unwind_Resume_or_Rethrow"};
  constexpr int kCount = sizeof kNames / sizeof *kNames;
  void* functions[kCount];
  const bool stay = FindInScope(module, kNames, kCount, functions);
  found.cxa_throw = functions[0];
  found.cxa_rethrow = functions[1];
  found.cxa_get_globals = reinterpret_cast<decltype(found.cxa_get_globals)>(functions[2]);
  found.raise_exception = functions[3];
  found.resume_or_rethrow = functions[4];
  if (found.cxa_throw != nullptr || found.raise_exception != nullptr) by_module.Remember(module, found, !stay);
  return found;
}

// Used if no unwinder is loaded. A program that checks for one (a weak symbol) finds our entry, and learns that nobody
// handles its throw.
int RaiseNowhere(void* /*exception*/) {
  constexpr int kEndOfStack = 5;  // _URC_END_OF_STACK
  return kEndOfStack;
}

}  // namespace

void FindThrowFunctions() {
  // A library with one of the two has both; if there is no unwinder, one search is enough.
  if (IsDefinedAfter("_Unwind_RaiseException", __ehdr_start)) {
    Look("_Unwind_RaiseException", &global.raise_exception);
    if (IsDefinedAfter("_Unwind_Resume_or_Rethrow", __ehdr_start))
      Look("_Unwind_Resume_or_Rethrow", &global.resume_or_rethrow);
  }
  if (!IsDefinedAfter("__cxa_throw", __ehdr_start)) return;
  Look("__cxa_throw", &global.cxa_throw);
  Look("__cxa_rethrow", &global.cxa_rethrow);
  Look("__cxa_get_globals", &global.cxa_get_globals);
}

ThrowFunctions ThrowFunctionsFor(uintptr_t caller) {
  if (LIKELY(global.cxa_throw != nullptr)) return global;
  ThrowFunctions found = FindFor(caller);
  if (found.cxa_throw == nullptr) found.cxa_throw = found.cxa_rethrow = reinterpret_cast<void*>(&abort);
  return found;
}

namespace {

void* OfUnwinder(void* ThrowFunctions::*function, uintptr_t caller) {
  if (LIKELY(global.*function != nullptr)) return global.*function;
  const ThrowFunctions found = FindFor(caller);
  return found.*function != nullptr ? found.*function : reinterpret_cast<void*>(&RaiseNowhere);
}

}  // namespace

void* RaiseExceptionFor(uintptr_t caller) { return OfUnwinder(&ThrowFunctions::raise_exception, caller); }
void* ResumeOrRethrowFor(uintptr_t caller) { return OfUnwinder(&ThrowFunctions::resume_or_rethrow, caller); }

void ForgetThrowFunctions() { by_module.ForgetUnloaded(); }

void ThrowFunctionsInForkedChild() { by_module.ForgetWriter(); }

}  // namespace holdfast
