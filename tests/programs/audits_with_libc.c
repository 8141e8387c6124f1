// For LD_AUDIT: uses libc, so the dynamic linker loads a second one for it.
#include <stdio.h>
#include <stdlib.h>

unsigned int la_version(unsigned int version) {
  char text[20];
  free(malloc(100));
  snprintf(text, sizeof text, "%u", version);
  return (unsigned int)atoi(text);
}
