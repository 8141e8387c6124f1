// Plugins that are loaded and unloaded many times. `many_modules one_place|new_places PLUGIN FOLDER COUNT [times]`: loads
// COUNT copies of PLUGIN, each a different module, at the address of the last one; or PLUGIN itself, each time at another
// address. Each allocates one block in its own function.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "known.h"

static char file[1 << 20];
static size_t file_bytes;

static void ReadWhole(const char* path) {
  FILE* in = fopen(path, "rb");
  file_bytes = in != NULL ? fread(file, 1, sizeof file, in) : 0;
  if (in != NULL) fclose(in);
}

// The build id's last bytes, which make it another module.
static char* EndOfBuildId(void) {
  char* name = memmem(file, file_bytes, "\3\0\0\0GNU", 8);
  if (name == NULL) exit(98);
  uint32_t bytes;
  memcpy(&bytes, name - 4, sizeof bytes);
  return name + 8 + bytes - 4;
}

static double PairNs(void) {
  struct timespec start, end;
  const int pairs = 20000;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int i = 0; i < pairs; ++i) free(malloc(100));
  clock_gettime(CLOCK_MONOTONIC, &end);
  return ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / pairs;
}

// Loads, allocates; where the plugin lay.
static struct link_map* Load(const char* path, void** allocated) {
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) printf("%s\n", dlerror()), exit(97);
  *allocated = ((void* (*)(size_t))dlsym(plugin, "Allocate"))(100);
  return plugin;
}

int main(int argc, char** argv) {
  if (argc < 5) return 99;
  const int copies = !strcmp(argv[1], "one_place"), count = atoi(argv[4]);
  ReadWhole(argv[2]);
  char* id = EndOfBuildId();
  int places = 0, plugin_pairs = 0;
  uintptr_t last = 0;
  double in_plugin = 0;
  for (int i = 0; i < count; ++i) {
    char path[4096];
    snprintf(path, sizeof path, "%s", argv[2]);
    if (copies) {
      memcpy(id, &i, sizeof i);
      snprintf(path, sizeof path, "%s/copy%d.so", argv[3], i);
      FILE* copy = fopen(path, "wb");
      if (copy == NULL || fwrite(file, 1, file_bytes, copy) != file_bytes) return 96;
      fclose(copy);
    }
    void* block;
    struct link_map* plugin = Load(path, &block);
    const uintptr_t place = plugin->l_addr;
    if (argc > 5 && (i == 20 || i == count - 1)) {
      void* (*allocate)(size_t) = (void* (*)(size_t))dlsym(plugin, "Allocate");
      struct timespec start, end;
      clock_gettime(CLOCK_MONOTONIC, &start);
      for (plugin_pairs = 0; plugin_pairs < 2000; ++plugin_pairs) free(allocate(100));
      clock_gettime(CLOCK_MONOTONIC, &end);
      in_plugin = ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / plugin_pairs;
      fprintf(stderr, "after %d: malloc and free %.0f ns, in the plugin %.0f ns\n", i, PairNs(), in_plugin);
    }
    dlclose(plugin);
    places += place != last;
    last = place;
    // Takes the place.
    if (!copies) mmap((void*)place, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  }
  printf("%s\n", (copies ? places == 1 : places == count) ? "as it was meant" : "the loader chose other places");
  return 0;
}
