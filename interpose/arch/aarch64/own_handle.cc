// The library's handle in its calls of __cxa_atexit and the like, which is otherwise the compiler's. The start files of gcc
// and glibc, as Debian builds them, have no landing pads; with them, none of the library's code would be guarded.
extern "C" {
__attribute__((visibility("hidden"))) void* __dso_handle = &__dso_handle;
}
