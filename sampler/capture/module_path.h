// Finds in /proc/self/maps the file that is mapped at an address: its absolute path, and where its other parts are.
//
// ld.so knows no path for the main program, and a relative one for a library loaded by a relative name. A later reader
// in another process needs the real path. One caller at a time (a static buffer); makes system calls.
#ifndef HOLDFAST_SAMPLER_CAPTURE_MODULE_PATH_H_
#define HOLDFAST_SAMPLER_CAPTURE_MODULE_PATH_H_

#include <cstddef>
#include <cstdint>

namespace holdfast {

// Returns null if nothing is found; otherwise text valid until the next call. Not zero-terminated.
const char* FindMappedPath(uintptr_t start, size_t* length);

// Returns the first address at which the byte at `offset` of the file mapped at `inside` is mapped readable, and that
// `accept` accepts; 0: none.
uintptr_t FindMappedOffset(uintptr_t inside, uint64_t offset, bool (*accept)(uintptr_t, void*), void* context);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_MODULE_PATH_H_
