// Substitutes for functions that no loaded object has when the shim starts:
//
//   - libpthread of a glibc before 2.34 is loaded later, with a plugin. The substitute finds the function then.
//   - libc is older than the function, or is musl. The shim exports the name all the same, so a program that asks for
//     the function (dlsym, a weak reference) calls it. The substitute does it by other functions, or fails as the
//     function may.
//   - There is no libpthread at all: as in glibc's own stubs, a lock is always free.
//
// Any thread; no lock, no allocation, no loader call.
#ifndef HOLDFAST_INTERPOSE_BASE_LATE_FUNCTIONS_H_
#define HOLDFAST_INTERPOSE_BASE_LATE_FUNCTIONS_H_

#include "interpose/base/real.h"
#include "sampler/contract/attributes.h"
#include "sampler/contract/dynamic_symbols.h"

namespace holdfast {

struct RealName {
  SymbolName name;
  const char* version;  // null: the default one
};

// In the order of Real's members.
inline constexpr RealName kRealNames[] = {
#define HOLDFAST_WRAP(result, name, parameters) {#name, nullptr},
#define HOLDFAST_WRAP_VERSION(result, name, suffix, version, parameters) {#name, version},
#include "interpose/base/wrapped.inc"
#define HOLDFAST_USE(result, name, parameters) {#name, nullptr},
#include "interpose/base/used.inc"
#undef HOLDFAST_USE
#undef HOLDFAST_WRAP
};
inline constexpr int kRealFunctions = sizeof kRealNames / sizeof *kRealNames;
static_assert(sizeof(Real) / sizeof(void*) >= kRealFunctions);

inline void** RealFunction(int number) { return reinterpret_cast<void**>(&real) + number; }

// Sets each function that is null.
HOLDFAST_HIDDEN void SubstituteMissing();

// Whether `function`, a member of `real`, was found.
HOLDFAST_HIDDEN bool IsFound(const void* function);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_LATE_FUNCTIONS_H_
