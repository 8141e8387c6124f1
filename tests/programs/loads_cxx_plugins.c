// A program in C with plugins in C++, without a C++ runtime in its global scope.
//
//   loads_cxx_plugins constructor WAITS PLUGIN OTHER    while the constructor of WAITS waits for a thread, that thread calls
//                                                       new and throws in PLUGIN for the first time. OTHER has thrown before
//   loads_cxx_plugins many COUNT PLUGIN FOLDER          COUNT copies of PLUGIN, each used before and while loader calls are counted
//   loads_cxx_plugins global COUNT PLUGIN ignored       COUNT pairs of new and delete in PLUGIN, which is loaded with
//                                                       RTLD_GLOBAL, while searches for the object at an address are counted
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Allocates)(int);
typedef int (*Throws)(int);
static Allocates allocates;
static Throws throws;
static int thrown;

// Called by the plugin that waits.
void RunInThread(void) {
  allocates(10);
  thrown = throws(10);
}

static int scope = RTLD_LOCAL;

static void Load(const char* path) {
  void* plugin = dlopen(path, RTLD_NOW | scope);
  if (plugin == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  allocates = (Allocates)dlsym(plugin, "AllocatesInPlugin");
  throws = (Throws)dlsym(plugin, "ThrowsInPlugin");
}

static void Copy(const char* from, const char* to) {
  static char bytes[1 << 20];
  FILE* in = fopen(from, "rb");
  FILE* out = fopen(to, "wb");
  fwrite(bytes, 1, fread(bytes, 1, sizeof bytes, in), out);
  fclose(in);
  fclose(out);
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  if (strcmp(argv[1], "constructor") == 0) {
    Load(argv[4]);
    thrown = throws(1);  // the runtime has what it keeps for exceptions of a thread
    Load(argv[3]);
    if (dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) == NULL) return 3;
    printf("thrown %d\n", thrown);
    return 0;
  }
  if (strcmp(argv[1], "global") == 0) {
    scope = RTLD_GLOBAL;
    Load(argv[3]);
    long (*counted)(void) = (long (*)(void))dlsym(RTLD_DEFAULT, "CountedSearches");
    const long before = counted != NULL ? counted() : 0;
    allocates(atoi(argv[2]));
    printf("searches %ld\n", counted != NULL ? counted() - before : 0);
    return 0;
  }
  enum { kMax = 1000 };
  static Allocates allocators[kMax];
  static Throws throwers[kMax];
  const int count = atoi(argv[2]);
  for (int i = 0; i < count && i < kMax; ++i) {
    char path[4096];
    snprintf(path, sizeof path, "%s/plugin_%d.so", argv[4], i);
    Copy(argv[3], path);
    Load(path);
    allocators[i] = allocates;
    throwers[i] = throws;
  }
  long (*counted)(void) = (long (*)(void))dlsym(RTLD_DEFAULT, "CountedCalls");
  const long before = counted != NULL ? counted() : 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < count && i < kMax; ++i) {
      allocators[i](100);
      thrown += throwers[i](10);
    }
  }
  printf("thrown %d, calls %ld\n", thrown, counted != NULL ? counted() - before : 0);
  return 0;
}
