// Looks up a function after the start, while other threads may load and unload.
//
// Any thread; no lock, no allocation, no loader call.
#ifndef HOLDFAST_INTERPOSE_BASE_LATE_SEARCH_H_
#define HOLDFAST_INTERPOSE_BASE_LATE_SEARCH_H_

#include "sampler/contract/attributes.h"
#include "sampler/contract/dynamic_symbols.h"

namespace holdfast {

// Like dlvsym(RTLD_NEXT, name, version), from any thread. `version` null: the default one. `found` null: no object has it.
// Returns false if nothing could be searched, because another thread's dlclose is in progress. `is_alone`: there is no
// other thread.
HOLDFAST_HIDDEN bool FindLateFunction(bool is_alone, const SymbolName& name, const char* version, void** found);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_LATE_SEARCH_H_
