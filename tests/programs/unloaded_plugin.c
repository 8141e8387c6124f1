// A plugin in C that dlclose really unloads. Built twice, with different FUNCTIONs and equal sizes, so that one is loaded at
// the address of the other.
#include <stdlib.h>

#include "known.h"

KNOWN void* FUNCTION(size_t size) { return malloc(size); }
void Release(void* p) { free(p); }
void* Allocate(size_t size) {
  void* p = FUNCTION(size);
  Use(p);
  return p;
}
int Throw(int depth) { return depth; }
