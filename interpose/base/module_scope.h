// Which functions the code of one module reaches by name, found without the dynamic linker: its functions wait for a lock that another
// thread holds while it runs the constructors of what it loads, and such a constructor may wait for the caller.
//
// A module's scope is the module itself and what it needs, breadth first: what dlsym answers for a handle of the module. Where that
// has no definition, the first loaded object that has one counts (a plugin that leaves its runtime to the program).
//
// Any thread, signal handlers. No lock, no allocation. The list of objects is public (link.h), and changes while it is read: what is
// needed by a module stays as long as the module does; everything else is probed before it is read, and no dlclose goes on meanwhile.
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

// Fills `found` with the definition of each of `count` names; null where nobody defines it. `module` null: code of no module (a JIT
// compiler's). False: some are not from the module's own scope, and may be unloaded before the module is.
HOLDFAST_HIDDEN bool FindInScope(const link_map* module, const SymbolName* names, int count, void** found);

// The same in all objects behind the library itself. Only before main: the list must not change.
HOLDFAST_HIDDEN void FindBehindLibrary(const SymbolName* names, int count, void** found);

// What was found for each module. Grows by kMore modules at a time; nothing is ever freed, as link_maps come back at the same
// addresses. A module that is not remembered (no memory, a seccomp filter after kFirst modules) is looked up each time.
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

  // Null: not remembered. An entry is written anew only when its module is gone, or where it may go before its module: then each of
  // its words is whole, and leads to what is still loaded or was a moment ago.
  HOLDFAST_HOT const Entry* Find(const link_map* module) const {
    for (const Entry* entry = HeadOf(module).load(std::memory_order_acquire); entry != nullptr; entry = entry->next) {
      if (entry->module == module) return entry->valid.load(std::memory_order_acquire) ? entry : nullptr;
    }
    return nullptr;
  }

  // Null: another thread does so now, or there is no room.
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
      entry->bytes.store(range.bytes, std::memory_order_relaxed);
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

  // In a child of fork: another thread of the parent may have been at it.
  void ForgetWriter() { adding_.store(false, std::memory_order_relaxed); }

  // After a dlclose: forgets what is gone.
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
  // Guarded by adding_: of the newest entries, how many are used.
  Entry* entries_ = nullptr;  // null: first_
  int used_ = 0;
  Entry first_[kFirst]{};
};

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_MODULE_SCOPE_H_
