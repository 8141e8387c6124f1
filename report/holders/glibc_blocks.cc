#include "report/holders/glibc_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "report/base/base_name.h"
#include "report/base/libc_names.h"
#include "report/holders/thread_cache.h"

namespace holdfast {
namespace {

constexpr uint64_t kChunkStep = 16, kMinChunk = 32, kChunkHead = 16;
constexpr uint64_t kPreviousUsed = 1, kIsMapped = 2, kChunkFlags = 7;
constexpr uint64_t kArenaHeap = uint64_t{64} << 20;
constexpr int kTrustedChunks = 16;                       // this many consecutive plausible heads
constexpr uint64_t kLongestSearch = uint64_t{16} << 20;  // for the next plausible head
constexpr uint64_t kLargestHeapHead = 256;               // heap_info
constexpr uint64_t kMaxArenaHead = uint64_t{8} << 10;    // heap_info and malloc_state
constexpr uint64_t kMaxGrown = uint64_t{64} << 20;       // of [heap] during a scan
constexpr size_t kMostMarked = 1 << 20;                  // marked blocks to remember
constexpr size_t kMaxCaches = 1 << 16;                   // candidates for a thread's cache to examine
constexpr size_t kMaxArenas = 1 << 16;
constexpr uint64_t kMaxArenaThreads = 1 << 22;
constexpr uint64_t kMaxLibcData = uint64_t{16} << 20;
// A search reads here and there. Contents made on purpose could make it read everything many times.
constexpr uint64_t kMaxSearchedBytes = uint64_t{256} << 20;

// An arena's state (malloc_state), relative to the first of 254 words of bins: fast bins, the top chunk, and the next
// arena. The state begins before the fast bins, which 2.43 does not have.
//
//    +0 lock, flags │ fast bins: 10 words │ top │ last remainder │ bins: 254 words │ map: 2 words │ next arena │ …
constexpr uint64_t kFastBinsToBins = 0x60, kTopToBins = 0x10, kBinsToNext = 0x800, kBinsToEnd = 0x828;
constexpr uint64_t kStateToBins = 0x70, kStateToBins226 = 0x68;
constexpr int kFastBins = 10, kBinWords = 254;
constexpr int kMaxTornWords = 4;    // the program may change a list while its head is read
constexpr int kMaxAttempts = 4096;  // to find the main arena in one module
constexpr int kNewestMinor = 43;    // of glibc versions with caches that are known from the source

bool IsOrdinaryMemory(const MemoryMapping& mapping) {
  return mapping.is_anonymous() && mapping.readable && mapping.writable && !mapping.shared;
}

}  // namespace

// Not in the unnamed namespace, because a class of the header has them as members.
namespace glibc_walk {

// Reads single words through a window, which is small unless words are read in ascending order. Between BeginPass and
// EndPass a visitor gets all words of a range, once, in ascending order, also those that At is not asked for.
class WindowReader {
 public:
  explicit WindowReader(AddressSpace* space, uint64_t budget = UINT64_MAX) : space_(*space), budget_(budget) {}

  // Returns 0 if the word cannot be read, and once the budget is spent.
  uint64_t At(uint64_t address) {
    if (address < start_ || address - start_ + sizeof(uint64_t) > bytes_) Move(address);
    if (bytes_ < sizeof(uint64_t)) return 0;
    uint64_t word;
    memcpy(&word, window_.data() + (address - start_), sizeof word);
    return word;
  }
  bool is_spent() const { return budget_ < kSmallWindow; }

  void BeginPass(const MemoryRange& range, const WordVisitor& visit) {
    bytes_ = 0;
    rest_ = range;
    visit_ = visit ? &visit : nullptr;
  }
  void EndPass() {
    if (visit_ != nullptr) PassTo(rest_.end);
    visit_ = nullptr;
  }

 private:
  static constexpr uint64_t kWindowBytes = 256 << 10, kSmallWindow = 4 << 10;

