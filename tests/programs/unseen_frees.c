// Blocks that are freed unseen with libc's own free, and new blocks at the same address or 16 bytes before. Prints what
// make_small and make_large have allocated: a block freed unseen counts as in use until its address is reused.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

#include "known.h"

enum { kRounds = 3, kSmall = 10000, kLarge = 8000, kSmallBytes = 8, kLargeBytes = 40 };

KNOWN void* make_small(void) { return malloc(kSmallBytes); }
KNOWN void* make_large(void) { return malloc(kLargeBytes); }

static void* small[kSmall];
static void* large[kLarge];

int main(void) {
  void (*libc_free)(void*) = (void (*)(void*))dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "free");
  // What is given back is joined, and cut in another way.
  mallopt(M_MXFAST, 0);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kSmall; ++i) Use(small[i] = make_small());
    for (int i = 0; i < kSmall; ++i) libc_free(small[i]);
    for (int i = 0; i < kLarge; ++i) Use(large[i] = make_large());
    for (int i = 0; i < kLarge; ++i) free(large[i]);
  }
  Expect("make_small", (size_t)kRounds * kSmall, (size_t)kRounds * kSmall * kSmallBytes, 0, 0);
  Expect("make_large", (size_t)kRounds * kLarge, (size_t)kRounds * kLarge * kLargeBytes, 0, 0);
  return 0;
}
