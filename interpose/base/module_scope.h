// Finds the functions that the code of one module reaches by name, without the dynamic linker. The linker's functions wait
// for a lock that another thread holds while it runs the constructors of a library, and such a constructor may wait for
// the caller.
//
// A module's scope is the module itself and its dependencies, breadth first: what dlsym returns for a handle of the
// module. If the scope has no definition, the first loaded object with one counts (a plugin that leaves its runtime to
// the program).
//
// Any thread, signal handlers. No lock, no allocation. The list of objects is public (link.h), and changes while it is
// read: dependencies of a module stay as long as the module does; everything else is probed before it is read, and no
// dlclose proceeds meanwhile.
#ifndef HOLDFAST_INTERPOSE_BASE_MODULE_SCOPE_H_
#define HOLDFAST_INTERPOSE_BASE_MODULE_SCOPE_H_

#include <link.h>

#include <atomic>
#include <cstdint>

#include "interpose/base/defined_names.h"
#include "interpose/base/readiness.h"
#include "sampler/contract/attributes.h"
#include "sampler/contract/dynamic_symbols.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {

// Fills `found` with the definition of each of `count` names; null if there is none. `module` null: code of no module
// (a JIT compiler's). False: some are not from the module's own scope, and may be unloaded before the module is.
HOLDFAST_HIDDEN bool FindInScope(const link_map* module, const SymbolName* names, int count, void** found);

// Calls `visit` for each loaded object after the library in search order, until it returns true. Returns false, and calls
// nothing, while another thread's dlclose is in progress. `is_alone`: there is no other thread.
HOLDFAST_HIDDEN bool VisitAfterLibrary(bool is_alone, bool (*visit)(const link_map* object, void* given), void* given);

// Like FindInScope, in all objects after the library itself. Only before main: the list must not change.
HOLDFAST_HIDDEN void FindAfterLibrary(const SymbolName* names, int count, void** found);

// Results for each module. Grows by kMore modules at a time; nothing is ever freed, because link_maps come back at the
// same addresses. A module that is not remembered (no memory, a seccomp filter after kFirst modules) is searched each
// time.
template <typename Functions>
class FunctionsOfModules {
 public:
  struct Entry {
    Entry* next = nullptr;
    const link_map* module = nullptr;
    std::atomic<bool> valid{false};
    bool may_go = false;                        // before the module does
    const void* dynamic = nullptr;              // of the module: proves that it is still there
    std::atomic<uintptr_t> start{0}, bytes{0};  // of the module in memory; 0 bytes: code of no module
    Functions functions{};

    // Whether the entry is in force for the code at this address. Code that runs is not unloaded, so its entry is not
    // written anew meanwhile.
    bool IsOf(uintptr_t address) const {
      return valid.load(std::memory_order_acquire) &&
             address - start.load(std::memory_order_relaxed) < bytes.load(std::memory_order_relaxed);
    }
  };

  // Null: not remembered. An entry is rewritten only when its module is gone, or if its functions may be unloaded
  // before its module: then each word is whole, and leads to code that is still loaded or was a moment ago.
  HOLDFAST_HOT const Entry* Find(const link_map* module) const {
    for (const Entry* entry = HeadOf(module).load(std::memory_order_acquire); entry != nullptr; entry = entry->next) {
      if (entry->module == module) return entry->valid.load(std::memory_order_acquire) ? entry : nullptr;
    }
    return nullptr;
  }

  // Null: another thread is adding one now, or there is no room.
  const Entry* Remember(const link_map* module, const Functions& functions, bool may_go) {
    if (adding_.exchange(true, std::memory_order_acquire)) return nullptr;
    Entry* entry = HeadOf(module).load(std::memory_order_relaxed);
    while (entry != nullptr && entry->module != module) entry = entry->next;
    const bool is_new = entry == nullptr;
    if (is_new) entry = Take();
    if (entry != nullptr) {
      entry->functions = functions;
      entry->may_go = may_go;
      entry->dynamic = module != nullptr ? module->l_ld : nullptr;
      const AddressRange range = RangeOf(entry->dynamic);
      entry->start.store(range.start, std::memory_order_relaxed);
      entry->bytes.store(range.end - range.start, std::memory_order_relaxed);
      entry->valid.store(true, std::memory_order_release);
      if (is_new) {
        entry->module = module;
        entry->next = HeadOf(module).load(std::memory_order_relaxed);
        HeadOf(module).store(entry, std::memory_order_release);
      }
    }
    adding_.store(false, std::memory_order_release);
    return entry;
  }

  // For a child of fork: another thread of the parent may have been adding. A page is copied only if it is written.
  void ForgetWriter() {
    if (adding_.load(std::memory_order_relaxed)) adding_.store(false, std::memory_order_relaxed);
  }

  // Call after a dlclose: forgets unloaded modules.
  void ForgetUnloaded() {
    for (auto& head : heads_) {
      for (Entry* entry = head.load(std::memory_order_acquire); entry != nullptr; entry = entry->next) {
        if (entry->may_go || ObjectOf(entry->dynamic) != entry->module)
          entry->valid.store(false, std::memory_order_release);
      }
    }
  }

 private:
  static constexpr int kHeads = 512, kFirst = 128, kMore = 128;

  std::atomic<Entry*>& HeadOf(const link_map* module) {
    return heads_[(reinterpret_cast<uintptr_t>(module) * 0x9e3779b97f4a7c15 >> 48) % kHeads];
  }
  const std::atomic<Entry*>& HeadOf(const link_map* module) const {
    return const_cast<FunctionsOfModules*>(this)->HeadOf(module);
  }

  Entry* Take() {
    if (used_ == (entries_ != nullptr ? kMore : kFirst)) {
      const bool filtered = no_system_calls.load(std::memory_order_relaxed) && !passes_through;
      auto* more = filtered ? nullptr : static_cast<Entry*>(MapAnonymous(kMore * sizeof(Entry)));
      if (more == nullptr) return nullptr;
      entries_ = more;
      used_ = 0;
    }
    return (entries_ != nullptr ? entries_ : first_) + used_++;
  }

  std::atomic<Entry*> heads_[kHeads]{};
  std::atomic<bool> adding_{false};
  // Guarded by adding_: how many of the newest entries are used.
  Entry* entries_ = nullptr;  // null: first_
  int used_ = 0;
  Entry first_[kFirst]{};
};

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_MODULE_SCOPE_H_
