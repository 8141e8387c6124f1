// The absolute path of the file mapped at an address, from /proc/self/maps.
//
// ld.so knows no path for the main program, and a relative one for what was loaded by a relative name; a reader in
// another process, later, needs the real one. One caller at a time (a static buffer); makes system calls.
#ifndef HOLDFAST_SAMPLER_STACKS_MODULE_PATH_H_
#define HOLDFAST_SAMPLER_STACKS_MODULE_PATH_H_

#include <cstddef>
#include <cstdint>

namespace holdfast {

// Null when nothing is found; otherwise valid until the next call. Not zero-terminated.
const char* FindMappedPath(uintptr_t start, size_t* length);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_MODULE_PATH_H_
