#include "sampler/table/stack_table.h"

#include "sampler/table/children.h"
#include "sampler/table/record_lists.h"
#include "sampler/table/stack_rows.h"

namespace holdfast {
namespace {

// Stacks that are not found by their outer frames: those that arrived whole, and those that are too many for a list.
constinit HashIndex stacks_by_hash, nodes_by_hash;

// `outermost_on`: HashFrame of its innermost frame; 0: it has none.
uint64_t StackHash(uint64_t outermost_on, bool truncated) { return Mix(outermost_on + (truncated ? 1 : 0)); }

// Nodes and stacks without outer frames.
constinit std::atomic<Offset> outermost_nodes{0}, outermost_stacks{0};

// `frames`: innermost first.
uint64_t HashFrames(uint64_t outer, const TaggedPc* frames, int count) {
  for (int i = count; i > 0; --i) outer = HashFrame(outer, frames[i - 1] & ~kIndexed);
  return outer;
}

bool AreEqual(const TaggedPc* a, const TaggedPc* b, int count) {
  uint64_t different = 0;
  for (int i = 0; i < count; ++i) different |= a[i] ^ b[i];
  return (different & ~kIndexed) == 0;
}

Stack* Overflow(SharedTable* table) {
  table->Count(Loss::kStackTableFull);
  return table->At<Stack>(table->header()->overflow_stack);
}

// A piece of a stack that is searched, or made, for children.h.
template <typename T>
struct PieceOf {
  using Record = T;
  static constexpr Offset T::*kLink = &T::older;
  static constexpr int kListed = kListedCalls;
  static constexpr bool kListsAll = false;
  Offset parent;
  uint64_t outer_hash;
  const TaggedPc* frames;
  uint64_t hash;  // of all frames from the outermost on; for a Leaf StackHash
};

// An outer piece.
struct Piece : PieceOf<Node> {
  static HashIndex& Index() { return nodes_by_hash; }
  std::atomic<Offset>& Newest(SharedTable* table) const {
    return parent != 0 ? table->At<Node>(parent)->nodes : outermost_nodes;
  }
  bool Is(const Node& node) const { return node.parent == parent && AreEqual(node.frames, frames, kNodeFrames); }
  // As in the index.
  uint64_t Hash() const { return Mix(hash); }
  uint64_t HashOf(const Node& sibling) const { return Mix(HashFrames(outer_hash, sibling.frames, kNodeFrames)); }
  static bool IsIndexed(const Node& node) { return (node.frames[0] & kIndexed) != 0; }
  static void SetIndexed(Node* node) { node->frames[0] |= kIndexed; }
  static bool HasRoom(SharedTable* table) { return !table->IsFull(sizeof(Node)); }
  // In no list yet. Null: the table is full.
  Node* Make(SharedTable* table) const {
    if (UNLIKELY(!HasRoom(table))) return nullptr;
    auto* node = table->New<Node>();
    if (node == nullptr) return nullptr;
    node->parent = parent;
    for (int i = 0; i < kNodeFrames; ++i) node->frames[i] = frames[i];
    return node;
  }
};

// The innermost piece.
struct Leaf : PieceOf<Stack> {
  int count, depth;  // own frames, and frames of the whole stack
  bool truncated;

