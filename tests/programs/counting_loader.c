// Counts calls of the dynamic linker's functions that the profiler imports. Loaded below the profiler: its calls arrive here.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_long calls, searches;
long CountedCalls(void) { return calls; }
// For the object at an address, which calls nothing that locks.
long CountedSearches(void) { return searches; }

// glibc before 2.34 has the linker's functions in libdl, by the first version.
static void* Next(const char* name) {
  void* newer = dlvsym(RTLD_NEXT, name, "GLIBC_2.34");
  return newer != NULL ? newer : dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");
}

void* dlsym(void* restrict handle, const char* restrict name) {
  ++calls;
  void* (*next)(void*, const char*) = (void* (*)(void*, const char*))Next("dlsym");
  // Whoever asks for the next one after its own module would get the one after this.
  return handle == RTLD_NEXT ? dlvsym(RTLD_NEXT, name, "GLIBC_2.34") ?: next(handle, name) : next(handle, name);
}
int dladdr(const void* address, Dl_info* info) {
  ++calls;
  return ((int (*)(const void*, Dl_info*))Next("dladdr"))(address, info);
}
#if __GLIBC_PREREQ(2, 35)
int _dl_find_object(void* address, struct dl_find_object* result) {
  static int (*next)(void*, struct dl_find_object*);
  if (next == NULL) next = (int (*)(void*, struct dl_find_object*))dlvsym(RTLD_NEXT, "_dl_find_object", "GLIBC_2.35");
  ++searches;
  return next(address, result);
}
#endif
void* dlopen(const char* name, int flags) {
  ++calls;
  return ((void* (*)(const char*, int))Next("dlopen"))(name, flags);
}
