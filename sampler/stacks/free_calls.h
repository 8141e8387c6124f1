// Where a module's own calls of `free` go: to the library, or past it.
//
// A plugin that is loaded with RTLD_DEEPBIND, or that brings a free of its own (-Bsymbolic), finds another free before ours. Its malloc goes
// past us as well, but libc's does not: strdup, getline or asprintf allocate through the library on the plugin's behalf, and the plugin frees
// what nobody sees. Such blocks would be in use for ever.
//
//     plugin ── strdup ──► libc ── malloc ──► the library ──► counted
//        └───── free ────► libc                               never seen
//
// The module's own word for free tells: the entry of its global offset table, which the dynamic linker fills in at once or at the first
// call. Only modules that came by dlopen are looked at, as all others find the library first.
#ifndef HOLDFAST_SAMPLER_STACKS_FREE_CALLS_H_
#define HOLDFAST_SAMPLER_STACKS_FREE_CALLS_H_

#include <cstdint>

#include "sampler/unwind/address_range.h"

namespace holdfast {

// Once, if the program's calls of free reach the library: where its code lies.
void SetOwnCode(AddressRange code);

struct FreeCalls {
  enum Where : uint8_t {
    kHere,       // they reach the library, or the module calls no free
    kElsewhere,  // they do not
    kNotYet      // the word is not filled in yet
  } where = kHere;
  const uintptr_t* word = nullptr;  // kNotYet: look again, by WhereTo
};
// Of the module with this dynamic section, which must not go away meanwhile. Reads the names of what it imports, some hundred as a rule.
FreeCalls FreeCallsOf(uintptr_t dynamic, AddressRange module, uint64_t bias);
FreeCalls::Where WhereTo(uintptr_t target, AddressRange module);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_FREE_CALLS_H_
