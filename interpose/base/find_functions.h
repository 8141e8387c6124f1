// Looks up functions as dlsym does, without the dynamic linker: before glibc 2.34 dlsym is in libdl, which a program may
// not have loaded, and a failing dlsym allocates its message.
//
// A name's default version is found, or the one that is asked for; an object without versions has any version. A
// function that is chosen at run time (ifunc) is resolved.
//
// In the first call that reaches the shim, or before main: the list of objects is read without its lock. Only
// FindLateFunction may be called later.
#ifndef HOLDFAST_INTERPOSE_BASE_FIND_FUNCTIONS_H_
#define HOLDFAST_INTERPOSE_BASE_FIND_FUNCTIONS_H_

#include "sampler/contract/attributes.h"
#include "sampler/contract/dynamic_symbols.h"

namespace holdfast {

// Like dlsym(RTLD_DEFAULT, name); null: no object defines the name.
HOLDFAST_HIDDEN void* FindFunction(const SymbolName& name);

// Like dlsym(RTLD_NEXT, name).
HOLDFAST_HIDDEN void* FindNextFunction(const SymbolName& name);

// Like dlvsym(RTLD_NEXT, name, version), from any thread. `version` null: the default one. `found` null: no object has it.
// Returns false if nothing could be searched, because another thread's dlclose is in progress. `is_alone`: there is no
// other thread.
HOLDFAST_HIDDEN bool FindLateFunction(bool is_alone, const SymbolName& name, const char* version, void** found);

// Fills `real` (real.h). A function that no object has yet gets a substitute, which looks for it again at each call,
// because libpthread may be loaded later, and does without it otherwise (late_functions.h).
HOLDFAST_HIDDEN void FindRealFunctions();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_FIND_FUNCTIONS_H_
