// A table of the process in anonymous memory, for tests of what writes into tables. One for each test; never unmapped.
#ifndef HOLDFAST_TESTS_UNIT_ANONYMOUS_TABLE_H_
#define HOLDFAST_TESTS_UNIT_ANONYMOUS_TABLE_H_

#include <initializer_list>
#include <vector>

#include "sampler/contract/syscalls.h"
#include "sampler/table/shared_table.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

inline SharedTable* UseAnonymousTable(uint64_t bytes = 8 << 20) {
  auto* header = static_cast<TableHeader*>(MapAnonymous(bytes));
  header->magic = kTableMagic;
  header->cap_bytes = bytes;
  header->used = sizeof(TableHeader) / kUnit;
  header->backed = static_cast<uint32_t>(bytes / kUnit);  // so that it never grows
  auto* table = reinterpret_cast<SharedTable*>(header);
  current_table = table;
  ForgetStacks();
  return table;
}

inline StackTrace Trace(std::initializer_list<TaggedPc> frames) {
  StackTrace trace{};
  for (TaggedPc pc : frames) trace.frames[trace.depth++] = pc;
  return trace;
}

// Innermost first.
inline std::vector<TaggedPc> FramesOf(SharedTable* table, const Stack* stack) {
  std::vector<TaggedPc> frames(stack->frames, stack->frames + stack->count);
  for (Offset at = stack->parent; at != 0; at = table->At<Node>(at)->parent) {
    const Node& node = *table->At<Node>(at);
    for (const TaggedPc frame : node.frames) frames.push_back(frame & ~kIndexed);
  }
  return frames;
}

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_UNIT_ANONYMOUS_TABLE_H_