  void Move(uint64_t address) {
    const bool is_next = bytes_ > 0 && address >= start_ && address - start_ < 2 * bytes_;
    const uint64_t most = is_next ? std::min(kWindowBytes, std::max(bytes_ * 2, kSmallWindow)) : kSmallWindow;
    start_ = address;
    bytes_ = 0;
    if (budget_ < most || address > UINT64_MAX - kWindowBytes || space_.IsEnding()) return;
    const MemoryRange run = space_.PopulatedRun(address, address + most);
    if (run.start != address) {
      budget_ -= std::min(budget_, kSmallWindow);
      return;
    }
    for (bytes_ = run.end - address; bytes_ >= sizeof(uint64_t) && !space_.Read(address, window_.data(), bytes_);)
      bytes_ /= 2;
    if (budget_ != UINT64_MAX) budget_ -= most;
    if (visit_ != nullptr && bytes_ >= sizeof(uint64_t)) PassWindow();
  }
  void PassWindow() {
    PassTo(std::min(start_, rest_.end));
    const uint64_t end = std::min(start_ + bytes_, rest_.end) / sizeof(uint64_t) * sizeof(uint64_t);
    if (rest_.start >= end) return;
    (*visit_)(rest_.start, {reinterpret_cast<const uint64_t*>(window_.data() + (rest_.start - start_)),
                            (end - rest_.start) / sizeof(uint64_t)});
    rest_.start = end;
  }
  // Reads what the windows have left out, such as the inner part of a large block.
  void PassTo(uint64_t end) {
    if (rest_.start >= end) return;
    ForEachPiece(&space_, rest_.start, end, *visit_);
    rest_.start = end;
  }

  AddressSpace& space_;
  uint64_t budget_;
  uint64_t start_ = 0, bytes_ = 0;
  const WordVisitor* visit_ = nullptr;
  MemoryRange rest_;  // not yet visited
  std::vector<char> window_ = std::vector<char>(kWindowBytes);
};

// Words that may be the number that marks cached chunks.
class KeyCandidates {
 public:
  void Add(uint64_t word) {
    if (!words_.insert(word).second) return;
    filter_[Place(word) / 64] |= uint64_t{1} << Place(word) % 64;
  }
  bool Contain(uint64_t word) const {
    return (filter_[Place(word) / 64] >> Place(word) % 64 & 1) != 0 && words_.contains(word);
  }

 private:
  static uint64_t Place(uint64_t word) { return word * 0x9e3779b97f4a7c15 >> 52; }
  std::array<uint64_t, 64> filter_ = {};
  std::set<uint64_t> words_;
};

struct ChunkHeap {
  MemoryRange range;   // of its chunks
  uint64_t grown = 0;  // its end now: beyond `range` if it has grown since the mappings were read
  uint64_t whole = 0;  // where the mapping begins
  bool is_main = false;
};

}  // namespace glibc_walk

class GlibcBlocks::Walk {
  using WindowReader = glibc_walk::WindowReader;
  using ChunkHeap = glibc_walk::ChunkHeap;

 public:
  Walk(AddressSpace* space, const std::vector<MemoryRange>& excluded, BlockMap* blocks, GlibcBlocks* found)
      : space_(*space),
        words_(space),
        search_words_(space, kMaxSearchedBytes),
        excluded_(excluded),
        blocks_(*blocks),
        found_(*found) {}

  void FindHeaps() {
    found_.version_ = LibcVersion();
    // Without the main arena nothing here is glibc's: other allocators use [heap], too.
    if (!FindMainArena()) return;
    MemoryRange main;
    for (const MemoryMapping& mapping : space_.mappings()) {
      if (mapping.name == "[heap]") {
        // One heap may consist of several mappings.
        if (main.start == 0) main.start = mapping.start;
        main.end = mapping.end;
      } else if (IsOrdinaryMemory(mapping) && &mapping != space_.MappingAt(main_top_)) {
        FindInMapping(mapping);
      }
    }
    // A core file does not name the heap.
    if (main.start == 0) {
      if (const MemoryMapping* mapping = space_.MappingAt(main_top_)) main = {mapping->start, mapping->end};
    }
    // If another allocator uses [heap], the main arena is elsewhere, and not walked.
    if (main.start != 0 && (main.Contains(main_top_) || HasGrown(main)))
      AddChunkHeap({main, HasGrown(main) ? main_top_ + kMaxGrown : main.end, main.start, true});
    else if (is_top_unmapped_)
      found_.has_lost_heap_ = true;
    found_.heap_count_ = heaps_.size();
  }

