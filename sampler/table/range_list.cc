#include "sampler/table/range_list.h"

#include <algorithm>
#include <bit>

#include "sampler/contract/attributes.h"
#include "sampler/table/stack_table.h"

namespace holdfast {
namespace {

constexpr uint32_t kShareOfTable = 4;
constexpr int kPageShift = 12;

constinit Offset heads[kRangeLevels] = {};
constinit Offset free_ranges = 0;  // by next[0]
constinit uint64_t segment_bytes = 0;
constinit uint64_t random = 0;
constinit std::atomic<uint64_t> tickets{1};

// The last range in each level that ends at or before an address; 0: none, so the level's head.
using Path = Offset[kRangeLevels];

class Ranges {
 public:
  explicit Ranges(SharedTable* table) : table_(table) {}

  MappedRange* At(Offset offset) { return table_->At<MappedRange>(offset); }
  Row* RowOf(const MappedRange& range) { return table_->At<Row>(range.row); }

  Offset Next(const Path& path) { return Link(path[0], 0); }

  void Find(uint64_t address, Path* path) {
    Offset at = 0;
    for (int level = kRangeLevels - 1; level >= 0; --level) {
      for (Offset next = Link(at, level); next != 0 && At(next)->end <= address; next = Link(at, level)) at = next;
      (*path)[level] = at;
    }
  }

  MappingKind KindAt(uint64_t address) {
    Path path;
    Find(address, &path);
    const Offset at = Next(path);
    return at != 0 && At(at)->start <= address ? At(at)->kind : MappingKind::kNone;
  }

  // Returns the kind of the first mapping there; kNone: nothing. `path`: as Find(start) has left it, and becomes that
  // of Find(end).
  MappingKind Remove(uint64_t start, uint64_t end, uint64_t older_than, Path* path) {
    MappingKind kind = MappingKind::kNone;
    for (Offset at = Next(*path); at != 0 && At(at)->start < end; at = Next(*path)) {
      MappedRange* range = At(at);
      if (range->ticket >= older_than) {
        Pass(at, path);
        continue;
      }
      if (kind == MappingKind::kNone) kind = range->kind;
      const uint64_t from = std::max(start, range->start), to = std::min(end, range->end);
      CountUnmapped(*range, to - from);
      if (from == range->start && to == range->end) {
        Drop(at, *path);
      } else if (from == range->start) {
        Behead(range, to);
      } else if (to == range->end) {
        range->end = from;
        Pass(at, path);
      } else {
        Split(at, from, to, path);
      }
    }
    return kind;
  }

  // Into a gap.
  void Add(const MappingChange& change, MappingKind kind, Row* row, const Path& path) {
    const uint64_t start = change.start, end = change.end;
    AddTo(table_, &row->sums[kAllocObjects], uint64_t{1} << kCountFractionBits);
    AddTo(table_, &row->sums[kAllocSpace], (end - start) << kAmountFractionBits);
    const Offset added = Make({.start = start,
                               .end = end,
                               .ticket = change.ticket,
                               .row = table_->OffsetOf(row),
                               .before = 0,
                               .after = 0,
                               .next = {},
                               .levels = 0,
                               .kind = kind,
                               .pages_before = 0});
    if (added == 0) {
      // Its end would never be seen. Undercounting one mapping beats reporting a false leak.
      AddTo(table_, &row->sums[kFreeSpace], (end - start) << kAmountFractionBits);
      AddTo(table_, &row->sums[kFreeObjects], uint64_t{1} << kCountFractionBits);
      return table_->Count(Loss::kMappingsFull);
    }
    Insert(added, path);
  }

  // Removes all pieces of the mapping that begins or began there: the kernel does the same with what is left of it.
  void Detach(uint64_t start, uint64_t older_than) {
    constexpr int kMaxLooks = 64;
    Path path;
    Find(start, &path);
    Offset piece = Next(path);
    for (int looks = 0; piece == 0 || !IsAttachedAt(*At(piece), start); piece = At(piece)->next[0]) {
      if (piece == 0 || ++looks > kMaxLooks) return;
    }
    for (bool last = false; !last;) {
      const MappedRange range = *At(piece);
      last = range.after == piece;
      Find(range.start, &path);
      Remove(range.start, range.end, older_than, &path);
      piece = range.after;
    }
  }

 private:
  Offset& Link(Offset at, int level) { return at != 0 ? At(at)->next[level] : heads[level]; }

  // Skips a range that stays, and precedes the rest of the search.
  void Pass(Offset at, Path* path) {
    const MappedRange& range = *At(at);
    for (int level = 0; level < range.levels; ++level) (*path)[level] = at;
  }

