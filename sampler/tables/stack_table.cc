#include "sampler/tables/stack_table.h"

#include <bit>

#include "sampler/tables/stack_list.h"

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

// Walks the list of nodes that one hash leads to. New nodes go to the end: outer frames, which every stack passes through,
// came first and are found first. (A reader of the table does not follow these lists; the others must begin with their
// newest, see docs/format.md.)
class NodeList {
 public:
  NodeList(SharedTable* table, uint64_t hash)
      : table_(table),
        hash_(hash / kNodeHeads),
        end_(reinterpret_cast<Offset*>(&table->header()->node_heads[hash % kNodeHeads])) {}

  // The next node that is `same`, from where the last look ended; null at the end of the list.
  template <typename Same>
  Node* Find(Same same) {
    for (Offset at = __atomic_load_n(end_, __ATOMIC_ACQUIRE); at != 0; at = __atomic_load_n(end_, __ATOMIC_ACQUIRE)) {
      Node* node = table_->At<Node>(at);
      if (same(*node)) return node;
      if (node->frames[0] == 0) {
        Enter(table_->At<NodeBranch>(at));
      } else {
        end_ = &node->next;
        ++length_;
      }
    }
    return nullptr;
  }

  // At the end of the list, `record` or, before it, a branch. False: another thread was first, and Find has to go on.
  bool Append(Node* record) {
    while (length_ >= kBranchAfter && hash_ >= 16) {
      auto* branch = table_->New<NodeBranch>();
      if (branch == nullptr) break;
      if (!Publish(table_->OffsetOf(branch))) return false;  // ours stays unused: a few bytes lost to a race
      Enter(branch);
    }
    return Publish(table_->OffsetOf(record));
  }

