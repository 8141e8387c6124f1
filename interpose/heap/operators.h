// The real operators new and delete, and whether they may be skipped.
//
// libstdc++'s and libc++'s operator new is malloc with a loop around it, so a program whose operators are theirs pays
// less with us than without: our operator goes straight to the next malloc. Any other operator (a program's, a
// plugin's, an allocator's own) is called with the thread muted, and its block counted once, whether or not it comes to
// malloc.
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

// Once, before the program runs: the next operators in the global scope.
void FindOperators();

// The operators that the code at `caller` would have reached without us: the next ones in the global scope; where there
// are none (a C program with a C++ plugin loaded RTLD_LOCAL), those in the scope of the caller's module.
// Calls nothing of the loader's (interpose/base/module_scope.h). A form that nobody defines is null. `room` holds the answer where
// it is not global.
const Operators& OperatorsFor(uintptr_t caller, Operators* room);

// Whether it is known that the operators of the whole program may be skipped.
extern HOLDFAST_HIDDEN bool operators_skipped;

// The hot paths of new may be used from now on; and go straight to the next malloc.
void StartHotNew();
void SkipOperators();

// After dlclose: forgets the modules that are gone.
void ForgetOperatorsByModule();
void OperatorsInForkedChild();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_OPERATORS_H_