  static void Behead(MappedRange* range, uint64_t start) {
    const uint64_t pages = range->pages_before + ((start - range->start) >> kPageShift);
    range->pages_before = static_cast<uint16_t>(std::min<uint64_t>(pages, kManyPages));
    range->start = start;
  }
  static bool IsAttachedAt(const MappedRange& range, uint64_t start) {
    return range.kind == MappingKind::kShm && range.pages_before != kManyPages &&
           range.start - (uint64_t{range.pages_before} << kPageShift) == start;
  }

  void CountUnmapped(const MappedRange& range, uint64_t bytes) {
    AddTo(table_, &RowOf(range)->sums[kFreeSpace], bytes << kAmountFractionBits);
  }

  void Insert(Offset at, const Path& path) {
    MappedRange* range = At(at);
    for (int level = 0; level < range->levels; ++level) {
      range->next[level] = Link(path[level], level);
      Link(path[level], level) = at;
    }
  }

  // The last piece removes the object.
  void Drop(Offset at, const Path& path) {
    MappedRange* range = At(at);
    for (int level = 0; level < range->levels; ++level) Link(path[level], level) = range->next[level];
    if (range->after == at) {
      AddTo(table_, &RowOf(*range)->sums[kFreeObjects], uint64_t{1} << kCountFractionBits);
    } else {
      At(range->before)->after = range->after;
      At(range->after)->before = range->before;
    }
    range->end = 0;
    range->next[0] = free_ranges;
    free_ranges = at;
  }

  // Removes its middle; the path leads past its first piece.
  void Split(Offset at, uint64_t from, uint64_t to, Path* path) {
    MappedRange* range = At(at);
    MappedRange rest = *range;
    Behead(&rest, to);
    const Offset second = Make(rest);
    if (second == 0) {
      CountUnmapped(*range, range->end - to);
      table_->Count(Loss::kMappingsFull);
    }
    range->end = from;
    Pass(at, path);
    if (second == 0) return;
    At(second)->before = at;
    At(second)->after = range->after;
    At(range->after)->before = second;
    range->after = second;
    Insert(second, *path);
  }

  // Not yet in the list; a ring of its own. 0: no room.
  Offset Make(const MappedRange& as) {
    if (free_ranges == 0 && !MakeSegment()) return 0;
    const Offset made = free_ranges;
    MappedRange* range = At(made);
    free_ranges = range->next[0];
    // xorshift; two bits for each level.
    random ^= random << 13 ^ 0x9e3779b97f4a7c15;
    random ^= random >> 7;
    random ^= random << 17;
    const int more = std::countr_zero(random | uint64_t{1} << 2 * (kRangeLevels - 1)) / 2;
    *range = as;
    range->levels = static_cast<uint8_t>(1 + more);
    range->before = range->after = made;
    return made;
  }

  bool MakeSegment() {
    if (segment_bytes + sizeof(MappedRangeSegment) > table_->header()->cap_bytes / kShareOfTable) return false;
    auto* segment = table_->New<MappedRangeSegment>();
    if (segment == nullptr) return false;
    segment_bytes += sizeof *segment;
    for (MappedRange& range : segment->ranges) {
      range.next[0] = free_ranges;
      free_ranges = table_->OffsetOf(&range);
    }
    segment->next = table_->header()->mapped_ranges.load(std::memory_order_relaxed);
    // Release: a reader that finds the segment finds it empty, or with later contents.
    table_->header()->mapped_ranges.store(table_->OffsetOf(segment), std::memory_order_release);
    return true;
  }

  SharedTable* const table_;
};

}  // namespace

uint64_t TakeMappingTicket() { return tickets.fetch_add(1, std::memory_order_relaxed); }

void ApplyChange(SharedTable* table, const MappingChange& change) {
  Ranges ranges(table);
  Path path;
  MappingKind was = MappingKind::kNone;
  if (change.detached) {
    ranges.Detach(change.removed_start, change.older_than);
  } else if (change.removed_start < change.removed_end) {
    ranges.Find(change.removed_start, &path);
    was = ranges.Remove(change.removed_start, change.removed_end, change.older_than, &path);
  } else if (change.removed_start != 0) {
    was = ranges.KindAt(change.removed_start);
  }
  if (change.start >= change.end) return;
  MappingKind kind = change.kind != MappingKind::kNone ? change.kind : was;
  if (kind == MappingKind::kNone) kind = MappingKind::kAnonymous;
  Row* row = FindMarkedRow(table, table->At<Stack>(change.stack), ProfileKind::kMap, static_cast<uint8_t>(kind), 0);
  ranges.Find(change.start, &path);
  ranges.Remove(change.start, change.end, UINT64_MAX, &path);  // by MAP_FIXED, or unmapped unseen
  ranges.Add(change, kind, row, path);
}

void ForgetRanges() {
  for (Offset& head : heads) head = 0;
  free_ranges = 0;
  segment_bytes = 0;
}

}  // namespace holdfast
