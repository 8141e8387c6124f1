// A program in C that loads a plugin in C++ with RTLD_LOCAL, uses it, unloads it, and does so again.
#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  char path[4096], folder[4096];
  snprintf(folder, sizeof folder, "%s", argv[0]);
  snprintf(path, sizeof path, "%s/throwing_plugin.so", dirname(folder));
  int caught = 0;
  for (int i = 0; i < argc + 1; ++i) {
    void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) return 2;
    int (*catches)(int) = (int (*)(int))dlsym(plugin, "plugin_catches");
    caught += catches(5);
    dlclose(plugin);
  }
  printf("throws plugin_throws PluginFault - %d\nthrows plugin_throws_on PluginFault yes %d\n", caught, caught);
  return caught == 10 ? 0 : 1;
}
