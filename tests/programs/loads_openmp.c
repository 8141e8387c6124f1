// Loads a plugin that uses OpenMP, lets it work, and waits for the end of its input.
//
//   loads_openmp PLUGIN
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (plugin == NULL) return 2;
  int (*counts)(void) = (int (*)(void))dlsym(plugin, "counts");
  printf("%d\nwaits\n", counts());
  fflush(stdout);
  while (getchar() != EOF) {
  }
  return 0;
}
