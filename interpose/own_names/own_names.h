// Allocators have functions beside malloc and free: jemalloc's mallocx and sdallocx, mimalloc's mi_malloc, tcmalloc's tc_malloc. A
// library that exported such names itself would be found by programs that ask whether they run with that allocator (`if (mallocx)`,
// dlsym). So these are not exported: where a loaded library defines them, the entries of other objects that lead there are set to
// wrappers of ours, as the dynamic linker would have set them.
//
//     program's GOT:  mallocx ──► libjemalloc.so             before
//                     mallocx ──► AllocateWithFlags ──► libjemalloc.so
//
// Only entries of objects that are loaded when the program starts; what dlsym answers stays as it is. Not where the program itself
// defines them (linked statically): most of its calls pass no entry, and what is freed by them would seem never to be.
#ifndef HOLDFAST_INTERPOSE_OWN_NAMES_OWN_NAMES_H_
#define HOLDFAST_INTERPOSE_OWN_NAMES_OWN_NAMES_H_

namespace holdfast {

// Once, when all objects that the program starts with are relocated, and the shim is ready. The calling thread may not hold a lock
// of the allocator's. Nothing but a look at five names where no allocator has them.
void BindOwnNames();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_OWN_NAMES_OWN_NAMES_H_
