// Redirects the calls of a running program to the wrappers, and back: through the entries of all loaded objects
// (import_entries.h). Each entry changes by one atomic store, so other threads run on; a thread that is calling reaches
// the function or its wrapper, and both are right.
//
//     attach:   free, unlock, …  ─►  realloc  ─►  malloc, calloc, …         detach: the other way round
//
// In this order no block is recorded while its free may still pass by unseen. The C++ library's operators new and delete are
// left alone: they call malloc and free through that library's entries. Those of the allocator's library are redirected, too.
//
// Not redirected: libraries that are loaded later, or by another thread just now, until the tool asks again (FindObject
// finds an object only when the dynamic linker has written its entries); objects with sealed entries; the dynamic linker's
// own allocations; and pointers to functions that the program has stored. Pointers to wrappers that the program stores
// while attached stay valid, because the library is never unloaded.
//
// Under the dynamic linker's lock that guards the list of objects (dl_iterate_phdr). One thread at a time.
#ifndef HOLDFAST_INTERPOSE_BASE_ATTACHED_IMPORTS_H_
#define HOLDFAST_INTERPOSE_BASE_ATTACHED_IMPORTS_H_

#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/contract/dynamic_symbols.h"

namespace holdfast {

struct ImportChanges {
  uint64_t changed = 0;
  uint64_t refused = 0;  // their memory cannot be made writable: it is sealed (mseal), or there are too many mappings
  uint64_t unreadable = 0;  // restoring: in memory that may not be read, so perhaps they still lead to a wrapper
};

// Functions that are not in `real`; a null one is not redirected. Call before the first RedirectImports, at most once.
struct OtherFunctions {
  const SymbolName* names;
  void* const* reals;
  int count;
};
constexpr int kMaxOtherFunctions = 32;
HOLDFAST_HIDDEN void RedirectAlso(const OtherFunctions& functions);

// Call when `real` is filled. `again`: the entries of objects that were loaded since.
HOLDFAST_HIDDEN ImportChanges RedirectImports(bool again);
// Restores every entry that still leads to a wrapper.
HOLDFAST_HIDDEN ImportChanges RestoreImports();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_ATTACHED_IMPORTS_H_
