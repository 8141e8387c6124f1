// Looks up functions as dlsym does, without the dynamic linker: before glibc 2.34 dlsym is in libdl, which a program may
// not have loaded, and a failing dlsym allocates its message.
//
// A name's default version is found, or the one that is asked for; an object without versions has any version. A
// function that is chosen at run time (ifunc) is resolved.
//
// In the first call that reaches the shim, or before main: the list of objects is read without its lock. Later:
// late_search.h.
#ifndef HOLDFAST_INTERPOSE_BASE_FIND_FUNCTIONS_H_
#define HOLDFAST_INTERPOSE_BASE_FIND_FUNCTIONS_H_

#include "sampler/contract/attributes.h"
#include "sampler/contract/dynamic_symbols.h"

namespace holdfast {

// Like dlsym(RTLD_DEFAULT, name); null: no object defines the name.
HOLDFAST_HIDDEN void* FindFunction(const SymbolName& name);

// Like dlsym(RTLD_NEXT, name).
HOLDFAST_HIDDEN void* FindNextFunction(const SymbolName& name);

// Calls a function while the list of objects cannot change: under the dynamic linker's lock. Returns false, without the
// call, if libc has no dl_iterate_phdr.
HOLDFAST_HIDDEN bool CallWithObjectsLocked(void (*call)(void* given), void* given);

// Fills `real` (real.h). A function that no object has yet gets a substitute, which looks for it again at each call,
// because libpthread may be loaded later, and does without it otherwise (late_functions.h).
HOLDFAST_HIDDEN void FindRealFunctions();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_FIND_FUNCTIONS_H_
