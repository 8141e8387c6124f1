#include "sampler/tables/stack_table.h"

#include <bit>

#include "sampler/tables/hash_index.h"

namespace holdfast {
namespace {

uint64_t Mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xe9846af9b1a615d;
  x ^= x >> 32;
  return x;
}

// `outermost_on`: HashFrame of its innermost frame; 0: it has none.
uint64_t StackHash(uint64_t outermost_on, bool truncated) { return Mix(outermost_on + (truncated ? 1 : 0)); }

// Of its frames, the labels included.
uint64_t HashOf(const StackTrace& trace, TaggedPc labels) {
  uint64_t hash = 0;
  for (int i = trace.depth; i > 0; --i) hash = HashFrame(hash, trace.frames[i - 1]);
  return labels == 0 ? hash : HashFrame(hash, labels);
}

// Pushes `record` onto the list at `head`, unless `same` finds its equal among those that came since `seen` was the
// head. Returns the one that is in the list.
// Release: a reader that finds the offset finds the filled record. Acquire on failure: so do we, before comparing.
template <typename T, typename Same>
T* Publish(SharedTable* table, std::atomic<Offset>& head, T* record, Offset seen, Same same) {
  const Offset mine = table->OffsetOf(record);
  Offset first = seen;
  while (true) {
    record->next = first;
    if (head.compare_exchange_weak(first, mine, std::memory_order_release, std::memory_order_acquire)) return record;
    for (Offset at = first; at != seen && at != 0;) {
      T* other = table->At<T>(at);
      if (same(*other)) return other;  // ours stays unused: a few bytes lost to a race
      at = other->next;
    }
    seen = first;
  }
}

// A record that nobody looks for in the list at `head`: readers come by it. `older`: the record's link of that list. Release: who
// finds the offset finds the filled record.
template <typename T>
void Push(SharedTable* table, std::atomic<Offset>& head, T* record, Offset T::*older) {
  record->*older = head.load(std::memory_order_relaxed);
  while (!head.compare_exchange_weak(record->*older, table->OffsetOf(record), std::memory_order_release,
                                     std::memory_order_relaxed)) {
  }
}

constinit HashIndex stacks_by_hash, nodes_by_hash;

// Most stacks have few rows, which are found by their list. Where one allocates in many sizes, for many threads, they are found
// here once there are more.
constinit HashIndex rows_by_key;
constexpr int kListedRows = 4;

constinit std::atomic<Offset> overflow_rows[kMostOwners + 1] = {};  // by owner, who alone uses his own

constexpr int kMostNodes = kMaxDepth / kNodeFrames;

// The hash of each full node of a stack, from the outermost on: of its frames and all outer ones. So none depends on where the
// node before it is found, and all are asked for at once: an unknown stack mostly waits for memory.
void HashNodes(SharedTable* table, const StackTrace& trace, uint64_t* hashes) {
  uint64_t hash = 0;
  int nodes = 0;
  for (int left = trace.depth; left >= kNodeFrames; ++nodes) {
    for (const int end = left - kNodeFrames; left > end;) {
      hash = HashFrame(hash, trace.frames[--left]);
    }
    hashes[nodes] = Mix(hash);
    nodes_by_hash.Ask(hashes[nodes]);
  }
  for (int i = 0; i < nodes; ++i) nodes_by_hash.AskForRecord(table, hashes[i]);
}

uint64_t HashOfNode(const StackPath& path, int at) { return Mix(path.hashes[at + kNodeFrames - 1]); }

// Calls `ask(hash)` for those of a path that are not known yet.
template <typename Ask>
void ForUnknownNodes(const StackPath& path, Ask ask) {
  for (int at = path.known_nodes * kNodeFrames; path.depth - at >= kNodeFrames; at += kNodeFrames)
    ask(HashOfNode(path, at));
}

// `frames`: `count` of them, innermost first. 0: the table is full.
Offset MakeNode(SharedTable* table, Offset parent, const TaggedPc* frames, int count) {
  auto* node = static_cast<Node*>(
      table->Allocate(static_cast<uint32_t>(sizeof(Node) + static_cast<size_t>(count) * sizeof(TaggedPc))));
  if (node == nullptr) return 0;
  node->parent = parent;
  node->count = static_cast<uint32_t>(count);
  for (int i = 0; i < count; ++i) node->frames[i] = frames[i];
  return table->OffsetOf(node);
}

// Of kNodeFrames frames. `hash`: as HashNodes says. 0: the table is full.
Offset InternNode(SharedTable* table, Offset parent, const TaggedPc* frames, uint64_t hash) {
  const auto same = [=](Offset at) {
    const Node& node = *table->At<Node>(at);
    if (node.parent != parent) return false;
    for (int i = 0; i < kNodeFrames; ++i) {
      if (node.frames[i] != frames[i]) return false;
    }
    return true;
  };
  return nodes_by_hash.FindOrAdd(table, hash, same, [=] { return MakeNode(table, parent, frames, kNodeFrames); });
}

// The innermost frames of a new stack: `count` of them, fewer than kNodeFrames, and its labels. Where they are fewer together, too,
// they are a node that no other stack has, so that nobody looks for it. 0: the table is full.
Offset LeafNode(SharedTable* table, Offset parent, const TaggedPc* frames, int count, TaggedPc labels,
                uint64_t frames_hash) {
  TaggedPc with_labels[kNodeFrames] = {labels};
  if (labels != 0) {
    for (int i = 0; i < count; ++i) with_labels[i + 1] = frames[i];
    frames = with_labels;
    ++count;
  }
  return count == kNodeFrames ? InternNode(table, parent, frames, Mix(frames_hash))
                              : MakeNode(table, parent, frames, count);
}

Stack* Overflow(SharedTable* table) {
  table->Count(Loss::kStackTableFull);
  return table->At<Stack>(table->header()->overflow_stack);
}

// Nodes of a full table need not be looked for.
bool HasNoRoom(SharedTable* table) {
  return UNLIKELY(table->IsFull(sizeof(Stack) + sizeof(Node) + kNodeFrames * sizeof(TaggedPc)));
}

// In a list, where readers find it, and in no index yet. 0: the table is full.
Offset MakeStack(SharedTable* table, uint64_t hash, Offset leaf, int depth, TaggedPc labels, bool truncated) {
  auto* stack = table->New<Stack>();
  if (stack == nullptr) return 0;
  stack->hash = hash;
  stack->leaf = leaf;
  stack->depth = static_cast<uint16_t>(labels == 0 ? depth : depth + 1);
  stack->truncated = truncated;
  Push(table, table->header()->stack_lists[thread_state.shard * kListsOfShard + hash % kListsOfShard], stack,
       &Stack::next);
  return table->OffsetOf(stack);
}

// `make_leaf(&leaf)`: its innermost node, 0 for a stack without frames. False: the table is full.
template <typename MakeLeaf>
Stack* FindOrMake(SharedTable* table, uint64_t hash, int depth, TaggedPc labels, bool truncated, MakeLeaf make_leaf) {
  const Offset found = stacks_by_hash.FindOrAdd(
      table, hash, [=](Offset at) { return table->At<Stack>(at)->hash == hash; },
      [&]() -> Offset {
        Offset leaf = 0;
        if (HasNoRoom(table) || !make_leaf(&leaf)) return 0;
        return MakeStack(table, hash, leaf, depth, labels, truncated);
      });
  return found != 0 ? table->At<Stack>(found) : Overflow(table);
}

}  // namespace

