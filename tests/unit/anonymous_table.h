// A table of the process in anonymous memory, for tests of what writes into tables. One for each test; never unmapped.
#ifndef HOLDFAST_TESTS_UNIT_ANONYMOUS_TABLE_H_
#define HOLDFAST_TESTS_UNIT_ANONYMOUS_TABLE_H_

#include "sampler/contract/syscalls.h"
#include "sampler/tables/shared_table.h"
#include "sampler/tables/stack_table.h"

namespace holdfast {

inline SharedTable* UseAnonymousTable(uint64_t bytes = 8 << 20) {
  auto* header = static_cast<TableHeader*>(MapAnonymous(bytes));
  header->cap_bytes = bytes;
  header->used = sizeof(TableHeader) / kUnit;
  header->backed = static_cast<uint32_t>(bytes / kUnit);  // so that it never grows
  auto* table = reinterpret_cast<SharedTable*>(header);
  current_table = table;
  ForgetStacks();
  return table;
}

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_UNIT_ANONYMOUS_TABLE_H_