 private:
  // Release: who finds the offset finds the filled record.
  bool Publish(Offset record) {
    Offset none = 0;
    return __atomic_compare_exchange_n(end_, &none, record, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
  }
  void Enter(NodeBranch* branch) {
    end_ = &branch->heads[hash_ % 16];
    hash_ /= 16;
    length_ = 0;
  }

  SharedTable* const table_;
  uint64_t hash_;  // what is left of it for branches
  Offset* end_;
  int length_ = 0;  // since the head, or the last branch
};

constexpr int kMostNodes = kMaxDepth / kNodeFrames;

// The hash of each full node of a stack, from the outermost on: of its frames and all outer ones. So none depends on where the
// node before it is found, and all lists are asked for at once: an unknown stack mostly waits for memory.
void HashNodes(SharedTable* table, const StackTrace& trace, uint64_t* hashes) {
  std::atomic<Offset>* const heads = table->header()->node_heads;
  uint64_t hash = 0;
  int nodes = 0;
  for (int left = trace.depth; left >= kNodeFrames; ++nodes) {
    for (const int end = left - kNodeFrames; left > end;) {
      hash = HashFrame(hash, trace.frames[--left]);
    }
    hashes[nodes] = Mix(hash);
    __builtin_prefetch(&heads[hashes[nodes] % kNodeHeads]);
  }
  for (int i = 0; i < nodes; ++i)
    __builtin_prefetch(table->At<Node>(heads[hashes[i] % kNodeHeads].load(std::memory_order_relaxed)));
}

// The same for those of a path that are not known yet, and for the list of its stack.
void AskForLists(SharedTable* table, const StackPath& path, uint64_t stack_hash) {
  std::atomic<Offset>* const heads = table->header()->node_heads;
  __builtin_prefetch(&table->header()->stack_heads[stack_hash % kStackHeads]);
  const int first = path.known_nodes * kNodeFrames;
  const auto head_at = [&](int at) { return &heads[Mix(path.hashes[at + kNodeFrames - 1]) % kNodeHeads]; };
  for (int at = first; path.depth - at >= kNodeFrames; at += kNodeFrames) __builtin_prefetch(head_at(at));
  for (int at = first; path.depth - at >= kNodeFrames; at += kNodeFrames)
    __builtin_prefetch(table->At<Node>(head_at(at)->load(std::memory_order_relaxed)));
}

// `frames`: `count` of them, innermost first. In no list. Null: the table is full.
Node* MakeNode(SharedTable* table, Offset parent, const TaggedPc* frames, int count) {
  auto* node = static_cast<Node*>(
      table->Allocate(static_cast<uint32_t>(sizeof(Node) + static_cast<size_t>(count) * sizeof(TaggedPc))));
  if (node == nullptr) return nullptr;
  node->parent = parent;
  node->frames[0] = frames[0] | static_cast<TaggedPc>(count) << kNodeCountShift;
  for (int i = 1; i < count; ++i) node->frames[i] = frames[i];
  return node;
}

// Of kNodeFrames frames. `hash`: as HashNodes says.
Node* InternNode(SharedTable* table, Offset parent, const TaggedPc* frames, uint64_t hash) {
  const TaggedPc first = frames[0] | TaggedPc{kNodeFrames} << kNodeCountShift;
  const auto same = [=](const Node& node) {
    if (node.frames[0] != first || node.parent != parent) return false;
    for (int i = 1; i < kNodeFrames; ++i) {
      if (node.frames[i] != frames[i]) return false;
    }
    return true;
  };
  NodeList list(table, hash);
  if (Node* found = list.Find(same)) return found;
  Node* node = MakeNode(table, parent, frames, kNodeFrames);
  if (node == nullptr) return nullptr;
  while (!list.Append(node)) {
    if (Node* found = list.Find(same)) return found;  // ours stays unused: a few bytes lost to a race
  }
  table->header()->node_count.fetch_add(1, std::memory_order_relaxed);
  return node;
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
  Node* node = count == kNodeFrames ? InternNode(table, parent, frames, Mix(frames_hash))
                                    : MakeNode(table, parent, frames, count);
  return node != nullptr ? table->OffsetOf(node) : 0;
}

Stack* Overflow(SharedTable* table) {
  table->Count(Loss::kStackTableFull);
  return table->At<Stack>(table->header()->overflow_stack);
}

// Nodes of a full table would be looked for in lists that are long by now: 60 µs for each sample.
bool HasNoRoom(SharedTable* table) {
  return UNLIKELY(table->IsFull(sizeof(Stack) + sizeof(Node) + kNodeFrames * sizeof(TaggedPc)));
}

uint16_t DepthWith(int depth, TaggedPc labels) { return static_cast<uint16_t>(labels == 0 ? depth : depth + 1); }

// After `list` has not found it.
Stack* AddStack(SharedTable* table, StackList* list, uint64_t hash, Offset leaf, uint16_t depth, bool truncated) {
  if (UNLIKELY(NoteSeen(hash))) {
    if (Stack* found = list->Find()) return found;
  }
  while (true) {
    list->Branch();
    Stack* stack = table->New<Stack>();
    if (stack == nullptr) return Overflow(table);
    stack->hash = hash;
    stack->leaf = leaf;
    stack->depth = depth;
    stack->truncated = truncated;
    if (list->Push(stack)) {
      NoteSeen(hash);  // what is noted may have begun meanwhile
      table->header()->stack_count.fetch_add(1, std::memory_order_relaxed);
      if (depth % kNodeFrames != 0) table->header()->node_count.fetch_add(1, std::memory_order_relaxed);
      return stack;
    }
    if (Stack* found = list->Find()) return found;  // ours stays unused: a few bytes lost to a race
  }
}

}  // namespace

Stack* InternStack(SharedTable* table, const StackTrace& trace, TaggedPc labels) {
  const uint64_t frames_hash = HashOf(trace, labels), hash = StackHash(frames_hash, trace.truncated);
  StackList list(table, hash);
  if (Stack* found = list.Find()) return found;
  if (HasNoRoom(table)) return Overflow(table);
  Offset parent = 0;
  uint64_t hashes[kMostNodes];
  HashNodes(table, trace, hashes);
  int left = trace.depth;
  for (int i = 0; left >= kNodeFrames; ++i) {
    left -= kNodeFrames;
    Node* node = InternNode(table, parent, &trace.frames[left], hashes[i]);
    if (node == nullptr) return Overflow(table);
    parent = table->OffsetOf(node);
  }
  if ((left > 0 || labels != 0) && (parent = LeafNode(table, parent, trace.frames, left, labels, frames_hash)) == 0)
    return Overflow(table);
  return AddStack(table, &list, hash, parent, DepthWith(trace.depth, labels), trace.truncated);
}