void ForgetStacks() {
  stacks_by_hash.Forget();
  nodes_by_hash.Forget();
  rows_by_key.Forget();
  for (auto& row : overflow_rows) row.store(0, std::memory_order_relaxed);
}

Stack* InternStack(SharedTable* table, const StackTrace& trace, TaggedPc labels) {
  const uint64_t frames_hash = HashOf(trace, labels), hash = StackHash(frames_hash, trace.truncated);
  const auto make_leaf = [&](Offset* leaf) {
    uint64_t hashes[kMostNodes];
    HashNodes(table, trace, hashes);
    int left = trace.depth;
    for (int i = 0; left >= kNodeFrames; ++i) {
      left -= kNodeFrames;
      *leaf = InternNode(table, *leaf, &trace.frames[left], hashes[i]);
      if (*leaf == 0) return false;
    }
    if (left > 0 || labels != 0) *leaf = LeafNode(table, *leaf, trace.frames, left, labels, frames_hash);
    return *leaf != 0 || trace.depth == 0;
  };
  return FindOrMake(table, hash, trace.depth, labels, trace.truncated, make_leaf);
}

Stack* InternStack(SharedTable* table, StackPath* path, TaggedPc labels) {
  const int depth = path->depth;
  const uint64_t frames_hash = path->HashWith(labels), hash = StackHash(frames_hash, false);
  stacks_by_hash.Ask(hash);
  // It is most probably unknown, too: so it waits for memory once.
  ForUnknownNodes(*path, [](uint64_t node) { nodes_by_hash.Ask(node); });
  const auto make_leaf = [&](Offset* leaf) {
    ForUnknownNodes(*path, [=](uint64_t node) { nodes_by_hash.AskForRecord(table, node); });
    *leaf = path->known_nodes != 0 ? path->nodes[path->known_nodes - 1] : 0;
    TaggedPc frames[kNodeFrames];
    const auto innermost_first = [&](int at, int count) {
      for (int i = 0; i < count; ++i) frames[i] = path->frames[at + count - 1 - i];
      return frames;
    };
    int at = path->known_nodes * kNodeFrames;
    for (; depth - at >= kNodeFrames; at += kNodeFrames) {
      *leaf = InternNode(table, *leaf, innermost_first(at, kNodeFrames), HashOfNode(*path, at));
      if (*leaf == 0) return false;
      path->nodes[at / kNodeFrames] = *leaf;
      __atomic_signal_fence(__ATOMIC_SEQ_CST);  // a handler may jump out: what is counted is there
      path->known_nodes = at / kNodeFrames + 1;
    }
    if (at < depth || labels != 0)
      *leaf = LeafNode(table, *leaf, innermost_first(at, depth - at), depth - at, labels, frames_hash);
    return *leaf != 0;
  };
  return FindOrMake(table, hash, depth, labels, false, make_leaf);
}

