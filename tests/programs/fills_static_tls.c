// Loads copies of a plugin until the dynamic linker has no static TLS for another one, and unloads the newest again. Then
// answers each line on standard input.
//
//   fills_static_tls PLUGIN FOLDER UNLOADED     UNLOADED: how many are unloaded
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int Copy(const char* from, const char* to) {
  static char bytes[1 << 20];
  FILE* source = fopen(from, "rb");
  FILE* copy = fopen(to, "wb");
  if (source == NULL || copy == NULL) return 0;
  const size_t size = fread(bytes, 1, sizeof bytes, source);
  const int is_whole = feof(source) && fwrite(bytes, 1, size, copy) == size;
  fclose(source);
  return fclose(copy) == 0 && is_whole;
}

int main(int argc, char** argv) {
  enum { kMost = 1000 };
  static void* loaded[kMost];
  static char line[100];
  if (argc != 4) return 2;
  int count = 0;
  for (; count < kMost; ++count) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.so", argv[2], count);
    if (!Copy(argv[1], path)) return 1;
    loaded[count] = dlopen(path, RTLD_NOW);
    if (loaded[count] == NULL) break;
  }
  if (strstr(dlerror(), "static TLS") == NULL) return 1;
  for (int i = 0; i < atoi(argv[3]); ++i) dlclose(loaded[--count]);
  printf("ready %d\n", count);
  fflush(stdout);
  for (int lines = 0; fgets(line, sizeof line, stdin);) {
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
  return 0;
}
