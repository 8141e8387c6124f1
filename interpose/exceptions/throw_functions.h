// The real functions that throw. A program may have none of them until it loads a plugin, and two plugins may each have another's: so
// they are looked up in the global scope at the start, and else, as operator new is, in the scope of the module that calls.
#ifndef HOLDFAST_INTERPOSE_EXCEPTIONS_THROW_FUNCTIONS_H_
#define HOLDFAST_INTERPOSE_EXCEPTIONS_THROW_FUNCTIONS_H_

#include <stdint.h>

#include "sampler/contract/attributes.h"

namespace holdfast {

struct ThrowFunctions {
  void* cxa_throw;
  void* cxa_rethrow;
  void* (*cxa_get_globals)();
  void* raise_exception;
  void* resume_or_rethrow;
};

// Once, with one thread. Calls dlsym only for what there is: a search that fails would allocate.
void FindThrowFunctions();

// Those that the code at `caller` would have reached without us. Calls nothing of the loader's (interpose/base/module_scope.h).
ThrowFunctions ThrowFunctionsFor(uintptr_t caller);
void* RaiseExceptionFor(uintptr_t caller);
void* ResumeOrRethrowFor(uintptr_t caller);

// After dlclose: forgets the modules that are gone.
void ForgetThrowFunctions();
void ThrowFunctionsInForkedChild();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_EXCEPTIONS_THROW_FUNCTIONS_H_
