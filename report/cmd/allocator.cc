// The tool allocates C++ memory from mimalloc, which replaces only operator new and delete; they serve nearly all
// allocations. malloc remains the process's own.
//
// libmimalloc.so would replace malloc as well, for every library in the process. If another allocator is preloaded that
// brings its own free (tbbmalloc_proxy, duma), a block from one would be freed by the other: a crash before main.
// Therefore libc precedes libmimalloc in the executable's list of libraries (report/cmd/CMakeLists.txt).
#include <mimalloc-new-delete.h>
