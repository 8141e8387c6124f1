// Loads the plugin that is named, calls its Work(), and waits for the end of input.
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  void* plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (plugin == NULL) return 1;
  ((void (*)(void))dlsym(plugin, "Work"))();
  puts("worked");
  fflush(stdout);
  char end;
  while (read(0, &end, 1) > 0) continue;
  return 0;
}
