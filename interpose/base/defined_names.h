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

HOLDFAST_HIDDEN bool IsDefinedAnywhere(const SymbolName& name);
// Whether any of `count` names is defined: cheaper than one after the other.
HOLDFAST_HIDDEN bool IsAnyDefinedAnywhere(const SymbolName* names, int count);

// Whether an object that was loaded after the one at `base` defines it.
HOLDFAST_HIDDEN bool IsDefinedAfter(const SymbolName& name, const void* base);

// Whether the first object that defines it is the one loaded at `base`.
HOLDFAST_HIDDEN bool IsDefinedFirstAt(const SymbolName& name, const void* base);

// Whether `address` is an object's entry for a function of this name that the object does not define: an undefined
// symbol with a value. A program that is not position-independent has such a symbol for each
// function that it takes the address of.
HOLDFAST_HIDDEN bool IsEntryFor(const SymbolName& name, const void* address);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_DEFINED_NAMES_H_