  static HashIndex& Index() { return stacks_by_hash; }
  std::atomic<Offset>& Newest(SharedTable* table) const {
    return parent != 0 ? table->At<Node>(parent)->stacks : outermost_stacks;
  }
  bool Is(const Stack& stack) const {
    return stack.hash == static_cast<uint32_t>(hash) && stack.parent == parent && stack.count == count &&
           stack.truncated == truncated && AreEqual(stack.frames, frames, count);
  }
  uint64_t Hash() const { return hash; }
  uint64_t HashOf(const Stack& sibling) const {
    return StackHash(HashFrames(outer_hash, sibling.frames, sibling.count), sibling.truncated);
  }
  static bool IsIndexed(const Stack& stack) { return stack.indexed; }
  static void SetIndexed(Stack* stack) { stack->indexed = true; }
  uint32_t Bytes() const {
    return static_cast<uint32_t>(sizeof(Stack) + static_cast<size_t>(count) * sizeof(TaggedPc));
  }
  bool HasRoom(SharedTable* table) const { return !table->IsFull(Bytes()); }
  // In the readers' list, in no other yet.
  Stack* Make(SharedTable* table) const {
    if (UNLIKELY(!HasRoom(table))) return nullptr;
    auto* stack = static_cast<Stack*>(table->Allocate(Bytes()));
    if (stack == nullptr) return nullptr;
    stack->hash = static_cast<uint32_t>(hash);
    stack->parent = parent;
    stack->depth = static_cast<uint16_t>(depth);
    stack->count = static_cast<uint8_t>(count);
    stack->truncated = truncated;
    for (int i = 0; i < count; ++i) stack->frames[i] = frames[i];
    Push(table, table->header()->stack_lists[thread_state.shard * kListsOfShard + hash % kListsOfShard], stack,
         &Stack::next);
    return stack;
  }
};

}  // namespace

void PrepareStacks(SharedTable* table) {
  stacks_by_hash.Prepare(table);
  nodes_by_hash.Prepare(table);
  PrepareRows(table);
}

void ForgetStacks() {
  stacks_by_hash.Forget();
  nodes_by_hash.Forget();
  outermost_nodes.store(0, std::memory_order_relaxed);
  outermost_stacks.store(0, std::memory_order_relaxed);
  ForgetRows();
}

namespace {

// Interns the innermost piece: all remaining `frames`, and the labels, if any. `hash`: of the whole stack.
Offset InternLeaf(SharedTable* table, Leaf leaf, TaggedPc labels) {
  TaggedPc with_labels[kNodeFrames];
  if (labels != 0) {
    with_labels[0] = labels;
    for (int i = 0; i < leaf.count; ++i) with_labels[i + 1] = leaf.frames[i];
    leaf.frames = with_labels;
    ++leaf.count;
  }
  return FindOrMakeChild(table, leaf);
}

// How many outer pieces of a stack of `frames` frames are nodes: at least one frame remains, labels included.
int OuterPieces(int frames) { return frames > 0 ? (frames - 1) / kNodeFrames : 0; }

// 0: the table is full.
Offset InternByFrames(SharedTable* table, const StackTrace& trace, TaggedPc labels, uint64_t hash) {
  const int depth = trace.depth + (labels != 0 ? 1 : 0);
  Offset parent = 0;
  uint64_t outer_hash = 0;
  int left = trace.depth;
  for (int i = OuterPieces(depth); i > 0; --i) {
    left -= kNodeFrames;
    const TaggedPc* frames = &trace.frames[left];
    const uint64_t of_piece = HashFrames(outer_hash, frames, kNodeFrames);
    parent = FindOrMakeChild(table, Piece{{parent, outer_hash, frames, of_piece}});
    if (parent == 0) return 0;
    outer_hash = of_piece;
  }
  return InternLeaf(table, {{parent, outer_hash, trace.frames, hash}, left, depth, trace.truncated}, labels);
}

}  // namespace

Stack* InternStack(SharedTable* table, const StackTrace& trace, TaggedPc labels) {
  uint64_t frames_hash = HashFrames(0, trace.frames, trace.depth);
  if (labels != 0) frames_hash = HashFrame(frames_hash, labels);
  const uint64_t hash = StackHash(frames_hash, trace.truncated);
  const Offset found = stacks_by_hash.FindOrAdd(
      table, hash, [=](Offset at) { return table->At<Stack>(at)->hash == static_cast<uint32_t>(hash); },
      [&] { return InternByFrames(table, trace, labels, hash); });
  return found != 0 ? table->At<Stack>(found) : Overflow(table);
}

HOLDFAST_WARM Stack* InternStack(SharedTable* table, StackPath* path, TaggedPc labels) {
  const int depth = path->depth + (labels != 0 ? 1 : 0), outer = OuterPieces(depth);
  TaggedPc frames[kNodeFrames];
  const auto innermost_first = [&](int at, int count) {
    for (int i = 0; i < count; ++i) frames[i] = path->frames[at + count - 1 - i];
    return frames;
  };
  const auto hash_outside = [=](int at) { return at > 0 ? path->hashes[at - 1] : 0; };
  int piece = path->known_nodes < outer ? path->known_nodes : outer;
  Offset parent = piece > 0 ? path->nodes[piece - 1] : 0;
  for (; piece < outer; ++piece) {
    const int at = piece * kNodeFrames;
    parent = FindOrMakeChild(
        table, Piece{{parent, hash_outside(at), innermost_first(at, kNodeFrames), path->hashes[at + kNodeFrames - 1]}});
    if (parent == 0) return Overflow(table);
    path->nodes[piece] = parent;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);  // a handler may jump out: counted frames are complete
    path->known_nodes = piece + 1;
  }
  const int at = outer * kNodeFrames, left = path->depth - at;
  const uint64_t hash = StackHash(path->HashWith(labels), false);
  const Offset found =
      InternLeaf(table, {{parent, hash_outside(at), innermost_first(at, left), hash}, left, depth, false}, labels);
  return found != 0 ? table->At<Stack>(found) : Overflow(table);
}

}  // namespace holdfast