  void AddBlocks(const WordVisitor& visit) {
    for (const ChunkHeap& heap : heaps_) {
      words_.BeginPass(heap.range, visit);
      WalkChunks(heap);
      words_.EndPass();
      found_.walked_.push_back(heap.range);
    }
    KeepMarked();
  }

  void FindCached() {
    if (heaps_.empty()) return;
    FindCaches();
    FindFastBins();
    DoubtMarked();
    if (is_ambiguous_) found_.knows_caches_ = false;
    if (search_words_.is_spent()) found_.knows_caches_ = false;
  }

 private:
  // ---- The main arena ----

  // The main arena is in libc's data, or in the program's if libc is linked into it. Returns false if there is none, or
  // if it has no memory: then another allocator replaces malloc.
  bool FindMainArena() {
    for (size_t i = 0; i < space_.mappings().size(); ++i) {
      const MemoryMapping& mapping = space_.mappings()[i];
      if (!mapping.writable || mapping.shared || !mapping.name.starts_with('/')) continue;
      MemoryRange data{mapping.start, mapping.end};
      // .bss continues in an anonymous mapping.
      if (i + 1 < space_.mappings().size()) {
        const MemoryMapping& next = space_.mappings()[i + 1];
        if (next.start == mapping.end && next.name.empty() && next.writable) data.end = next.end;
      }
      if (data.end - data.start > kMaxLibcData) continue;
      if (!FindMainArenaIn(data)) continue;
      if (IsFileOfGlibc(mapping.name)) return true;
      // A second libc (dlmopen, or linked into a library) would be possible: prefer libc.so.6, which comes later.
      if (!HasMapping("libc.so.6")) return true;
    }
    return main_bins_ != 0;
  }
  // The program has extended its heap since the mappings were read: the top chunk is there already.
  bool HasGrown(const MemoryRange& main) const {
    return is_top_unmapped_ && main_top_ >= main.end && main_top_ - main.end <= kMaxGrown;
  }
  bool HasMapping(std::string_view file) const {
    return std::any_of(space_.mappings().begin(), space_.mappings().end(),
                       [&](const MemoryMapping& mapping) { return BaseName(mapping.name).starts_with(file); });
  }
  bool FindMainArenaIn(const MemoryRange& data) {
    uint64_t bins = 0;
    int attempts = kMaxAttempts;
    ForEachPiece(&space_, data.start, data.end, [&](uint64_t at, std::span<const uint64_t> words) {
      for (size_t i = 0; i + 1 < words.size() && bins == 0; ++i) {
        const uint64_t address = at + i * sizeof(uint64_t);
        if (words[i] != address - kChunkHead || words[i + 1] != words[i]) continue;
        // An empty bin. The first bins may be in use, so it need not be the first of all.
        for (uint64_t first = address; first + kBinWords * 8 > address && first >= data.start + kStateToBins;
             first -= 16) {
          if (attempts == 0) return;
          --attempts;
          if (!AreBins(first)) continue;
          bins = first;
          break;
        }
      }
    });
    if (bins == 0) return false;
    uint64_t top = 0;
    if (!space_.Read(bins - kTopToBins, &top, sizeof top)) return false;
    const MemoryMapping* mapping = space_.MappingAt(top);
    if (top == 0 || top % kChunkStep != 0 ||
        (mapping != nullptr && mapping->name != "[heap]" && !IsOrdinaryMemory(*mapping)))
      return false;
    is_top_unmapped_ = mapping == nullptr;
    main_bins_ = bins;
    main_top_ = top;
    key_candidates_ = {};
    ForEachPiece(&space_, data.start, data.end, [&](uint64_t, std::span<const uint64_t> words) {
      for (const uint64_t word : words) {
        if (MayBeKey(word)) key_candidates_.Add(word);
      }
    });
    return true;
  }
  // Each of 127 bins is a list: empty ones lead to themselves, others to chunks. After them are, besides the map, the next
  // arena, the next free arena, a number of threads, and the arena's bytes now and at most.
  bool AreBins(uint64_t at) {
    constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 47;
    std::array<uint64_t, kBinWords> words;
    uint64_t tail[5];
    if (!space_.Read(at + kBinsToNext, tail, sizeof tail) || !MayBeArena(tail[0], at) || tail[1] % 8 != 0 ||
        tail[2] > kMaxArenaThreads || tail[3] == 0 || tail[3] > tail[4] || tail[4] > kMaxArenaBytes)
      return false;
    if (!space_.Read(at, words.data(), sizeof words)) return false;
    int wrong = 0, empty = 0;
    for (int i = 0; i < kBinWords && wrong <= kMaxTornWords; ++i) {
      const uint64_t bin = at + static_cast<uint64_t>(i / 2 * 16) - kChunkHead, word = words[static_cast<size_t>(i)];
      empty += word == bin ? 1 : 0;
      wrong += word == bin || IsInOrdinaryMemory(word) ? 0 : 1;
    }
    return wrong <= kMaxTornWords && empty >= 2;
  }
  // Returns whether an arena's state may be at `address`. The main one is before its bins; others begin after a heap's
  // head. The words beside the address of the next arena are small numbers, or multiples of a page.
  bool MayBeArena(uint64_t address, uint64_t bins) const {
    if (address % 8 != 0) return false;
    for (const uint64_t main : {bins, main_bins_}) {
      if (main - address >= kChunkHead && main - address <= kStateToBins) return true;
    }
    return address > kMaxArenaThreads && address % kSmallestPage != 0 && address % kSmallestPage < kLargestHeapHead;
  }
  bool IsInOrdinaryMemory(uint64_t chunk) const {
    const MemoryMapping* mapping = chunk % kChunkStep == 0 ? space_.MappingAt(chunk) : nullptr;
    return mapping != nullptr && (mapping->name == "[heap]" || IsOrdinaryMemory(*mapping));
  }
  // The number is random; glibc takes care that it looks so since 2.42.
  bool MayBeKey(uint64_t word) const {
    constexpr uint64_t kUnusual = uint64_t{1} << 32;
    const int ones = std::popcount(word);
    return ones >= 12 && ones <= 52 && word > kUnusual && word < UINT64_MAX - kUnusual &&
           space_.MappingAt(word) == nullptr;
  }
  // Since 2.34: the second word of a cached chunk is the number, and the first is the next cached chunk, hidden.
  bool IsCached(uint64_t block) {
    if (!key_candidates_.Contain(words_.At(block + 8))) return false;
    const uint64_t next = words_.At(block) ^ block >> 12;
    return next == 0 || IsInOrdinaryMemory(next);
  }
  void NoteIfCached(uint64_t block) {
    if (IsCached(block) && marked_.size() < kMostMarked) marked_.emplace_back(block, words_.At(block + 8));
  }