void NoteRow(SharedTable* table, Row* row) { Push(table, table->shard().newest_row, row, &Row::older); }

namespace {

// What tells the rows of a stack apart. `mark`: the kind of wait, the owner, …
struct RowKey {
  ProfileKind profile;
  uint8_t mark;
  uint16_t size_class;
  bool IsOf(const Row& row) const {
    return row.size_class == size_class && row.profile == profile && row.owner == mark && !IsFull(row);
  }
  // Rows do not say whose they are: of two that have the same key the upper half is the same only where the stack is.
  uint64_t HashOf(Offset stack) const {
    const uint32_t key = uint32_t{size_class} << 16 | uint32_t{mark} << 8 | static_cast<uint32_t>(profile);
    return uint64_t{stack * 0x9e3779b1u ^ static_cast<uint32_t>(Mix(key) >> 32)} << 32;
  }
};

// In no list of its stack yet. 0: the table is full.
Offset MakeRow(SharedTable* table, Stack* stack, const RowKey& key) {
  if (UNLIKELY(table->IsFull(sizeof(Row))) && table->OffsetOf(stack) != table->header()->overflow_stack) return 0;
  Row* row = table->New<Row>(table->OffsetOf(stack));
  if (row == nullptr) return 0;
  row->profile = key.profile;
  row->owner = key.mark;
  row->size_class = key.size_class;
  // First of all: a handler may jump out before the other list has it, which then has no use for it.
  if (key.profile == ProfileKind::kHeap) NoteRow(table, row);
  return table->OffsetOf(row);
}

// Of a stack that has more than kListedRows; `listed`: as many of them, if that is all.
Offset FindIndexedRow(SharedTable* table, Stack* stack, const RowKey& key, const Offset* listed) {
  const Offset of = table->OffsetOf(stack);
  for (int i = 0; listed != nullptr && i < kListedRows; ++i) {
    const Row& row = *table->At<Row>(listed[i]);
    const RowKey its{row.profile, row.owner, row.size_class};
    rows_by_key.FindOrAdd(
        table, its.HashOf(of), [&](Offset at) { return at == listed[i]; }, [&] { return listed[i]; });
  }
  return rows_by_key.FindOrAdd(
      table, key.HashOf(of), [&](Offset at) { return key.IsOf(*table->At<Row>(at)); },
      [&] {
        const Offset made = MakeRow(table, stack, key);
        if (made != 0) Push(table, stack->rows, table->At<Row>(made), &Row::next);
        return made;
      });
}

// Null: the table is full.
Row* FindOrMakeRow(SharedTable* table, Stack* stack, const RowKey& key) {
  const Offset seen = stack->rows.load(std::memory_order_acquire);
  Offset listed[kListedRows];
  int count = 0;
  for (Offset at = seen; at != 0 && count < kListedRows;) {
    Row* row = table->At<Row>(at);
    if (key.IsOf(*row)) return row;
    listed[count++] = at;
    at = row->next;
  }
  Offset found;
  if (LIKELY(count < kListedRows)) {
    found = MakeRow(table, stack, key);
    if (found != 0)
      return Publish(table, stack->rows, table->At<Row>(found), seen, [&](const Row& row) { return key.IsOf(row); });
  } else {
    const bool all = table->At<Row>(listed[kListedRows - 1])->next == 0;
    found = FindIndexedRow(table, stack, key, all ? listed : nullptr);
  }
  return found != 0 ? table->At<Row>(found) : nullptr;
}

}  // namespace

