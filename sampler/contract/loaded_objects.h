// What the dynamic linker publishes about the process: the list of loaded objects and the initial stack. glibc and musl
// publish it under different names; glibc's are weak references, so the library loads where they are missing.
//
// Any thread, signal handlers. Another thread may be changing the list: see the callers for how they read it.
#ifndef HOLDFAST_SAMPLER_CONTRACT_LOADED_OBJECTS_H_
#define HOLDFAST_SAMPLER_CONTRACT_LOADED_OBJECTS_H_

#include <link.h>

#include <cstdint>

#include "sampler/contract/attributes.h"

namespace holdfast {

// Returns an address in musl's libc; null if the C library is another one.
HOLDFAST_HIDDEN const void* AddressInMusl();
inline bool IsMusl() { return AddressInMusl() != nullptr; }

// Returns the first object in search order, which is the program; null if the linker publishes none.
HOLDFAST_HIDDEN const link_map* FirstObject();

// Returns the object after `object` in search order: glibc's dynamic linker comes last. Only while no other thread
// changes the list.
HOLDFAST_HIDDEN const link_map* NextInSearch(const link_map* object);

// Returns the dynamic linker's own object; null if the program was started as the argument of glibc's linker.
HOLDFAST_HIDDEN const link_map* LinkerObject();

// Where the kernel put argc, argv…, 0, environment…, 0: the main thread's stack begins there. 0 before
// NoteInitialStack.
extern HOLDFAST_HIDDEN uintptr_t initial_stack;
// Call once the library is relocated, before anything reads initial_stack. Repeated calls change nothing.
HOLDFAST_HIDDEN void NoteInitialStack();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_LOADED_OBJECTS_H_