  // All cached chunks have the same number. Another number of libc's data may be in a used block by chance: one that
  // occurs less often marks nothing.
  void KeepMarked() {
    std::map<uint64_t, uint64_t> counts;
    for (const auto& [block, number] : marked_) ++counts[number];
    uint64_t most = 0, number_of_most = 0;
    int with_most = 0;
    for (const auto& [number, count] : counts) {
      with_most = count > most ? 1 : with_most + (count == most ? 1 : 0);
      if (count <= most) continue;
      most = count;
      number_of_most = number;
    }
    is_ambiguous_ = with_most > 1 || marked_.size() == kMostMarked;
    number_ = number_of_most;
    std::erase_if(marked_, [&](const auto& marked) { return marked.second != number_of_most; });
    std::sort(marked_.begin(), marked_.end());
  }
  // A used block may have the mark, too. A thread that ends returns its cache to the arena, which keeps the mark, and so
  // does malloc. The program may never write the first words: those of std::deque's map are empty. So only the caches'
  // lists tell which marked blocks are free. The others are listed neither as used nor as lost, and count as roots.
  void DoubtMarked() {
    for (const auto& [block, mark] : marked_) {
      const BlockMap::Block found = blocks_.Find(block);
      if (found.number == BlockMap::kNone || found.range.start != block || found.unused) continue;
      blocks_.MarkUnused(block);
      found_.gaps_.push_back(found.range);
    }
  }

  static bool IsChunkSize(uint64_t at, uint64_t size, uint64_t end) {
    return size >= kMinChunk && size % kChunkStep == 0 && size <= end - at;
  }
  bool IsTrustedChunk(uint64_t at, uint64_t end) {
    for (int i = 0; i < kTrustedChunks; ++i) {
      if (at + kMinChunk > end) return i > 0;
      const uint64_t size = search_words_.At(at + 8) & ~kChunkFlags;
      if (!IsChunkSize(at, size, end)) return i > 0 && end - at <= 3 * kMinChunk;
      at += size;
      if (at == end) return true;
    }
    return true;
  }

