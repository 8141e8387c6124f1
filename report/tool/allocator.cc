// The tool's own memory comes from mimalloc, by operator new and delete alone: nearly all of it is C++'s. malloc stays
// whose it is. libmimalloc.so would take that over, too, for every library in the process, and where another allocator is
// preloaded, which brings its own free (tbbmalloc_proxy, duma), a block of one comes to the other: a crash before main. So
// libc stands before libmimalloc in the executable's list of libraries (report/tool/CMakeLists.txt).
#include <mimalloc-new-delete.h>
