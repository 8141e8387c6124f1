#include "interpose/base/attached_imports.h"

#include <link.h>
#include <string.h>

#include "interpose/base/defined_functions.h"
#include "interpose/base/defined_names.h"
#include "interpose/base/find_functions.h"
#include "interpose/base/import_entries.h"
#include "interpose/base/late_functions.h"
#include "interpose/base/readiness.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/contract/syscalls.h"

extern "C" HOLDFAST_HIDDEN const char __ehdr_start[];

namespace holdfast {
namespace {

// ---- The names ----

enum class Turn : uint8_t { kOthers, kReallocates, kAllocates };
constexpr Turn kTurns[] = {Turn::kOthers, Turn::kReallocates, Turn::kAllocates};

Turn TurnOf(const char* name) {
  static constexpr char kReallocate[][16] = {"realloc", "reallocarray", "__libc_realloc"};
  static constexpr char kAllocate[][16] = {"malloc",   "calloc", "posix_memalign", "aligned_alloc",
                                           "memalign", "valloc", "pvalloc"};
  for (const auto& one : kReallocate) {
    if (strcmp(name, one) == 0) return Turn::kReallocates;
  }
  for (const auto& one : kAllocate) {
    if (strcmp(name, one) == 0) return Turn::kAllocates;
  }
  return Turn::kOthers;
}

constexpr int kNone = -1;
struct WrappedFunction {
  void* wrapper;  // null: not redirected
  Turn turn;
  int next;  // another version of the name, or another name with the same hash
};
constinit WrappedFunction wrapped_functions[kRealFunctions] = {};
// Objects have thousands of names, so each is hashed once.
constexpr uint32_t kBuckets = 1024;
constinit int buckets[kBuckets] = {};
constinit bool names_are_ready = false;

uint32_t BucketOf(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<uint8_t>(*name);
  return (hash ^ hash >> 10) % kBuckets;
}

// The library is the last in search order, so the names alone would lead to the real functions.
void FindWrappers() {
  if (names_are_ready) return;
  for (int& bucket : buckets) bucket = kNone;
  const DefinedFunctions own(ObjectOf(__ehdr_start));
  for (int i = 0; i < kRealFunctions; ++i) {
    const RealName& name = kRealNames[i];
    void* real_function = *RealFunction(i);
    // Calls of an allocator in the executable are seen at its entries.
    if (!owns_malloc && (TurnOf(name.name.text) != Turn::kOthers || ObjectOf(real_function) == FirstObject())) continue;
    void* wrapper = IsFound(real_function) ? own.Find(name.name, name.version) : nullptr;
    if (wrapper == nullptr) continue;
    int& bucket = buckets[BucketOf(name.name.text)];
    wrapped_functions[i] = {wrapper, TurnOf(name.name.text), bucket};
    bucket = i;
  }
  names_are_ready = true;
}

// ---- Entries that were not bound yet ----

// They get back the address inside their object through which the dynamic linker binds them.
struct Unbound {
  uintptr_t* at;
  uintptr_t was;
};
constexpr uint32_t kMaxUnbound = 1 << 16;
constinit Unbound* unbound = nullptr;  // in memory that is written page by page
constinit uint32_t unbound_count = 0;

// If there is no room, the entry is bound when it is restored.
void NoteUnbound(uintptr_t* at) {
  if (unbound == nullptr) unbound = static_cast<Unbound*>(MapAnonymous(kMaxUnbound * sizeof(Unbound)));
  if (unbound != nullptr && unbound_count < kMaxUnbound) unbound[unbound_count++] = {at, *at};
}

// Another object may have been at this address, and is unloaded.
void ForgetUnbound(const uintptr_t* at) {
  for (uint32_t i = 0; i < unbound_count; ++i) {
    if (unbound[i].at == at) unbound[i--] = unbound[--unbound_count];
  }
}

uintptr_t ValueBefore(const uintptr_t* at, uintptr_t real_function) {
  for (uint32_t i = 0; i < unbound_count; ++i) {
    if (unbound[i].at == at) return unbound[i].was;
  }
  return real_function;
}

// ---- All objects ----

struct Pass {
  Turn turn;
  bool restores;
  ImportChanges changes;
};

void Store(const ImportingObject& object, uintptr_t* entry, uintptr_t value, ImportChanges* changes) {
  ++(StoreEntry(object, entry, value) ? changes->changed : changes->refused);
}

void ChangeEntry(const ImportingObject& object, const ImportEntry& entry, void* given) {
  auto* pass = static_cast<Pass*>(given);
  for (int i = buckets[BucketOf(entry.name)]; i != kNone; i = wrapped_functions[i].next) {
    const WrappedFunction& function = wrapped_functions[i];
    if (function.turn != pass->turn || strcmp(kRealNames[i].name.text, entry.name) != 0) continue;
    const auto real_function = reinterpret_cast<uintptr_t>(*RealFunction(i));
    const auto wrapper = reinterpret_cast<uintptr_t>(function.wrapper);
    if (pass->restores) {
      if (*entry.at != wrapper) continue;
      Store(object, entry.at, ValueBefore(entry.at, real_function), &pass->changes);
      return;
    }
    if (!LeadsTo(object, entry, reinterpret_cast<const void*>(real_function))) continue;
    ForgetUnbound(entry.at);
    if (*entry.at != real_function) NoteUnbound(entry.at);
    Store(object, entry.at, wrapper, &pass->changes);
    return;
  }
}

// Whether entries may be in read-only text.
bool RelocatesText(const link_map* map) {
  for (const Elf64_Dyn* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0)) return true;
  }
  return false;
}

void ChangeAll(Pass* pass) {
  for (const link_map* map = FirstObject(); map != nullptr; map = map->l_next) {
    ImportingObject object;
    if (map->l_ld == nullptr || RelocatesText(map) || !DescribeImports(map, &object) || IsOwnLibrary(object)) continue;
    VisitEntries(object, ChangeEntry, pass);
  }
}

struct Change {
  bool restores;
  ImportChanges changes;
};

void ChangeLockedObjects(void* given) {
  auto* change = static_cast<Change*>(given);
  const int turns = static_cast<int>(sizeof kTurns / sizeof *kTurns);
  // A thread that was binding an entry meanwhile may have stored the real function over the wrapper: a second round finds it.
  for (int i = 0; i < (change->restores ? turns : 2 * turns); ++i) {
    Pass pass = {kTurns[change->restores ? turns - 1 - i : i % turns], change->restores, {}};
    ChangeAll(&pass);
    if (i == turns) change->changes.refused = 0;  // they are met again
    change->changes.changed += pass.changes.changed;
    change->changes.refused += pass.changes.refused;
  }
}

ImportChanges ChangeImports(bool restores) {
  Change change = {restores, {}};
  CallWithObjectsLocked(ChangeLockedObjects, &change);
  return change.changes;
}

}  // namespace

ImportChanges RedirectImports(bool again) {
  FindWrappers();
  if (!again) unbound_count = 0;
  return ChangeImports(false);
}

ImportChanges RestoreImports() { return ChangeImports(true); }

}  // namespace holdfast