  void AddChunkHeap(const ChunkHeap& heap) {
    heaps_.push_back(heap);
    blocks_.AddHeap({heap.whole, heap.range.end}, sizeof(uint64_t));
  }

  void FindInMapping(const MemoryMapping& mapping) {
    std::vector<MemoryRange> rest;
    uint64_t from = mapping.start;
    for (uint64_t at = (mapping.start + kArenaHeap - 1) / kArenaHeap * kArenaHeap; at < mapping.end && at >= from;) {
      if (space_.IsEnding()) return;
      const MemoryRange run = space_.PopulatedRun(at, mapping.end);
      if (run.start > at) {
        at = (run.start + kArenaHeap - 1) / kArenaHeap * kArenaHeap;
        continue;
      }
      if (const std::optional<ChunkHeap> heap = ArenaHeapAt(at, mapping.end)) {
        if (from < at) rest.push_back({from, at});
        AddChunkHeap(*heap);
        from = heap->range.end;
      }
      at += kArenaHeap;
    }
    if (from < mapping.end) rest.push_back({from, mapping.end});
    for (const MemoryRange& range : rest) FindMappedChunks(range);
  }

  // A heap begins with the address of its arena, which is in the first page of the same or an earlier heap; the previous
  // heap; its size.
  std::optional<ChunkHeap> ArenaHeapAt(uint64_t at, uint64_t end) {
    uint64_t head[4], first = 0;
    if (!space_.Read(at, head, sizeof head)) return std::nullopt;
    const uint64_t arena = head[0], bytes = head[2];
    if (arena < kArenaHeap || arena % kArenaHeap == 0 || arena % kArenaHeap >= kLargestHeapHead ||
        bytes % kSmallestPage != 0 || bytes == 0 || bytes > kArenaHeap || bytes > head[3]) {
      return std::nullopt;
    }
    if (!space_.Read(arena - arena % kArenaHeap, &first, sizeof first) || first != arena) return std::nullopt;
    const uint64_t heap_end = std::min(at + bytes, end);
    const bool has_state = arena - arena % kArenaHeap == at;
    const uint64_t from = has_state ? arena : at + 0x20;
    for (uint64_t chunk = from / kChunkStep * kChunkStep; chunk < from + kMaxArenaHead && chunk < heap_end;
         chunk += kChunkStep) {
      if ((search_words_.At(chunk + 8) & kPreviousUsed) == 0 || !IsTrustedChunk(chunk, heap_end)) continue;
      if (has_state && arena_states_.size() < kMaxArenas) arena_states_.push_back(arena);
      return ChunkHeap{{chunk, heap_end}, at + bytes, at, false};
    }
    found_.has_lost_heap_ = true;
    return std::nullopt;
  }

  // Large blocks fill their mapping, alone or beside each other. A chain of them must begin or end with the mapping:
  // other memory may look like one of them by chance.
  void FindMappedChunks(const MemoryRange& range) {
    uint64_t at = AddChain(range.start, ChainEnd(range.start, range.end));
    while (at < range.end && !space_.IsEnding()) {
      const MemoryRange run = space_.PopulatedRun(at, range.end);
      if (run.start >= range.end) return;
      at = run.start / kSmallestPage * kSmallestPage;
      const uint64_t chain_end = ChainEnd(at, range.end);
      if (chain_end == range.end) {
        AddChain(at, chain_end);
        return;
      }
      // A chain that begins within this one ends at the same place.
      at = std::max(chain_end, at + kSmallestPage);
    }
  }
  uint64_t AddChain(uint64_t at, uint64_t end) {
    while (at < end) {
      const uint64_t size = MappedChunkSize(at, end);
      if (size == 0) break;  // changed meanwhile
      const uint64_t block = at + kChunkHead;
      blocks_.AddHeap({at, at + size}, 0, block);
      NoteIfCached(block);  // since 2.43, if glibc.malloc.tcache_max is raised
      at += size;
    }
    return at;
  }
  // The size in the head includes the head's own 16 bytes up to 2.42.
  uint64_t MappedChunkSize(uint64_t at, uint64_t end) {
    if (AnyContains(excluded_, at) || words_.At(at) != 0) return 0;
    const uint64_t head = words_.At(at + 8), bytes = head & ~kChunkFlags;
    const uint64_t size = bytes % kSmallestPage == 0 ? bytes : bytes + kChunkHead;
    if ((head & kChunkFlags) != kIsMapped || size < kSmallestPage || size % kSmallestPage != 0 || size > end - at)
      return 0;
    return size;
  }
  uint64_t ChainEnd(uint64_t at, uint64_t end) {
    while (at < end) {
      const uint64_t size = MappedChunkSize(at, end);
      if (size == 0) break;
      at += size;
    }
    return at;
  }

