// A mix of sizes with known totals, for statistics: each function has its own sizes; some blocks stay in use.
#include <stdlib.h>

#include "known.h"

KNOWN void* small_blocks(void) { return malloc(64); }
KNOWN void* medium_blocks(size_t size) { return malloc(size); }
KNOWN void* large_blocks(void) { return malloc(70000); }
KNOWN void* passing_blocks(size_t size) { return malloc(size); }

int main(void) {
  size_t medium_bytes = 0, passing_bytes = 0, live_medium = 0;
  for (size_t i = 0; i < 300000; ++i) {
    void* p = small_blocks();
    if (i % 2) free(p);
    if (i % 10 == 0) {
      const size_t size = 100 + i % 7000;
      medium_bytes += size;
      void* m = medium_blocks(size);
      if (i % 40)
        free(m);
      else
        live_medium += size;
    }
    if (i % 1000 == 0) {
      void* l = large_blocks();
      if (i % 3000) free(l);
    }
    const size_t size = i % 1024;
    passing_bytes += size;
    free(passing_blocks(size));
  }
  Expect("small_blocks", 300000, 300000 * 64, 150000, 150000 * 64);
  Expect("medium_blocks", 30000, medium_bytes, 7500, live_medium);
  Expect("large_blocks", 300, 300 * 70000, 100, 100 * 70000);
  Expect("passing_blocks", 300000, passing_bytes, 0, 0);
  return 0;
}
