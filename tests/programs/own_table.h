// A profiled program's view of its own table, to change the interval at run time, as `holdfast set` does from outside.
#ifndef HOLDFAST_TESTS_PROGRAMS_OWN_TABLE_H_
#define HOLDFAST_TESTS_PROGRAMS_OWN_TABLE_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/contract/layout.h"

namespace holdfast {

// Null: not profiled, or nothing sampled yet.
inline TableHeader* OwnTable() {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[1024];
  TableHeader* found = nullptr;
  while (maps != nullptr && fgets(line, sizeof line, maps) != nullptr) {
    if (found == nullptr && strstr(line, kTablePrefix) != nullptr && strstr(line, kTableSuffix) != nullptr) {
      found = reinterpret_cast<TableHeader*>(strtoul(line, nullptr, 16));
    }
  }
  if (maps != nullptr) fclose(maps);
  return found;
}

// A gap between samples is at most 64 MiB long: after this the calling thread has drawn a new one.
inline void UseUpGap() {
  for (int i = 0; i < 200; ++i) {
    void* block = malloc(1 << 20);
    asm volatile("" : : "r"(block) : "memory");
    free(block);
  }
}

// For the calling thread; the others find out when their gap ends.
inline void SetHeapInterval(TableHeader* table, uint64_t interval) {
  const uint32_t count = table->heap_interval_count.load();
  table->heap_intervals[count] = {0, interval};
  table->heap_interval_count.store(count + 1);
  UseUpGap();
}

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_PROGRAMS_OWN_TABLE_H_
