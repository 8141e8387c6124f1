// Whether any loaded object defines a name, checked without the dynamic linker: dlsym allocates the message of a
// failure, and an allocator that is just starting up (Chromium's, which calls mutexes of ours on its way) would wait
// for itself for ever.
//
// Before main, or in the first call that reaches the shim: the list of objects is read without its lock.
#ifndef HOLDFAST_INTERPOSE_BASE_DEFINED_NAMES_H_
#define HOLDFAST_INTERPOSE_BASE_DEFINED_NAMES_H_

#include <link.h>
#include <stdint.h>

#include "sampler/contract/attributes.h"
#include "sampler/contract/dynamic_symbols.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/unwind/address_range.h"

namespace holdfast {

// Returns the object that contains `address`; null: none. (dladdr would search all of that object's symbols.)
HOLDFAST_HIDDEN const link_map* ObjectOf(const void* address);

// Returns where the object with this address is in memory; an empty range if there is none.
HOLDFAST_HIDDEN AddressRange RangeOf(const void* address);

// Searches from `object` on, in search order; null: none.
HOLDFAST_HIDDEN const link_map* FirstThatDefines(const SymbolName& name, const link_map* object = FirstObject());

// Whether any object defines any of `count` names.
HOLDFAST_HIDDEN bool IsAnyDefinedAnywhere(const SymbolName* names, int count);

// Whether an object that was loaded after the one at `base` defines it.
HOLDFAST_HIDDEN bool IsDefinedAfter(const SymbolName& name, const void* base);

// Whether the first object that defines it is the one loaded at `base`.
HOLDFAST_HIDDEN bool IsDefinedFirstAt(const SymbolName& name, const void* base);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_DEFINED_NAMES_H_
