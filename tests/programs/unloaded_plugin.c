// A plugin in C, that dlclose really takes away: built twice, with another FUNCTION each and equal sizes, so that the
// one lands where the other lay.
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