  void WalkChunks(const ChunkHeap& heap) {
    const uint64_t end = heap.range.end;
    uint64_t previous = 0;
    for (uint64_t at = (heap.range.start + kChunkStep - 1) / kChunkStep * kChunkStep; at + kMinChunk <= end;) {
      const uint64_t head = words_.At(at + 8), size = head & ~kChunkFlags;
      if (!IsChunkSize(at, size, end)) {
        // The end marker of a heap that is not its arena's newest.
        if (!heap.is_main && end - at <= 3 * kMinChunk && size <= kChunkStep) {
          AddGap(at + kChunkHead, end);
          return;
        }
        // What is beyond the end of the mapping is newer than the mappings.
        if (heap.grown > end && IsChunkSize(at, size, heap.grown)) {
          AddGap(at + kChunkHead, end);
          return;
        }
        uint64_t next = at + kChunkStep;
        const uint64_t last = std::min(end, at + kLongestSearch);
        while (next < last && !IsTrustedChunk(next, end)) next += kChunkStep;
        if (next >= last) next = end;
        AddGap(at + kChunkHead, next);
        found_.lost_bytes_ += space_.PopulatedBytes({at, next});
        previous = 0;
        at = next;
        continue;
      }
      if (previous != 0 && (head & kPreviousUsed) == 0) blocks_.MarkUnused(previous);
      blocks_.AddBlock(at + kChunkHead);
      previous = at + kChunkHead;
      NoteIfCached(previous);
      if (MayBeThreadCache(size - sizeof(uint64_t)) && may_be_caches_.size() <= kMaxCaches)
        may_be_caches_.push_back(previous);
      at += size;
      if (at == end || previous == main_top_ + kChunkHead) blocks_.MarkUnused(previous);  // the top
    }
  }
  // A gap is a block that is not used, so that a pointer into the gap leads to no other block.
  void AddGap(uint64_t start, uint64_t end) {
    if (start < end) {
      blocks_.AddBlock(start);
      blocks_.MarkUnused(start);
    }
    found_.gaps_.push_back({start - kChunkHead, end});
  }

  std::string LibcVersion() {
    for (const MemoryMapping& mapping : space_.mappings()) {
      if (!IsFileOfGlibc(mapping.name) || mapping.writable || !mapping.readable) continue;
      std::string text(std::min<uint64_t>(mapping.end - mapping.start, 4 << 20), '\0');
      if (!space_.Read(mapping.start, text.data(), text.size())) continue;
      if (std::string version = GlibcVersionIn(text); !version.empty()) return version;
    }
    return "";
  }

  // ---- Caches of threads ----

  // Marks a chunk in a cache or a list as free. Returns false if there is no such chunk, or if it is marked already.
  bool MarkCached(uint64_t block, uint64_t most) {
    const BlockMap::Block found = blocks_.Find(block);
    if (found.number == BlockMap::kNone || found.range.start != block || found.unused ||
        found.range.end - found.range.start > most)
      return false;
    blocks_.MarkUnused(block);
    ++found_.cached_;
    return true;
  }