Row* FindRow(SharedTable* table, Stack* stack, ProfileKind profile, WaitKind wait, uint16_t size_class) {
  return FindMarkedRow(table, stack, profile, static_cast<uint8_t>(wait), size_class);
}

Row* FindMarkedRow(SharedTable* table, Stack* stack, ProfileKind profile, uint8_t mark, uint16_t number) {
  TableHeader& head = *table->header();
  const bool overflows = table->OffsetOf(stack) == head.overflow_stack;  // which is counted
  if (overflows) {
    mark = 0, number = 0;
    Row* row = table->At<Row>(head.overflow_row[static_cast<int>(profile)]);
    if (LIKELY(!IsFull(*row))) return row;
  }
  if (Row* row = FindOrMakeRow(table, stack, {profile, mark, number})) return row;
  if (!overflows) table->Count(Loss::kStackTableFull);
  return table->At<Row>(head.overflow_row[static_cast<int>(profile)]);
}

Row* FindOwnRow(SharedTable* table, Stack* stack, uint8_t owner, uint16_t size_class) {
  return FindOrMakeRow(table, stack, {ProfileKind::kHeap, owner, size_class});
}

Row* OwnOverflowRow(SharedTable* table, uint8_t owner) {
  std::atomic<Offset>& known = overflow_rows[owner];
  if (const Offset at = known.load(std::memory_order_relaxed); LIKELY(at != 0)) {
    if (Row* row = table->At<Row>(at); LIKELY(!IsFull(*row))) return row;
  }
  Row* row = FindOwnRow(table, table->At<Stack>(table->header()->overflow_stack), owner, 0);
  if (row != nullptr) known.store(table->OffsetOf(row), std::memory_order_relaxed);
  return row;
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
  // Relaxed: each sum stands for itself; a reader takes whatever whole value it finds.
  while (!sum->compare_exchange_weak(bits, std::bit_cast<uint64_t>(std::bit_cast<double>(bits) + value),
                                     std::memory_order_relaxed)) {
  }
}

}  // namespace holdfast