Stack* InternStack(SharedTable* table, StackPath* path, TaggedPc labels) {
  const int depth = path->depth;
  const uint64_t frames_hash = path->HashWith(labels), hash = StackHash(frames_hash, false);
  AskForLists(table, *path, hash);
  StackList list(table, hash);
  if (!list.IsSurelyNew()) {
    if (Stack* found = list.Find()) return found;
  }
  if (HasNoRoom(table)) return Overflow(table);
  Offset parent = path->known_nodes != 0 ? path->nodes[path->known_nodes - 1] : 0;
  TaggedPc frames[kNodeFrames];
  const auto innermost_first = [&](int at, int count) {
    for (int i = 0; i < count; ++i) frames[i] = path->frames[at + count - 1 - i];
    return frames;
  };
  int at = path->known_nodes * kNodeFrames;
  for (; depth - at >= kNodeFrames; at += kNodeFrames) {
    const uint64_t of_node = Mix(path->hashes[at + kNodeFrames - 1]);
    Node* node = InternNode(table, parent, innermost_first(at, kNodeFrames), of_node);
    if (node == nullptr) return Overflow(table);
    parent = table->OffsetOf(node);
    path->nodes[at / kNodeFrames] = parent;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);  // a handler may jump out: what is counted is there
    path->known_nodes = at / kNodeFrames + 1;
  }
  if ((at < depth || labels != 0) &&
      (parent = LeafNode(table, parent, innermost_first(at, depth - at), depth - at, labels, frames_hash)) == 0)
    return Overflow(table);
  return AddStack(table, &list, hash, parent, DepthWith(depth, labels), false);
}

void NoteRow(SharedTable* table, Row* row) {
  std::atomic<Offset>& newest = table->header()->in_use.newest_row;
  Offset seen = newest.load(std::memory_order_relaxed);
  do {
    row->older = seen;
  } while (
      !newest.compare_exchange_weak(seen, table->OffsetOf(row), std::memory_order_release, std::memory_order_relaxed));
}

namespace {

// Null: the table is full. `mark`: the kind of wait, or the owner.
Row* FindOrMakeRow(SharedTable* table, Stack* stack, ProfileKind profile, uint8_t mark, uint16_t size_class) {
  const auto same = [=](const Row& row) {
    return row.size_class == size_class && row.profile == profile && row.owner == mark && !IsFull(row);
  };
  const Offset seen = stack->rows.load(std::memory_order_acquire);
  for (Offset at = seen; at != 0;) {
    Row* row = table->At<Row>(at);
    if (same(*row)) return row;
    at = row->next;
  }
  Row* row = table->New<Row>();
  if (row == nullptr) return nullptr;
  row->profile = profile;
  row->owner = mark;
  row->size_class = size_class;
  // First of all: a handler may jump out before the other list has it, which then has no use for it.
  if (profile == ProfileKind::kHeap) NoteRow(table, row);
  return Publish(table, stack->rows, row, seen, same);
}

}  // namespace

Row* FindRow(SharedTable* table, Stack* stack, ProfileKind profile, WaitKind wait, uint16_t size_class) {
  return FindMarkedRow(table, stack, profile, static_cast<uint8_t>(wait), size_class);
}

Row* FindMarkedRow(SharedTable* table, Stack* stack, ProfileKind profile, uint8_t mark, uint16_t number) {
  TableHeader& head = *table->header();
  if (table->OffsetOf(stack) == head.overflow_stack) mark = 0, number = 0;
  if (Row* row = FindOrMakeRow(table, stack, profile, mark, number)) return row;
  table->Count(Loss::kStackTableFull);
  return table->At<Row>(head.overflow_row[static_cast<int>(profile)]);
}

Row* FindOwnRow(SharedTable* table, Stack* stack, uint8_t owner, uint16_t size_class) {
  if (table->OffsetOf(stack) == table->header()->overflow_stack) return nullptr;
  return FindOrMakeRow(table, stack, ProfileKind::kHeap, owner, size_class);
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