  // Marks the chunks that threads have cached: those in the lists of each cache. The mark of a cached chunk is one random
  // number since 2.34, and from 2.29 on the address of the cache; before, there is none.
  void FindCaches() {
    int minor = 0;
    if (!found_.version_.empty()) minor = atoi(found_.version_.c_str() + 2);
    const bool has_number = !marked_.empty();
    found_.knows_caches_ = has_number || (minor > 0 && minor <= kNewestMinor);
    if (!has_number && (minor >= 34 || (minor > 0 && minor < 26))) return;
    std::set<uint64_t> addresses;
    std::vector<CachedList> marked_lists, plain_lists;
    for (const uint64_t at : may_be_caches_) {
      const BlockMap::Block block = blocks_.Find(at);
      if (block.number == BlockMap::kNone || block.unused || block.range.start != at) continue;
      const std::vector<CachedList> of_cache = ReadThreadCache(space_, blocks_, block);
      const uint64_t mark = has_number ? number_ : at;
      const bool are_marked = std::all_of(of_cache.begin(), of_cache.end(), [&](const CachedList& list) {
        uint64_t words[2];
        return space_.Read(list.block, words, sizeof words) && words[1] == mark;
      });
      if (of_cache.empty() || (!are_marked && (has_number || of_cache[0].is_marked))) continue;
      found_.knows_caches_ = true;
      if (are_marked && !has_number) addresses.insert(at);
      std::vector<CachedList>& lists = are_marked ? marked_lists : plain_lists;
      lists.insert(lists.end(), of_cache.begin(), of_cache.end());
    }
    // Marked blocks remain in doubt if their cache is not found, so too many candidates do no harm.
    if (may_be_caches_.size() > kMaxCaches && !has_number) found_.knows_caches_ = false;
    if (!addresses.empty()) FindMarkedWith(addresses);
    for (const CachedList& list : marked_lists) FollowMarkedList(list);
    for (const CachedList& list : plain_lists) FollowPlainList(list);
  }

  void FollowPlainList(const CachedList& list) {
    uint64_t block = list.block;
    if (blocks_.Find(block).number == BlockMap::kNone) return;  // in memory that is not understood
    for (uint64_t i = 0; i < list.count && block != 0; ++i) {
      if (!MarkCached(block, list.largest) || !space_.Read(block, &block, sizeof block)) {
        found_.knows_caches_ = false;
        return;
      }
    }
  }
  // Blocks without the mark were freed after the walk: their words were searched while they were in use. A list that the
  // program changes meanwhile leads to blocks that remain in doubt.
  void FollowMarkedList(const CachedList& list) {
    uint64_t block = list.block;
    for (uint64_t i = 0; i < list.count && block != 0; ++i, ++followed_) {
      // Each block is in one list. Contents made on purpose have many lists that lead in circles.
      if (followed_ > blocks_.size()) return;
      const auto marked = std::lower_bound(marked_.begin(), marked_.end(), std::pair(block, uint64_t{0}));
      if (marked != marked_.end() && marked->first == block) MarkCached(block, list.largest);
      uint64_t next = 0;
      if (!space_.Read(block, &next, sizeof next)) return;
      block = Shown(block, next);
    }
  }
  // Links are hidden since glibc 2.32.
  uint64_t Shown(uint64_t block, uint64_t link) const {
    const uint64_t shown = link ^ block >> 12;
    return link == 0 ? 0 : shown == 0 || blocks_.HeapAt(shown) != nullptr ? shown : link;
  }

  void FindMarkedWith(const std::set<uint64_t>& addresses) {
    const uint64_t lowest = *addresses.begin(), highest = *addresses.rbegin();
    for (const ChunkHeap& heap : heaps_) {
      ForEachPiece(&space_, heap.range.start, heap.range.end, [&](uint64_t at, std::span<const uint64_t> words) {
        for (size_t i = 1; i < words.size(); i += 2) {
          if (words[i] < lowest || words[i] > highest || !addresses.contains(words[i])) continue;
          const uint64_t place = at + (i - 1) * sizeof(uint64_t);
          const BlockMap::Block block = blocks_.Find(place);
          if (block.number != BlockMap::kNone && block.range.start == place &&
              block.range.end - place <= kLargestCached && marked_.size() < kMostMarked)
            marked_.emplace_back(place, words[i]);
        }
      });
    }
    std::sort(marked_.begin(), marked_.end());
    if (marked_.size() == kMostMarked) found_.knows_caches_ = false;
  }

  // ---- Fast bins ----

