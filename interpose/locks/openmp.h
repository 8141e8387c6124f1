// Waits inside OpenMP's runtimes. GNU's libgomp and LLVM's libomp wait by system calls of their own, or spin, so no
// wrapper of libc's functions sees them. But compilers turn each construct into a call of a runtime function:
//
//     #pragma omp critical   ──► GOMP_critical_start … GOMP_critical_end      gcc
//                            ──► __kmpc_critical … __kmpc_end_critical        clang
//     omp_set_lock(&lock)    ──► omp_set_lock
//
// The entries of the program and its libraries that lead there are set to wrappers (import_entries.h).
//
//   critical, atomic   known to be taken by a count of the threads inside; a lock of kind `custom`
//   omp_set_lock       tried first (omp_test_lock); the same
//   ordered            the wait for one's turn; the holder is the thread that ended its own turn
//   barrier            explicit ones, and those at the end of `for` and `sections`
//
// Not seen: the end of a parallel region, `doacross`, waits for tasks; barriers of programs with tasks, because a thread
// runs tasks while it waits there; a runtime that is linked in statically, or loaded by dlopen.
#ifndef HOLDFAST_INTERPOSE_LOCKS_OPENMP_H_
#define HOLDFAST_INTERPOSE_LOCKS_OPENMP_H_

namespace holdfast {

// Call once, when all objects that the program starts with are relocated, and the shim is ready. Without an OpenMP
// runtime it only reads the names of the objects.
void BindOpenMp();

// Call in a child of fork: the threads of its parent have not entered its critical sections.
void OpenMpInForkedChild();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_LOCKS_OPENMP_H_
