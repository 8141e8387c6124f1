// Loaded by program.cc.
#include <stdlib.h>

void* AllocateInPlugin(size_t bytes) { return malloc(bytes); }
