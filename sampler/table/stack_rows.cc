#include "sampler/table/stack_rows.h"

#include <algorithm>
#include <bit>

#include "sampler/contract/weight.h"
#include "sampler/table/children.h"
#include "sampler/table/record_lists.h"

namespace holdfast {
namespace {

constinit HashIndex rows_by_key;  // for stacks with more than kListedRows

// By owner. Only the owner uses them; the last is for all larger blocks.
constexpr uint16_t kOverflowRows = kLargestOwnClass + 2;
constinit std::atomic<Offset> overflow_rows[kMaxOwners + 1][kOverflowRows] = {};
constinit std::atomic<uint32_t> times_forgotten{0};

}  // namespace

void PrepareRows(SharedTable* table) { rows_by_key.Prepare(table); }

void ForgetRows() {
  times_forgotten.fetch_add(1, std::memory_order_relaxed);
  rows_by_key.Forget();
  for (auto& rows : overflow_rows) {
    for (auto& row : rows) {
      if (row.load(std::memory_order_relaxed) != 0) row.store(0, std::memory_order_relaxed);  // else no page is written
    }
  }
}

void NoteRow(SharedTable* table, Row* row) { Push(table, table->shard().newest_row, row, &Row::older); }

namespace {

// Distinguishes the rows of a stack. `mark`: the kind of wait, the owner, …
struct RowKey {
  ProfileKind profile;
  uint8_t mark;
  uint16_t size_class;
};

// A row of a stack, for children.h.
struct RowOfStack {
  using Record = Row;
  static constexpr Offset Row::*kLink = &Row::next;
  static constexpr int kListed = kListedRows;
  static constexpr bool kListsAll = true;
  Stack* stack;
  Offset stack_at;
  RowKey key;

  static HashIndex& Index() { return rows_by_key; }
  static bool IsIndexed(const Row& row) { return row.indexed; }
  static void SetIndexed(Row* row) { row->indexed = true; }
  std::atomic<Offset>& Newest(SharedTable*) const { return stack->rows; }
  bool Is(const Row& row) const {
    return row.size_class == key.size_class && row.profile == key.profile && row.owner == key.mark && !IsFull(row);
  }
  uint64_t Hash() const { return HashOfKey(key); }
  uint64_t HashOf(const Row& row) const { return HashOfKey({row.profile, row.owner, row.size_class}); }
  // Rows do not name their stack: the upper half of the hash of two equal keys is the same only for the same stack.
  uint64_t HashOfKey(const RowKey& of) const {
    const uint32_t bits = uint32_t{of.size_class} << 16 | uint32_t{of.mark} << 8 | static_cast<uint32_t>(of.profile);
    return uint64_t{stack_at * 0x9e3779b1u ^ static_cast<uint32_t>(Mix(bits) >> 32)} << 32;
  }
  bool HasRoom(SharedTable* table) const {
    return LIKELY(!table->IsFull(sizeof(Row))) || stack_at == table->header()->overflow_stack;
  }
  Row* Make(SharedTable* table) const {
    if (UNLIKELY(!HasRoom(table))) return nullptr;
    Row* row = table->New<Row>(stack_at);
    if (row == nullptr) return nullptr;
    row->profile = key.profile;
    row->owner = key.mark;
    row->size_class = key.size_class;
    // First: a handler may jump out before the other list has the row, which then stays unused there.
    if (key.profile == ProfileKind::kHeap) NoteRow(table, row);
    return row;
  }
};

// Null: the table is full.
Row* FindOrMakeRow(SharedTable* table, Stack* stack, const RowKey& key) {
  const Offset found = FindOrMakeChild(table, RowOfStack{stack, table->OffsetOf(stack), key});
  return found != 0 ? table->At<Row>(found) : nullptr;
}

}  // namespace

Row* FindRow(SharedTable* table, Stack* stack, ProfileKind profile, WaitKind wait, uint16_t size_class) {
  return FindMarkedRow(table, stack, profile, static_cast<uint8_t>(wait), size_class);
}

Row* FindMarkedRow(SharedTable* table, Stack* stack, ProfileKind profile, uint8_t mark, uint16_t number) {
  TableHeader& head = *table->header();
  const bool overflows = table->OffsetOf(stack) == head.overflow_stack;  // counted already
  if (overflows) {
    mark = 0, number = 0;
    Row* row = table->At<Row>(head.overflow_row[static_cast<int>(profile)]);
    if (LIKELY(!IsFull(*row))) return row;
  }
  if (Row* row = FindOrMakeRow(table, stack, {profile, mark, number})) return row;
  if (!overflows) table->Count(Loss::kStackTableFull);
  return table->At<Row>(head.overflow_row[static_cast<int>(profile)]);
}

HOLDFAST_WARM Row* FindOwnRow(SharedTable* table, Stack* stack, uint8_t owner, uint16_t size_class) {
  return FindOrMakeRow(table, stack, {ProfileKind::kHeap, owner, size_class});
}

Row* OwnOverflowRow(SharedTable* table, uint8_t owner, uint16_t size_class) {
  if (size_class > kLargestOwnClass) size_class = kNoSizeClass;
  std::atomic<Offset>& known = overflow_rows[owner][std::min<uint16_t>(size_class, kOverflowRows - 1)];
  if (const Offset at = known.load(std::memory_order_relaxed); LIKELY(at != 0)) {
    if (Row* row = table->At<Row>(at); LIKELY(!IsFull(*row))) return row;
  }
  const uint32_t before = times_forgotten.load(std::memory_order_relaxed);
  Row* row = FindOwnRow(table, table->At<Stack>(table->header()->overflow_stack), owner, size_class);
  // A handler may have forked, and this may be its child, which has another table.
  if (row != nullptr && times_forgotten.load(std::memory_order_relaxed) == before)
    known.store(table->OffsetOf(row), std::memory_order_relaxed);
  return row;
}

void MakeOwnOverflowRows(SharedTable* table, uint8_t owner) {
  for (uint16_t size_class = 0; size_class < kOverflowRows; ++size_class) OwnOverflowRow(table, owner, size_class);
}

bool MakeSpecialStacks(SharedTable* table) {
  TableHeader& head = *table->header();
  Stack* overflow = table->New<Stack>();
  Stack* missing = table->New<Stack>();
  if (overflow == nullptr || missing == nullptr) return false;
  head.overflow_stack = table->OffsetOf(overflow);
  head.missing_stack = table->OffsetOf(missing);
  for (int kind = 0; kind < kProfileKinds; ++kind) {
    Row* row = table->New<Row>();
    if (row == nullptr) return false;
    row->profile = static_cast<ProfileKind>(kind);
    row->next = overflow->rows.load(std::memory_order_relaxed);
    head.overflow_row[kind] = table->OffsetOf(row);
    overflow->rows.store(head.overflow_row[kind], std::memory_order_release);
    if (row->profile == ProfileKind::kHeap) NoteRow(table, row);
  }
  return true;
}

void AddDouble(std::atomic<uint64_t>* sum, double value) {
  if (value == 0) return;
  uint64_t bits = sum->load(std::memory_order_relaxed);
  // Relaxed: each sum is independent; a reader takes any whole value.
  while (!sum->compare_exchange_weak(bits, std::bit_cast<uint64_t>(std::bit_cast<double>(bits) + value),
                                     std::memory_order_relaxed)) {
  }
}

}  // namespace holdfast
