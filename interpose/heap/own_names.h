// Allocators have functions besides malloc and free: jemalloc's mallocx and sdallocx, mimalloc's mi_malloc, tcmalloc's
// tc_malloc. If we exported such names, programs that check for that allocator (`if (mallocx)`, dlsym) would find them.
// So we do not: if a loaded library defines them, the entries of other objects that lead there are set to our wrappers,
// as the dynamic linker would have set them.
//
//     program's GOT:  mallocx ──► libjemalloc.so             before
//                     mallocx ──► AllocateWithFlags ──► libjemalloc.so
//
// Only in objects that are loaded when the program starts; results of dlsym stay as they are. Not if the program itself
// defines the names (linked statically): most of its calls use no entry, and blocks freed by them would seem to live
// for ever.
#ifndef HOLDFAST_INTERPOSE_HEAP_OWN_NAMES_H_
#define HOLDFAST_INTERPOSE_HEAP_OWN_NAMES_H_

namespace holdfast {

// Call once, when all objects that the program starts with are relocated, and the shim is ready. The calling thread
// must not hold a lock of the allocator's. Only searches five names if no allocator has them.
void BindOwnNames();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_OWN_NAMES_H_
