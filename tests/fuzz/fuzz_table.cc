// A table with changed bytes anywhere is read, or refused with a message, and never causes a crash. The input is laid over a
// whole small table in pieces of (offset, length, bytes), so that the fuzzer need not invent a table.
#include <cstdint>
#include <cstring>

#include "report/builder/profile_builder.h"
#include "report/observe/table/snapshot.h"
#include "sampler/contract/layout.h"
#include "tests/unit/made_table.h"

using holdfast::testing::MadeTable;

namespace {

MadeTable& WholeTable() {
  static auto& table = *new MadeTable;
  static const bool made = [] {
    table.AddModule("/usr/lib/libmade.so", "0123456789abcdef0123", 0x7000'0000'0000, 0x7000'0010'0000,
                    {{0x7000'0000'1000, 0x7000'0008'0000, 0x1000}});
    using namespace std::string_literals;
    const holdfast::TaggedPc labels = table.AddLabels("kind\0write\0tenant\0acme\0"s);
    for (uint64_t i = 1; i < 20; ++i) {
      std::vector<holdfast::TaggedPc> frames = {0x7000'0000'1000 + i * 8, 0x7000'0000'2000, 0x7000'0000'3000};
      if (i % 3 == 0) frames.insert(frames.begin(), labels);
      const holdfast::Offset stack = table.AddStack(frames, i % 5 == 0);
      table.AddHeapRow(stack, i * 40, i, i / 2);
      table.AddRow(stack, holdfast::ProfileKind::kBlock, holdfast::WaitKind::kMutex, 0, {i << 16, i << 20});
    }
    table.head().overflow_stack = table.MakeStack({});
    table.head().missing_stack = table.MakeStack({});
    return true;
  }();
  (void)made;
  return table;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace holdfast;
  const size_t bytes = WholeTable().size() / 64 * 64;
  static auto* table = static_cast<char*>(aligned_alloc(alignof(TableHeader), bytes));
  memcpy(table, WholeTable().bytes(), bytes);
  while (size >= 4) {
    uint32_t where;
    memcpy(&where, data, 4);
    data += 4;
    size -= 4;
    // Half of them in the records behind the header, in units.
    const size_t offset = (where & 1) != 0
                              ? sizeof(TableHeader) + (where >> 8) % ((bytes - sizeof(TableHeader)) / kUnit) * kUnit
                              : (where >> 8) % sizeof(TableHeader);
    size_t length = 1 + (where >> 1) % 64;
    if (length > size) length = size;
    if (length > bytes - offset) length = bytes - offset;
    memcpy(table + offset, data, length);
    data += length;
    size -= length;
  }
  const absl::StatusOr<TableSnapshot> snapshot = ReadSnapshot(table, bytes, 0);
  if (!snapshot.ok()) return 0;
  const ProcessState state(*snapshot);
  for (int kind = 0; kind < kProfileKinds; ++kind) BuildProfile(state, static_cast<ProfileKind>(kind));
  return 0;
}
