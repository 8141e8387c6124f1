// Allocates and frees for seals_entries, which seals its entries.
#include <stdlib.h>

void* Allocate(void) { return malloc(3000); }
void Free(void* block) { free(block); }
