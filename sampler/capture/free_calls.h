// Whether a module's own calls of `free` reach the library.
//
// A plugin loaded with RTLD_DEEPBIND, or with its own free (-Bsymbolic), finds another free before ours. Its malloc
// bypasses us as well, but libc's does not: strdup, getline or asprintf allocate through the library for the plugin,
// and the plugin frees the block unseen. Such blocks would seem to be in use for ever.
//
//     plugin ── strdup ──► libc ── malloc ──► the library ──► counted
//        └───── free ────► libc                               never seen
//
// The module's global offset table tells: its entry for free, which the dynamic linker fills in at once or at the first
// call. Only dlopened modules are checked, because all others find the library first.
#ifndef HOLDFAST_SAMPLER_CAPTURE_FREE_CALLS_H_
#define HOLDFAST_SAMPLER_CAPTURE_FREE_CALLS_H_

#include <cstdint>

#include "sampler/unwind/address_range.h"

namespace holdfast {

// Call once, if the program's calls of free reach the library. `code`: the library's code.
void SetOwnCode(AddressRange code);

struct FreeCalls {
  enum Where : uint8_t {
    kHere,       // they reach the library, or the module calls no free
    kElsewhere,  // they do not reach the library
    kNotYet      // the entry is not filled in yet
  } where = kHere;
  const uintptr_t* word = nullptr;  // kNotYet: check again with WhereTo
};
// For the module with this dynamic section, which must stay loaded meanwhile. Reads the names of its imports, usually
// about a hundred.
FreeCalls FreeCallsOf(uintptr_t dynamic, AddressRange module, uint64_t bias);
FreeCalls::Where WhereTo(uintptr_t target, AddressRange module);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_FREE_CALLS_H_
