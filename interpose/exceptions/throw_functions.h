// The real functions that throw. A program may have none until it loads a plugin, and two plugins may have different
// ones. So they are looked up in the global scope at the start, and otherwise, like operator new, in the scope of the
// calling module.
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

// Call once, with one thread. Reads the list of loaded objects.
void FindThrowFunctions();

// Returns the functions that the code at `caller` would have reached without us. Calls no loader function
// (interpose/base/module_scope.h).
ThrowFunctions ThrowFunctionsFor(uintptr_t caller);
void* RaiseExceptionFor(uintptr_t caller);
void* ResumeOrRethrowFor(uintptr_t caller);

// Call after dlclose: forgets unloaded modules.
void ForgetThrowFunctions();
void ThrowFunctionsInForkedChild();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_EXCEPTIONS_THROW_FUNCTIONS_H_
