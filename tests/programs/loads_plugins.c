// A host in C. Loads each given plugin in turn, allocates through it, and unloads it.
//   loads_plugins PLUGIN...
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>

#include "known.h"

KNOWN void* host_allocates(void) { return malloc(11); }

int main(int argc, char** argv) {
  uintptr_t before = 0;
  for (int i = 1; i < argc; ++i) {
    void* plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
      printf("%s\n", dlerror());
      return 1;
    }
    void* (*allocate)(size_t) = (void* (*)(size_t))dlsym(plugin, "Allocate");
    void (*release)(void*) = (void (*)(void*))dlsym(plugin, "Release");
    int (*throws)(int) = (int (*)(int))dlsym(plugin, "Throw");
    for (int k = 0; k < 20; ++k) {
      void* p = allocate(100);
      if (k % 2) release(p);
    }
    printf("threw %d\n", throws(3));
    const struct link_map* map = plugin;
    fprintf(stderr, "same address: %s\n", map->l_addr == before ? "yes" : "no");
    before = map->l_addr;
    dlclose(plugin);
    Use(host_allocates());
  }
  Expect("host_allocates", (size_t)argc - 1, 11 * ((size_t)argc - 1), (size_t)argc - 1, 11 * ((size_t)argc - 1));
  return 0;
}
