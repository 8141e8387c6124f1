// For programs that take snapshots of themselves: how many heap profiles are in their output folder.
#ifndef HOLDFAST_TESTS_PROGRAMS_HEAP_FILES_H_
#define HOLDFAST_TESTS_PROGRAMS_HEAP_FILES_H_

#include <dirent.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static inline size_t HeapFiles(void) {
  const char* out = getenv("HOLDFAST_OUT");
  DIR* folder = out != NULL ? opendir(out) : NULL;
  size_t found = 0;
  for (const struct dirent* entry = NULL; folder != NULL && (entry = readdir(folder)) != NULL;)
    found += entry->d_name[0] != '.' && strstr(entry->d_name, ".heap.pb.gz") != NULL ? 1 : 0;
  if (folder != NULL) closedir(folder);
  return found;
}

#endif  // HOLDFAST_TESTS_PROGRAMS_HEAP_FILES_H_
