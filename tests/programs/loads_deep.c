// Lets a plugin work, and keeps the memory that the plugin requests from its host.
//
//   loads_deep PLUGIN HOW ROUNDS     HOW: global, deep (RTLD_DEEPBIND), apart (dlmopen), closed (deep, closed before the end)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"

KNOWN void* host_keeps(void) {
  void* block = malloc(48);
  Use(block);
  return block;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int rounds = atoi(argv[3]);
  const int is_deep = strcmp(argv[2], "deep") == 0 || strcmp(argv[2], "closed") == 0;
  void* plugin = strcmp(argv[2], "apart") == 0 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW)
                                               : dlopen(argv[1], RTLD_LAZY | (is_deep ? RTLD_DEEPBIND : 0));
  if (plugin == NULL) {
    printf("%s\n", dlerror());
    return 1;
  }
  void (*work)(int, void* (*)(void)) = (void (*)(int, void* (*)(void)))dlsym(plugin, "copy_and_free");
  for (int i = 1; i <= rounds; ++i) work(i * 20, host_keeps);
  if (strcmp(argv[2], "closed") == 0) dlclose(plugin);
  const size_t kept = (size_t)rounds;
  Expect("host_keeps", kept, kept * 48, kept, kept * 48);
  return 0;
}
