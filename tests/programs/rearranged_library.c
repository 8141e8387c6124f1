// The library of rearranged.c.
#include <stdlib.h>

#include "known.h"

KNOWN void* library_allocates(size_t bytes) {
  void* block = malloc(bytes);
  Use(block);
  return block;
}

KNOWN void* through_library(void* (*call)(size_t), size_t bytes) {
  void* block = call != NULL ? call(bytes) : library_allocates(bytes);
  Use(block);
  return block;
}
