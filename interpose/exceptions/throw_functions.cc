#include "interpose/exceptions/throw_functions.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>

#include <atomic>

#include "interpose/base/defined_names.h"
#include "interpose/base/real.h"

extern "C" HOLDFAST_HIDDEN const char __ehdr_start[];

namespace holdfast {
namespace {

constinit ThrowFunctions global{};

struct OfModule {
  std::atomic<const void*> module;
  ThrowFunctions functions;
};
constinit OfModule by_module[32]{};
constinit std::atomic<bool> adding{false};

template <typename Function>
void Look(void* scope, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(scope, name));
}

void Find(void* scope, ThrowFunctions* found) {
  Look(scope, "__cxa_throw", &found->cxa_throw);
  Look(scope, "__cxa_rethrow", &found->cxa_rethrow);
  Look(scope, "__cxa_get_globals", &found->cxa_get_globals);
  Look(scope, "_Unwind_RaiseException", &found->raise_exception);
  Look(scope, "_Unwind_Resume_or_Rethrow", &found->resume_or_rethrow);
}

// In what an object that is loaded can reach. False: there is none of that name.
bool FindIn(const char* name, ThrowFunctions* found) {
  const int saved_errno = errno;
  void* handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) {
    Find(handle, found);
    real.dlclose(handle);
  }
  errno = saved_errno;
  return handle != nullptr;
}

ThrowFunctions FindFor(uintptr_t caller) {
  ThrowFunctions found{};
  const link_map* module = ObjectOf(reinterpret_cast<void*>(caller));
  if (module == nullptr) return found;
  for (const OfModule& entry : by_module) {
    if (entry.module.load(std::memory_order_acquire) != module) continue;
    // A copy, and still the same module after it: a dlclose elsewhere may give the place to another.
    found = entry.functions;
    if (entry.module.load(std::memory_order_acquire) == module) return found;
  }
  found = {};
  // By name: a module that came as a dependency has no scope that dlsym could search through its link map.
  const char* name = module->l_name;
  if (name == nullptr || *name == '\0' || !FindIn(name, &found)) return found;
  if (!adding.exchange(true, std::memory_order_acquire)) {
    for (OfModule& entry : by_module) {
      if (entry.module.load(std::memory_order_relaxed) != nullptr) continue;
      entry.functions = found;
      entry.module.store(module, std::memory_order_release);
      break;
    }
    adding.store(false, std::memory_order_release);
  }
  return found;
}

// Where no unwinder is loaded. A program that asks whether there is one (a weak symbol) finds our entry: it learns that nobody handles it.
int RaiseNowhere(void* /*exception*/) {
  constexpr int kEndOfStack = 5;  // _URC_END_OF_STACK
  return kEndOfStack;
}

}  // namespace

void FindThrowFunctions() {
  // Who has one of the two has both; where there is no unwinder, one search is enough.
  if (IsDefinedBehind("_Unwind_RaiseException", __ehdr_start)) {
    Look(RTLD_NEXT, "_Unwind_RaiseException", &global.raise_exception);
    if (IsDefinedBehind("_Unwind_Resume_or_Rethrow", __ehdr_start))
      Look(RTLD_NEXT, "_Unwind_Resume_or_Rethrow", &global.resume_or_rethrow);
  }
  if (!IsDefinedBehind("__cxa_throw", __ehdr_start)) return;
  Look(RTLD_NEXT, "__cxa_throw", &global.cxa_throw);
  Look(RTLD_NEXT, "__cxa_rethrow", &global.cxa_rethrow);
  Look(RTLD_NEXT, "__cxa_get_globals", &global.cxa_get_globals);
}

ThrowFunctions ThrowFunctionsFor(uintptr_t caller) {
  if (LIKELY(global.cxa_throw != nullptr)) return global;
  ThrowFunctions found = FindFor(caller);
  // Code of no module (a JIT compiler's) has looked the name up elsewhere: in a runtime that is loaded by now.
  if (found.cxa_throw == nullptr) FindIn("libstdc++.so.6", &found);
  if (found.cxa_throw == nullptr) found.cxa_throw = found.cxa_rethrow = reinterpret_cast<void*>(&abort);
  return found;
}

namespace {

void* OfUnwinder(void* ThrowFunctions::*function, uintptr_t caller) {
  if (LIKELY(global.*function != nullptr)) return global.*function;
  ThrowFunctions found = FindFor(caller);
  if (found.*function == nullptr) FindIn("libgcc_s.so.1", &found);
  return found.*function != nullptr ? found.*function : reinterpret_cast<void*>(&RaiseNowhere);
}

}  // namespace

void* RaiseExceptionFor(uintptr_t caller) { return OfUnwinder(&ThrowFunctions::raise_exception, caller); }
void* ResumeOrRethrowFor(uintptr_t caller) { return OfUnwinder(&ThrowFunctions::resume_or_rethrow, caller); }

void ForgetThrowFunctions() {
  for (OfModule& entry : by_module) entry.module.store(nullptr, std::memory_order_release);
}

}  // namespace holdfast
