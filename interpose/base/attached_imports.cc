#include "interpose/base/attached_imports.h"

#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include <iterator>
#include <utility>

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
  return strncmp(name, "_Zn", 3) == 0 ? Turn::kAllocates : Turn::kOthers;  // operator new
}

// Those of `real`, then the others.
constinit OtherFunctions others = {nullptr, nullptr, 0};
int FunctionCount() { return kRealFunctions + others.count; }
RealName NameOf(int i) {
  return i < kRealFunctions ? kRealNames[i] : RealName{others.names[i - kRealFunctions], nullptr};
}
void* RealAt(int i) { return i < kRealFunctions ? *RealFunction(i) : others.reals[i - kRealFunctions]; }

constexpr int kNone = -1;
struct WrappedFunction {
  void* wrapper;  // null: not redirected
  Turn turn;
  int next;  // another version of the name, or another name with the same hash
};
constinit WrappedFunction wrapped_functions[kRealFunctions + kMaxOtherFunctions] = {};
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
  for (int i = 0; i < FunctionCount(); ++i) {
    const RealName name = NameOf(i);
    void* real_function = RealAt(i);
    // Calls of an allocator in the executable are seen at its entries.
    if (!owns_malloc && (TurnOf(name.name.text) != Turn::kOthers || ObjectOf(real_function) == FirstObject())) continue;
    void* wrapper = real_function != nullptr && IsFound(real_function) ? own.Find(name.name, name.version) : nullptr;
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

// ---- Allocators with hidden versions ----

// Nearly all objects need the same version of a name.
struct Search {
  const void* real;
  const char* needed;
  bool is_earlier;
};
constexpr uint32_t kMaxSearches = 256;
constinit Search searches[kMaxSearches] = {};
constinit uint32_t search_count = 0;  // of this call

bool IsSameVersion(const char* a, const char* b) { return a == nullptr || b == nullptr ? a == b : strcmp(a, b) == 0; }

// Whether an entry that is not bound yet will lead to another object's function of this name, which is no default version.
bool WillLeadElsewhere(const ImportingObject& object, const ImportEntry& entry, const void* real) {
  if (!IsUnbound(object, entry, *entry.at)) return false;
  const char* needed = NeededVersion(object, entry.symbol);
  for (uint32_t i = 0; i < search_count; ++i) {
    if (searches[i].real == real && IsSameVersion(searches[i].needed, needed)) return searches[i].is_earlier;
  }
  const bool is_earlier = IsDefinedEarlier(entry.name, needed, real);
  if (search_count < kMaxSearches) searches[search_count++] = {real, needed, is_earlier};
  return is_earlier;
}

// ---- One entry ----

uintptr_t PageOf(const ImportEntry& entry) { return reinterpret_cast<uintptr_t>(entry.at) & ~(PageBytes() - 1); }

bool IsReadable(const ImportingObject& object, const ImportEntry& entry) {
  return object.IsInRelro(entry.at) || MayBeRead(PageOf(entry));
}

// Returns the function that the entry leads to; null: none of them.
const WrappedFunction* FunctionOf(const ImportingObject& object, const ImportEntry& entry) {
  for (int i = buckets[BucketOf(entry.name)]; i != kNone; i = wrapped_functions[i].next) {
    if (strcmp(NameOf(i).name.text, entry.name) == 0 && IsReadable(object, entry) &&
        LeadsTo(object, entry, RealAt(i)) && !WillLeadElsewhere(object, entry, RealAt(i)))
      return &wrapped_functions[i];
  }
  return nullptr;
}

struct Pass {
  Turn turn;
  bool restores;
  ImportChanges changes;
};

void Store(const ImportingObject& object, uintptr_t* entry, uintptr_t value, ImportChanges* changes) {
  ++(StoreEntry(object, entry, value) ? changes->changed : changes->refused);
}

uintptr_t RealOf(const WrappedFunction& function) {
  return reinterpret_cast<uintptr_t>(RealAt(static_cast<int>(&function - wrapped_functions)));
}

void RedirectEntry(const ImportingObject& object, const ImportEntry& entry, void* given) {
  auto* pass = static_cast<Pass*>(given);
  const WrappedFunction* function = FunctionOf(object, entry);
  if (function == nullptr || function->turn != pass->turn) return;
  ForgetUnbound(entry.at);
  if (*entry.at != RealOf(*function)) NoteUnbound(entry.at);
  Store(object, entry.at, reinterpret_cast<uintptr_t>(function->wrapper), &pass->changes);
}

void RestoreEntry(const ImportingObject& object, const ImportEntry& entry, void* given) {
  auto* pass = static_cast<Pass*>(given);
  for (int i = buckets[BucketOf(entry.name)]; i != kNone; i = wrapped_functions[i].next) {
    const WrappedFunction& function = wrapped_functions[i];
    if (function.turn != pass->turn || strcmp(NameOf(i).name.text, entry.name) != 0) continue;
    if (!IsReadable(object, entry)) {
      ++pass->changes.unreadable;
      return;
    }
    if (*entry.at != reinterpret_cast<uintptr_t>(function.wrapper)) continue;
    Store(object, entry.at, ValueBefore(entry.at, RealOf(function)), &pass->changes);
    return;
  }
}

// ---- All objects ----

// Whether entries may be in read-only text.
bool RelocatesText(const link_map* map) {
  for (const Elf64_Dyn* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0)) return true;
  }
  return false;
}

