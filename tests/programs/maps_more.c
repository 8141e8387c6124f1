// Maps 1 MiB N times and never unmaps it. Requests a snapshot after each, and waits until the snapshot is written.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "include/holdfast.h"

static int files(void) {
  DIR* folder = opendir(getenv("HOLDFAST_OUT"));
  int found = 0;
  struct dirent* entry;
  while (folder != NULL && (entry = readdir(folder)) != NULL)
    found += entry->d_name[0] != '.' && strstr(entry->d_name, ".map.pb.gz") != NULL;
  if (folder != NULL) closedir(folder);
  return found;
}

__attribute__((noinline)) static void map_more(void) {
  void* volatile at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *(char*)at = 1;
}

int main(int argc, char** argv) {
  const int times = argc > 1 ? atoi(argv[1]) : 1;
  for (int i = 0; i < times; ++i) {
    map_more();
    const int before = files();
    holdfast_snapshot();
    const struct timespec moment = {0, 10000000};
    for (int tries = 0; tries < 500 && files() == before; ++tries) nanosleep(&moment, NULL);
  }
  _exit(0);
}