  // If a list cannot be followed, free blocks look used: then knows_caches() is false.
  void FindFastBins() {
    // The next arena of the last one is the main arena: this gives the address where its state begins.
    uint64_t state = main_bins_, main_state = 0;
    for (size_t i = 0; i < kMaxArenas && main_state == 0; ++i) {
      uint64_t next = 0;
      const uint64_t place = i == 0 ? main_bins_ + kBinsToNext : state + kBinsToNext + StateToBinsOf(state);
      if (!space_.Read(place, &next, sizeof next)) break;
      if (next < main_bins_ && main_bins_ - next <= kStateToBins) main_state = next;
      if (next == 0 || next == state) break;
      state = next;
    }
    if (main_state == 0) {
      found_.knows_caches_ = false;
    } else {
      found_.arenas_.push_back({main_state, main_bins_ + kBinsToEnd});
      FollowFastBins(main_bins_, main_bins_ - main_state);
    }
    for (const uint64_t arena : arena_states_) {
      const uint64_t distance = StateToBinsOf(arena);
      if (distance == 0) {
        found_.knows_caches_ = false;
      } else {
        FollowFastBins(arena + distance, distance);
      }
    }
  }
  // Returns the distance from an arena's state to its bins; 0: this is no arena.
  uint64_t StateToBinsOf(uint64_t arena) {
    for (uint64_t distance = kStateToBins; distance >= kChunkHead; distance -= 8) {
      if (AreBins(arena + distance)) return distance;
    }
    return 0;
  }
  // `distance`: from the state to the bins. Without room for fast bins, this version has none.
  void FollowFastBins(uint64_t bins, uint64_t distance) {
    std::array<uint64_t, kFastBins> heads;
    if (distance < kStateToBins226) return;
    if (!space_.Read(bins - kFastBinsToBins, heads.data(), sizeof heads)) {
      found_.knows_caches_ = false;
      return;
    }
    for (const uint64_t head : heads) {
      for (uint64_t chunk = head; chunk != 0;) {
        const uint64_t block = chunk + kChunkHead;
        uint64_t next = 0;
        // A list that was changed meanwhile leads to a block that is free already, or to none.
        if (!MarkCached(block, 0x100) || !space_.Read(block, &next, sizeof next)) {
          found_.knows_caches_ = false;
          break;
        }
        chunk = Shown(block, next);
      }
    }
  }

  AddressSpace& space_;
  WindowReader words_, search_words_;
  const std::vector<MemoryRange>& excluded_;
  BlockMap& blocks_;
  std::vector<ChunkHeap> heaps_;
  std::vector<uint64_t> arena_states_;
  uint64_t main_bins_ = 0, main_top_ = 0;
  bool is_top_unmapped_ = false;
  glibc_walk::KeyCandidates key_candidates_;
  std::vector<std::pair<uint64_t, uint64_t>> marked_;  // blocks by address, and the numbers that mark them as cached
  uint64_t number_ = 0;                                // of all blocks in marked_ after the walk
  std::vector<uint64_t> may_be_caches_;                // blocks with the size of a cache
  uint64_t followed_ = 0;                              // links of caches' lists
  bool is_ambiguous_ = false;                          // two numbers mark equally many blocks
  GlibcBlocks& found_;
};

GlibcBlocks::GlibcBlocks(AddressSpace* space, const std::vector<MemoryRange>& excluded, BlockMap* blocks)
    : walk_(std::make_unique<Walk>(space, excluded, blocks, this)) {}
GlibcBlocks::~GlibcBlocks() = default;

void GlibcBlocks::FindHeaps() { walk_->FindHeaps(); }
void GlibcBlocks::AddBlocks(const WordVisitor& visit) { walk_->AddBlocks(visit); }
void GlibcBlocks::FindCached() { walk_->FindCached(); }

std::string GlibcVersionIn(std::string_view bytes) {
  constexpr std::string_view kBanner = "GNU C Library", kRelease = "release version ";
  size_t at = bytes.find(kBanner);
  if (at == std::string_view::npos) return "";
  at = bytes.find(kRelease, at);
  if (at == std::string_view::npos) return "";
  at += kRelease.size();
  size_t end = at;
  while (end < bytes.size() && end - at < 8 && (isdigit(static_cast<unsigned char>(bytes[end])) || bytes[end] == '.'))
    ++end;
  while (end > at && bytes[end - 1] == '.') --end;
  const std::string_view version = bytes.substr(at, end - at);
  return version.starts_with("2.") ? std::string(version) : "";
}

}  // namespace holdfast