bool HasEntries(const link_map* map, ImportingObject* object) {
  return map->l_ld != nullptr && !RelocatesText(map) && DescribeImports(map, object) && !IsOwnLibrary(*object);
}

// Whether nobody can change the entries of an object, by its number in the list. Decided before the first change, so that an
// object's entries change together or not at all: with malloc seen and free not, its blocks would be leaks.
constexpr uint32_t kMaxNumbered = 1 << 15;
constinit bool are_sealed[kMaxNumbered] = {};

struct SealedEntries {
  uintptr_t page = 0;  // the last that was asked for, and the answer
  bool is_sealed = false;
  uint64_t count = 0;
};
void CountIfSealed(const ImportingObject& object, const ImportEntry& entry, void* given) {
  auto* sealed = static_cast<SealedEntries*>(given);
  // Elsewhere the program may make a page writable between the question and the answer.
  if (!object.IsInRelro(entry.at) || FunctionOf(object, entry) == nullptr) return;
  const uintptr_t page = PageOf(entry);
  // The page is read-only, so mprotect changes nothing. It fails if nobody can change the page (mseal).
  if (page != std::exchange(sealed->page, page))
    sealed->is_sealed = !IsWritable(page) && SyscallFailed(RawSyscall(SYS_mprotect, page, PageBytes(), PROT_READ));
  if (sealed->is_sealed) ++sealed->count;
}

// Returns how many entries nobody can change.
uint64_t FindSealed() {
  // Kernels that cannot say whether a page is writable have no mseal.
  uint64_t refused = 0;
  const bool may_be_sealed = TellsWhatIsWritable();
  uint32_t number = 0;
  for (const link_map* map = FirstObject(); map != nullptr && number < kMaxNumbered; map = map->l_next, ++number) {
    ImportingObject object;
    SealedEntries sealed;
    if (may_be_sealed && HasEntries(map, &object)) VisitEntries(object, CountIfSealed, &sealed);
    are_sealed[number] = sealed.count != 0;
    refused += sealed.count;
  }
  return refused;
}

void ChangeAll(Pass* pass) {
  uint32_t number = 0;
  for (const link_map* map = FirstObject(); map != nullptr; map = map->l_next, ++number) {
    ImportingObject object;
    if (!HasEntries(map, &object)) continue;
    if (pass->restores)
      VisitEntries(object, RestoreEntry, pass);
    else if (number >= kMaxNumbered || !are_sealed[number])
      VisitEntries(object, RedirectEntry, pass);
  }
}

constexpr int kTurnCount = static_cast<int>(std::size(kTurns));

void RestoreLockedObjects(void* given) {
  auto* changes = static_cast<ImportChanges*>(given);
  for (int i = kTurnCount - 1; i >= 0; --i) {
    Pass pass = {kTurns[i], true, {}};
    ChangeAll(&pass);
    changes->changed += pass.changes.changed;
    changes->refused += pass.changes.refused;
    changes->unreadable += pass.changes.unreadable;
  }
}

void RedirectLockedObjects(void* given) {
  auto* changes = static_cast<ImportChanges*>(given);
  search_count = 0;
  const uint64_t sealed = FindSealed();
  // A thread that was binding an entry meanwhile may have stored the real function over the wrapper: a second round finds it.
  for (int i = 0; i < 2 * kTurnCount; ++i) {
    Pass pass = {kTurns[i % kTurnCount], false, {}};
    ChangeAll(&pass);
    if (i == kTurnCount) changes->refused = 0;  // they are met again
    changes->changed += pass.changes.changed;
    changes->refused += pass.changes.refused;
  }
  changes->refused += sealed;
}

}  // namespace

void RedirectAlso(const OtherFunctions& functions) {
  if (functions.count <= kMaxOtherFunctions && !names_are_ready) others = functions;
}

ImportChanges RedirectImports(bool again) {
  FindWrappers();
  if (!again) unbound_count = 0;
  ImportChanges changes;
  CallWithObjectsLocked(RedirectLockedObjects, &changes);
  return changes;
}

ImportChanges RestoreImports() {
  FindWrappers();
  ImportChanges changes;
  CallWithObjectsLocked(RestoreLockedObjects, &changes);
  return changes;
}

}  // namespace holdfast
