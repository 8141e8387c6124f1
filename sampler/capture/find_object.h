// Finds the loaded object at an address: glibc's _dl_find_object, where libc has it (glibc 2.35), or a search of our own.
//
// The search reads the list of loaded objects, which another thread may be changing, without the linker's lock:
//
//     address ──► objects loaded with the program, sorted by address (they stay, and need no check)
//             ──► the list: the objects with their dynamic sections next above and next below the address
//                 ──► their program headers say whether one contains the address
//
// An object's addresses contain its dynamic section, and no two objects overlap: no third one can contain the address.
// Nothing is kept between searches, so an unloaded object is never found. What may go away is copied by
// process_vm_readv, which needs no descriptor. Below a seccomp filter it is read directly, as in module_reading.h: during
// a dlclose, objects loaded later are not found. A search takes about 1.4 µs for each object that was loaded later, and
// some more (a guess from the cost of one call). Objects of other namespaces (dlmopen) are not found.
//
// Any thread, signal handlers; no lock, no allocation, no loader call but _dl_find_object (lock-free).
#ifndef HOLDFAST_SAMPLER_CAPTURE_FIND_OBJECT_H_
#define HOLDFAST_SAMPLER_CAPTURE_FIND_OBJECT_H_

#include <dlfcn.h>

#include <cstdint>

#include "sampler/contract/attributes.h"

struct link_map;

namespace holdfast {

using ObjectFinder = int (*)(void* address, dl_find_object* found);
// Libc's function, or ours. The first call chooses.
extern HOLDFAST_HIDDEN ObjectFinder object_finder;

// False: no object is loaded there. `found->dlfo_flags` is not set.
inline bool FindObject(const void* address, dl_find_object* found) {
  return object_finder(const_cast<void*>(address), found) == 0;
}
inline bool FindObject(uintptr_t address, dl_find_object* found) {
  return object_finder(reinterpret_cast<void*>(address), found) == 0;
}

// Our own search, also where libc has one. If nothing is found, `dlfo_map_start` and `dlfo_map_end` enclose addresses
// without objects; the range may be empty.
HOLDFAST_HIDDEN int SearchForObject(void* address, dl_find_object* found);

// Call once, before the program can have loaded anything itself: the objects loaded until now stay. Does nothing where
// libc has a search.
HOLDFAST_HIDDEN void NoteFirstObjects();
// Also where libc has one.
HOLDFAST_HIDDEN void TabulateFirstObjects();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_FIND_OBJECT_H_
