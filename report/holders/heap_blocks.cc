#include "report/holders/heap_blocks.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "report/holders/glibc_blocks.h"

namespace holdfast {
namespace {

constexpr uint64_t kMinGuessedHeap = uint64_t{1} << 20;
constexpr uint64_t kRedZone = 128;  // functions may use this much below the stack pointer
// glibc's struct pthread: alignment, and the largest size.
constexpr uint64_t kBlockAlignment = 64, kMaxThreadBlock = 0x900;
constexpr uint64_t kMaxThreadLocal = uint64_t{64} << 10;
constexpr uint64_t kLongestStack = uint64_t{256} << 20;  // that is searched for its thread's control block
constexpr uint64_t kFirstSearched = uint64_t{64} << 10;
// Between the main thread's outermost frame and the place where its stack began.
constexpr uint64_t kMaxBeforeStart = 256;

bool IsPrivateAnonymous(const MemoryMapping& mapping) { return mapping.is_anonymous() && !mapping.shared; }

// The stack pointers of all threads.
class StackPointers {
 public:
  explicit StackPointers(const AddressSpace& space) {
    for (const TargetThread& thread : space.threads()) {
      if (thread.sp != 0) pointers_.push_back(thread.sp);
    }
    std::sort(pointers_.begin(), pointers_.end());
  }
  bool AnyIn(const MemoryRange& range) const {
    const auto first = std::lower_bound(pointers_.begin(), pointers_.end(), range.start);
    return first != pointers_.end() && range.Contains(*first);
  }

 private:
  std::vector<uint64_t> pointers_;
};

// Returns the parts of a range that no hole covers. `holes`: by address, without overlaps.
std::vector<MemoryRange> Without(MemoryRange range, const std::vector<MemoryRange>& holes) {
  std::vector<MemoryRange> pieces;
  auto hole =
      std::partition_point(holes.begin(), holes.end(), [&](const MemoryRange& one) { return one.end <= range.start; });
  for (; hole != holes.end() && hole->start < range.end; ++hole) {
    if (range.start < hole->start) pieces.push_back({range.start, hole->start});
    range.start = std::max(range.start, hole->end);
  }
  if (range.start < range.end) pieces.push_back(range);
  return pieces;
}

class BlockFinder {
 public:
  BlockFinder(AddressSpace* space, const HeapBlocksInput& input)
      : space_(*space), input_(input), stack_pointers_(*space) {}

