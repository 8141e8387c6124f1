// The real operators new and delete, and whether they may be skipped.
//
// libstdc++'s and libc++'s operator new is malloc in a loop, so a program that uses theirs pays less with us than
// without: our operator calls the next malloc directly. Any other operator (a program's, a plugin's, an allocator's
// own) is called with the thread muted, and its block counted once, whether or not the operator calls malloc.
#ifndef HOLDFAST_INTERPOSE_HEAP_OPERATORS_H_
#define HOLDFAST_INTERPOSE_HEAP_OPERATORS_H_

#include <stddef.h>
#include <stdint.h>

#include "sampler/contract/attributes.h"

namespace holdfast {

struct Operators {
#define HOLDFAST_NEW(name, parameters) void*(*name)parameters;
#define HOLDFAST_DELETE(name, parameters) void(*name) parameters;
#include "interpose/heap/operators.inc"
#undef HOLDFAST_NEW
#undef HOLDFAST_DELETE
  bool skippable;  // all of them are a C++ library's own
};

// Call once, before the program runs: finds the next operators in the global scope.
void FindOperators();

// The same for a library that is loaded late: finds the operators that the allocator's library has (tcmalloc, jemalloc,
// mimalloc), and lets an attach redirect the entries that lead to them. All others call malloc, which is seen there.
void FindAllocatorsOperators();

// Returns the operators that the code at `caller` would have reached without us: the next ones in the global scope; if
// there are none (a C program with a C++ plugin loaded RTLD_LOCAL), those in the scope of the caller's module. Calls no
// loader function (interpose/base/module_scope.h). A form without definition is null. `room` holds the result if it is
// not global.
const Operators& OperatorsFor(uintptr_t caller, Operators* room);

// Whether the operators of the whole program are known to be skippable.
extern HOLDFAST_HIDDEN bool operators_skipped;

// Enables the hot paths of new, which then call the next malloc directly.
void StartHotNew();
void SkipOperators();

// Call after dlclose: forgets unloaded modules.
void ForgetOperatorsByModule();
void OperatorsInForkedChild();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_OPERATORS_H_
