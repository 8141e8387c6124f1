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

#include "sampler/recorder.h"

namespace holdfast {

struct Operators {
#define HOLDFAST_NEW(name, parameters) void*(*name)parameters;
#define HOLDFAST_DELETE(name, parameters) void(*name) parameters;
#include "interpose/heap/operators.inc"
#undef HOLDFAST_NEW
#undef HOLDFAST_DELETE
  bool skippable;  // all of them are a C++ library's own
};

// The operators that the code at `caller` would have reached without us: the next ones in the global scope; where there
// are none (a C program with a C++ plugin loaded RTLD_LOCAL), those in the scope of the caller's module.
// May call dlsym, so not for the hot path and not under a lock of ours. A form that nobody defines is null. `room` holds
// the answer where it is not remembered.
const Operators& OperatorsFor(uintptr_t caller, Operators* room);

// Whether it is known that the operators of the whole program may be skipped.
extern HOLDFAST_HIDDEN bool operators_skipped;

// What the hot paths of new (new.cc) read. `countdown_offset` is as thread_state.h's; it follows it when the shim is
// ready. `allocate` and `allocate_array` are what they call: the real malloc once the operators may be skipped, until then
// (and for good where they may not) a way to the careful half.
struct alignas(64) HotNew {
  intptr_t countdown_offset;
  void* (*allocate)(size_t);
  void* (*allocate_array)(size_t);
};
extern "C" HOLDFAST_HIDDEN HotNew holdfast_hot_new;
void SkipOperators();

// After dlclose: what was found by module may be another module's now.
void ForgetOperatorsByModule();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_OPERATORS_H_