  absl::StatusOr<HeapBlocks> Run() {
    BlockMap& map = heap_.map;
    std::vector<MemoryRange> no_heap = input_.mapped;
    no_heap.insert(no_heap.end(), input_.excluded.begin(), input_.excluded.end());
    std::sort(no_heap.begin(), no_heap.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    GlibcBlocks glibc(&space_, no_heap, &map);
    glibc.FindHeaps();
    for (const BlockMap::Heap& heap : map.heaps()) glibc_.push_back(heap.range);
    std::sort(glibc_.begin(), glibc_.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    FindOtherHeaps();
    for (const MemoryRange& range : others_) map.AddHeap(range, 0);
    if (map.expected_bytes() > input_.most_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("the scan needs more than ", input_.most_bytes >> 20,
                                                       " MiB of memory. Allow more with --scan-memory"));
    }
    map.Seal();
    glibc.AddBlocks(input_.visit_words);
    if (input_.visit_words) heap_.visited = glibc.walked();
    AddRecorded();
    if (source_of_others_ == BlockSource::kGuessed) Guess();
    map.Number();
    glibc.FindCached();
    heap_.gaps.insert(heap_.gaps.end(), glibc.gaps().begin(), glibc.gaps().end());
    heap_.ignored = glibc.arenas();
    for (std::vector<MemoryRange>* ranges : {&heap_.gaps, &heap_.ignored})
      std::sort(ranges->begin(), ranges->end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    heap_.glibc_version = glibc.version();
    heap_.knows_free = glibc.knows_caches() || glibc_.empty();
    for (const BlockMap::Heap& heap : map.heaps()) heap_.heap_bytes += space_.PopulatedBytes(heap.range);
    constexpr uint64_t kMostLost = 16;  // this part of the heaps
    heap_.is_complete = !glibc.has_lost_heap() && glibc.lost_bytes() <= heap_.heap_bytes / kMostLost;
    heap_.source = MainSource();
    return std::move(heap_);
  }

 private:
  // Finds the memory of other allocators: mappings with recorded blocks, or large ones if glibc's heaps are small.
  void FindOtherHeaps() {
    uint64_t in_glibc = 0, unknown = 0;
    for (const MemoryRange& range : glibc_) in_glibc += space_.PopulatedBytes(range);
    std::vector<MemoryRange> large;
    for (const MemoryMapping& mapping : space_.mappings()) {
      const bool is_main_heap = mapping.name == "[heap]";
      if (!mapping.writable || !(IsPrivateAnonymous(mapping) || is_main_heap)) continue;
      // The kernel joins mappings: Holdfast's memory may be beside the program's, and glibc's large blocks between
      // another allocator's memory.
      for (const MemoryRange& range : Without({mapping.start, mapping.end}, input_.excluded)) {
        if (stack_pointers_.AnyIn(range)) continue;
        const bool overlaps = OverlapsGlibc(range);
        if (!overlaps && HasRecorded(range)) {
          others_.push_back(range);
          continue;
        }
        if (!is_main_heap && (range.end - range.start < kMinGuessedHeap || AnyContains(input_.mapped, range.start)))
          continue;
        for (const MemoryRange& piece : Without(range, glibc_)) {
          if (!is_main_heap && piece.end - piece.start < kMinGuessedHeap) continue;
          const uint64_t bytes = space_.PopulatedBytes(piece);
          unknown += bytes;
          if (bytes > 0) large.push_back(piece);
        }
      }
    }
    source_of_others_ = BlockSource::kRecorded;
    heap_.unknown_bytes = unknown;
    if (others_.empty() && input_.may_guess && unknown > 4 * in_glibc + kMinGuessedHeap) {
      others_ = std::move(large);
      source_of_others_ = BlockSource::kGuessed;
    }
  }

  // glibc_ is by address, without overlaps.
  bool OverlapsGlibc(const MemoryRange& range) const {
    const auto first = std::partition_point(glibc_.begin(), glibc_.end(),
                                            [&](const MemoryRange& heap) { return heap.end <= range.start; });
    return first != glibc_.end() && first->start < range.end;
  }
  bool HasRecorded(const MemoryRange& range) const {
    const auto first = std::partition_point(input_.recorded.begin(), input_.recorded.end(),
                                            [&](const LiveBlock& block) { return block.address < range.start; });
    return first != input_.recorded.end() && first->address < range.end;
  }

  // A recorded block in a mapping that glibc's walk has not recognized does not make another allocator of the heap.
  BlockSource MainSource() const {
    uint64_t in_glibc = 0, in_others = 0;
    for (const MemoryRange& range : glibc_) in_glibc += space_.PopulatedBytes(range);
    for (const MemoryRange& range : others_) in_others += space_.PopulatedBytes(range);
    if (others_.empty() || (source_of_others_ == BlockSource::kRecorded && in_glibc > in_others))
      return glibc_.empty() ? BlockSource::kNone : BlockSource::kGlibc;
    return source_of_others_;
  }

  // The memory between recorded blocks is a gap, which is a root.
  void AddRecorded() {
    if (source_of_others_ != BlockSource::kRecorded) return;
    auto block = input_.recorded.begin();
    for (const MemoryRange& range : others_) {
      uint64_t at = range.start;
      while (block != input_.recorded.end() && block->address < range.start) ++block;
      for (; block != input_.recorded.end() && block->address < range.end; ++block) {
        const uint64_t start = block->address / BlockMap::kGrain * BlockMap::kGrain;
        uint64_t end = block->address + std::max<uint64_t>(block->bytes, 1);
        end = std::min((end + BlockMap::kGrain - 1) / BlockMap::kGrain * BlockMap::kGrain, range.end);
        if (start < at || end <= start) continue;
        AddGapBetween(at, start);
        heap_.map.AddBlock(start);
        at = end;
      }
      AddGapBetween(at, range.end);
    }
  }
  void AddGapBetween(uint64_t start, uint64_t end) {
    if (start >= end) return;
    heap_.map.AddBlock(start);
    heap_.map.MarkUnused(start);
    heap_.gaps.push_back({start, end});
  }

  // Every address that any word names is the start of a block.
  void Guess() {
    for (const MemoryMapping& mapping : space_.mappings()) {
      if (!mapping.writable || mapping.name.starts_with("/dev/")) continue;
      for (const MemoryRange& range : Without({mapping.start, mapping.end}, input_.excluded)) {
        ForEachPiece(&space_, range.start, range.end, [&](uint64_t, std::span<const uint64_t> words) {
          for (const uint64_t word : words) {
            if (word % BlockMap::kGrain == 0 && heap_.map.MayContain(word) && AnyContains(others_, word))
              heap_.map.AddBlock(word);
          }
        });
      }
    }
  }

  AddressSpace& space_;
  const HeapBlocksInput& input_;
  const StackPointers stack_pointers_;
  HeapBlocks heap_;
  std::vector<MemoryRange> glibc_, others_;
  BlockSource source_of_others_ = BlockSource::kNone;
};

// ---- Roots ----

// A thread's control block, at the upper end of its stack, and the stack's memory.
struct ThreadBlock {
  uint64_t address = 0;
  uint32_t id = 0;
  MemoryRange stack;  // empty: unknown
};

// What all searches for control blocks together may still read. A search usually ends in its first piece; without control
// blocks, as in Go, it does not.
struct SearchLimit {
  uint64_t first_bytes = uint64_t{8} << 30;  // of first pieces: 131,072 threads
  uint64_t more_bytes = uint64_t{1} << 30;   // of all later ones
};

// Searches a range for the first control block, piece by piece. A block begins with its own address and contains it a
// second time, and has the address and size of the stack.
class ThreadBlockSearch {
 public:
  // `thread`: which one is expected to have the block.
  ThreadBlockSearch(uint64_t from, uint64_t end, uint32_t thread = 0)
      : from_((from + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment),
        end_(end > from && end - from > kLongestStack ? from + kLongestStack : end),
        thread_(thread) {}

  uint32_t thread() const { return thread_; }
  const std::optional<ThreadBlock>& found() const { return found_; }
  bool IsDone() const { return found_.has_value() || from_ >= end_; }

  // Searches a piece as large as all before it, which ends where a block may begin. Returns false if the limit is reached.
  bool SearchNext(AddressSpace* space, SearchLimit* limit) {
    uint64_t* const rest = piece_ == kFirstSearched ? &limit->first_bytes : &limit->more_bytes;
    if (*rest == 0) return false;
    const uint64_t stop = std::min(end_, (from_ + piece_) / kBlockAlignment * kBlockAlignment);
    ForEachPiece(space, from_, stop, [&](uint64_t at, std::span<const uint64_t> words) {
      *rest -= std::min<uint64_t>(*rest, words.size_bytes());
      SearchIn(space, at, words);
    });
    from_ = stop;
    piece_ *= 2;
    return true;
  }

 private:
  void SearchIn(AddressSpace* space, uint64_t at, std::span<const uint64_t> words) {
    const size_t first = (kBlockAlignment - at % kBlockAlignment) % kBlockAlignment / 8;
    for (size_t i = first; i + 2 < words.size() && !found_.has_value(); i += kBlockAlignment / 8) {
      const uint64_t address = at + i * 8;
      if (words[i] != address || words[i + 2] != address) continue;
      std::array<uint64_t, kMaxThreadBlock / 8> block;
      size_t bytes = sizeof block;
      while (bytes > kThreadIdOffset && !space->Read(address, block.data(), bytes)) bytes -= 64;
      if (bytes <= kThreadIdOffset) continue;
      ThreadBlock one{.address = address, .id = static_cast<uint32_t>(block[kThreadIdOffset / 8]), .stack = {}};
      for (size_t k = 3; k + 1 < bytes / 8; ++k) {
        const MemoryRange stack{block[k], block[k] + block[k + 1]};
        if (stack.start % kSmallestPage != 0 || block[k + 1] % kSmallestPage != 0 || block[k + 1] < kSmallestPage ||
            stack.end < stack.start || stack.start == 0 || !stack.Contains(address))
          continue;
        one.stack = stack;
        break;
      }
      found_ = one;
    }
  }

  uint64_t from_;
  const uint64_t end_;
  const uint32_t thread_;
  uint64_t piece_ = kFirstSearched;
  std::optional<ThreadBlock> found_;
};

class RootFinder {
 public:
  RootFinder(AddressSpace* space, const HeapBlocks& heap, const HeapBlocksInput& input)
      : space_(*space), heap_(heap), input_(input), excluded_(input.excluded), stack_pointers_(*space) {}

  std::vector<RootRange> Run() {
    for (uint32_t i = 0; i < space_.threads().size(); ++i) AddStackOf(i);
    SearchForBlocks();
    FindEndedThreads();
    for (std::vector<MemoryRange>* ranges : {&dead_, &parts_of_threads_})
      std::sort(ranges->begin(), ranges->end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    for (uint32_t i = 0; i < space_.mappings().size(); ++i) AddMapping(i);
    for (const MemoryRange& gap : heap_.gaps) roots_.push_back({gap, RootKind::kGap, 0});
    std::sort(roots_.begin(), roots_.end(),
              [](const RootRange& a, const RootRange& b) { return a.range.start < b.range.start; });
    return std::move(roots_);
  }
  uint32_t unknown_stacks() const { return unknown_stacks_; }

 private:
  void AddStackOf(uint32_t index) {
    const TargetThread& thread = space_.threads()[index];
    const MemoryMapping* mapping = thread.sp == 0 ? nullptr : space_.MappingAt(thread.sp);
    if (mapping == nullptr || heap_.map.HeapAt(thread.sp) != nullptr) return;
    const uint64_t live = LiveFrom(thread);
    if (mapping->name == "[stack]") {
      const uint64_t start = space_.stack_start();
      if (thread.number == 1 && WalkEndsIn(thread, {start - kMaxBeforeStart, start + kMaxBeforeStart}))
        dead_.push_back({mapping->start, live});
      AddOfThread({std::max(live, mapping->start), mapping->end}, RootKind::kStack, index);
      return;
    }
    searches_.emplace_back(thread.sp, mapping->end, index);
  }
  // Searches the next piece of each stack in turn, so that threads without a block do not use up the limit before others
  // are searched.
  void SearchForBlocks() {
    for (bool is_any_left = true; is_any_left;) {
      is_any_left = false;
      for (ThreadBlockSearch& search : searches_) {
        if (!search.IsDone() && search.SearchNext(&space_, &limit_)) is_any_left = true;
      }
    }
    for (const ThreadBlockSearch& search : searches_) {
      if (!search.IsDone()) ++unknown_stacks_;
      if (search.found().has_value()) AddStackBelow(*search.found(), search.thread());
    }
  }
  void AddStackBelow(const ThreadBlock& block, uint32_t index) {
    const TargetThread& thread = space_.threads()[index];
    const uint64_t live = LiveFrom(thread);
    // Coroutines may have their stacks in the same mapping: nothing is known to be dead.
    if (block.stack.start == 0 || !block.stack.Contains(thread.sp)) return;
    if (block.id != thread.inner_id) return;
    if (WalkEndsIn(thread, {block.address - kMaxThreadLocal, block.address}))
      dead_.push_back({block.stack.start, live});
    AddOfThread({live, block.address}, RootKind::kStack, index);
    AddOfThread({block.address, block.stack.end}, RootKind::kThreadBlock, index);
  }
  static uint64_t LiveFrom(const TargetThread& thread) {
    return (thread.sp - std::min(kRedZone, thread.sp)) & ~uint64_t{7};
  }
  bool WalkEndsIn(const TargetThread& thread, const MemoryRange& expected) const {
    const std::optional<uint64_t> end = input_.outermost_end ? input_.outermost_end(thread) : std::nullopt;
    return end.has_value() && expected.Contains(*end - 1);
  }
  void AddOfThread(const MemoryRange& range, RootKind kind, uint32_t index) {
    if (range.start >= range.end) return;
    parts_of_threads_.push_back(range);
    roots_.push_back({range, kind, index});
  }

  // libc keeps the stacks of threads that have ended. Their control blocks remain roots: joining returns the result.
  void FindEndedThreads() {
    const std::vector<MemoryMapping>& mappings = space_.mappings();
    for (size_t i = 1; i < mappings.size(); ++i) {
      const MemoryMapping& mapping = mappings[i];
      if (!HasGuardBelow(mappings, i) || !IsPrivateAnonymous(mapping) || !mapping.writable) continue;
      const MemoryRange range{mapping.start, EndOfStackFrom(mapping)};
      if (range.start >= range.end || stack_pointers_.AnyIn(range)) continue;
      const uint64_t from = range.end - std::min(range.end - range.start, kMaxThreadLocal);
      ThreadBlockSearch search(from, range.end);
      while (!search.IsDone() && search.SearchNext(&space_, &limit_)) {
      }
      const std::optional<ThreadBlock>& block = search.found();
      if (!block.has_value() || block->id != 0 || block->stack.start == 0) continue;
      const uint64_t start = std::max(block->stack.start, mapping.start);
      if (start < block->address) dead_.push_back({start, block->address});
    }
  }

  // The kernel joins a stack with what was mapped before it, directly above.
  uint64_t EndOfStackFrom(const MemoryMapping& mapping) const {
    uint64_t end = mapping.end;
    if (const BlockMap::Heap* heap = heap_.map.HeapAfter(mapping.start)) end = std::min(end, heap->range.start);
    const auto above = std::partition_point(input_.mapped.begin(), input_.mapped.end(),
                                            [&](const MemoryRange& range) { return range.start <= mapping.start; });
    return above != input_.mapped.end() ? std::min(end, above->start) : end;
  }

  void AddMapping(uint32_t index) {
    const MemoryMapping& mapping = space_.mappings()[index];
    if (!MayHoldPointers(mapping)) return;
    const bool is_data = mapping.name.starts_with('/') || IsBehindFile(index);
    AddOutsideHeaps({mapping.start, mapping.end}, is_data ? RootKind::kData : RootKind::kMapping, index,
                    space_.IsExecutable(index) && (IsPrivateAnonymous(mapping) || IsMemoryFile(mapping)));
  }
  // A module's .bss continues its data in an anonymous mapping.
  bool IsBehindFile(uint32_t index) const {
    if (index == 0 || !space_.mappings()[index].name.empty()) return false;
    const MemoryMapping& before = space_.mappings()[index - 1];
    return before.end == space_.mappings()[index].start && before.writable && before.name.starts_with('/');
  }

  // Adds a range without heaps, the parts of stacks that are known, and the allocator's state.
  void AddOutsideHeaps(MemoryRange range, RootKind kind, uint32_t index, bool every_byte) {
    while (range.start < range.end) {
      MemoryRange hole{range.end, range.end};
      if (const BlockMap::Heap* heap = heap_.map.HeapAfter(range.start)) Nearer(heap->range, &hole);
      for (const std::vector<MemoryRange>* holes : std::initializer_list<const std::vector<MemoryRange>*>{
               &dead_, &parts_of_threads_, &heap_.ignored, &excluded_}) {
        const auto next = std::partition_point(holes->begin(), holes->end(),
                                               [&](const MemoryRange& one) { return one.end <= range.start; });
        if (next != holes->end()) Nearer(*next, &hole);
      }
      const uint64_t end = std::max(range.start, std::min(hole.start, range.end));
      if (range.start < end) roots_.push_back({{range.start, end}, kind, index, every_byte});
      range.start = std::max(end, std::min(hole.end, range.end));
      if (hole.start == hole.end) break;
    }
  }
  static void Nearer(const MemoryRange& range, MemoryRange* hole) {
    if (range.start < hole->start) *hole = range;
  }

  AddressSpace& space_;
  const HeapBlocks& heap_;
  const HeapBlocksInput& input_;
  const std::vector<MemoryRange>& excluded_;
  const StackPointers stack_pointers_;
  SearchLimit limit_;
  std::vector<ThreadBlockSearch> searches_;
  uint32_t unknown_stacks_ = 0;
  std::vector<MemoryRange> dead_, parts_of_threads_;
  std::vector<RootRange> roots_;
};

}  // namespace

absl::StatusOr<HeapBlocks> FindHeapBlocks(AddressSpace* space, const HeapBlocksInput& input) {
  return BlockFinder(space, input).Run();
}

std::vector<RootRange> FindRoots(AddressSpace* space, const HeapBlocks& heap, const HeapBlocksInput& input,
                                 uint32_t* unknown_stacks) {
  RootFinder finder(space, heap, input);
  std::vector<RootRange> roots = finder.Run();
  if (unknown_stacks != nullptr) *unknown_stacks = finder.unknown_stacks();
  return roots;
}

}  // namespace holdfast
