#include "interpose/heap/operators.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include <atomic>

#include "interpose/base/defined_names.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/hot_path/this_thread.h"

// Our own, by hidden names: through the exported ones the dynamic linker would give us the program's, if it has any.
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

enum SearchStage : int { kUnknown, kLooking, kGlobal, kByModule };
constinit std::atomic<int> stage{kUnknown};
constinit Operators global_operators{};

// Operators found for one module of a program that has none in its global scope.
struct ModuleOperators {
  std::atomic<const void*> module;
  Operators operators;
};
constexpr int kModules = 64;
constinit ModuleOperators by_module[kModules]{};
constinit std::atomic<bool> adding{false};

void Find(void* scope, Operators* found) {
#define HOLDFAST_NEW(name, parameters) found->name = reinterpret_cast<void*(*)parameters>(dlsym(scope, #name));
#define HOLDFAST_DELETE(name, parameters) found->name = reinterpret_cast<void(*) parameters>(dlsym(scope, #name));
#include "interpose/heap/operators.inc"
#undef HOLDFAST_NEW
#undef HOLDFAST_DELETE
}

// By the name of its object.
bool IsCxxLibrarys(const void* function) {
  const link_map* object = ObjectOf(function);
  const char* path = object != nullptr ? object->l_name : nullptr;
  if (path == nullptr) return false;
  const char* slash = strrchr(path, '/');
  const char* name = slash != nullptr ? slash + 1 : path;
  return strncmp(name, "libstdc++.so", 12) == 0 || strncmp(name, "libc++.so", 9) == 0 ||
         strncmp(name, "libc++abi.so", 12) == 0;
}

// Whether every form is a C++ library's own. A form that it does not have (an old library) is nobody's.
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

// Whether the program's own look-up of every form arrives at us: an executable with one form of its own comes before us,
// and the C++ library's other forms would have called that one.
bool ReachUs() {
  bool all = true;
#define HOLDFAST_NEW(name, parameters) \
  all = all && dlsym(RTLD_DEFAULT, #name) == reinterpret_cast<void*>(&holdfast_own##name);
#define HOLDFAST_DELETE(name, parameters) HOLDFAST_NEW(name, parameters)
#include "interpose/heap/operators.inc"
#undef HOLDFAST_NEW
#undef HOLDFAST_DELETE
  return all;
}

const Operators& OfModule(uintptr_t caller, Operators* room) {
  Operators& found = *room;
  found = {};
  // One form may come to another: libstdc++'s new[] jumps to new (the caller is then our own call of new[]), its nothrow
  // forms call the plain ones. All are on behalf of who called first.
  if (IsInOperator() ||
      caller - reinterpret_cast<uintptr_t>(__ehdr_start) < static_cast<uintptr_t>(_end - __ehdr_start)) {
    if (LastOperators() != nullptr) found = static_cast<const ModuleOperators*>(LastOperators())->operators;
    return found;
  }
  SetLastOperators(nullptr);
  const link_map* module = ObjectOf(reinterpret_cast<void*>(caller));
  if (module == nullptr) return found;
  for (const ModuleOperators& entry : by_module) {
    if (entry.module.load(std::memory_order_acquire) != module) continue;
    // A copy, and still the same module after it: a dlclose elsewhere may give the place to another.
    *room = entry.operators;
    if (entry.module.load(std::memory_order_acquire) == module) {
      SetLastOperators(&entry);
      return *room;
    }
  }
  // A handle by name: a module that came as a dependency has no scope that dlsym could search through its link map.
  const char* name = module->l_name;
  void* handle = name != nullptr && *name != '\0' ? dlopen(name, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  if (handle == nullptr) return found;
  Find(handle, &found);
  real.dlclose(handle);
  found.skippable = owns_malloc && AreCxxLibrarys(found);
  // Remembered if no other thread is doing so now and there is a place; else looked up again next time.
  if (!adding.exchange(true, std::memory_order_acquire)) {
    for (ModuleOperators& entry : by_module) {
      if (entry.module.load(std::memory_order_relaxed) != nullptr) continue;
      entry.operators = found;
      entry.module.store(module, std::memory_order_release);
      SetLastOperators(&entry);
      break;
    }
    adding.store(false, std::memory_order_release);
  }
  return found;
}

void LookOnce() {
  int unknown = kUnknown;
  if (!stage.compare_exchange_strong(unknown, kLooking, std::memory_order_acquire)) return;
  Operators found{};
  Find(RTLD_NEXT, &found);
  if (found._Znwm == nullptr) {
    stage.store(kByModule, std::memory_order_release);
    return;
  }
  found.skippable = owns_malloc && AreCxxLibrarys(found) && ReachUs();
  global_operators = found;
  stage.store(kGlobal, std::memory_order_release);
  if (!found.skippable) return;
  SkipOperators();
  UseTagInDelete();
}

}  // namespace

const Operators& OperatorsFor(uintptr_t caller, Operators* room) {
  if (UNLIKELY(stage.load(std::memory_order_acquire) == kUnknown)) LookOnce();
  switch (stage.load(std::memory_order_acquire)) {
    case kGlobal:
      return global_operators;
    case kLooking:  // dlsym itself, or another thread meanwhile: look up without remembering
      *room = {};
      Find(RTLD_NEXT, room);
      if (room->_Znwm != nullptr) return *room;
      break;
    default:
      break;
  }
  return OfModule(caller, room);
}

void ForgetOperatorsByModule() {
  if (stage.load(std::memory_order_acquire) != kByModule) return;
  for (ModuleOperators& entry : by_module) entry.module.store(nullptr, std::memory_order_release);
}

}  // namespace holdfast
