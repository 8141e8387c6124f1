#include "report/holders/glibc_blocks.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "report/base/base_name.h"

namespace holdfast {
namespace {

constexpr uint64_t kChunkStep = 16, kMinChunk = 32, kChunkHead = 16;
constexpr uint64_t kPreviousUsed = 1, kIsMapped = 2, kChunkFlags = 7;
constexpr uint64_t kArenaHeap = uint64_t{64} << 20;
constexpr uint64_t kArenaStateBytes = 0x898;             // malloc_state; 2.26 and 2.43 have 8 bytes less or more
constexpr int kTrustedChunks = 16;                       // this many consecutive plausible heads
constexpr uint64_t kLongestSearch = uint64_t{16} << 20;  // for the next plausible head
constexpr uint64_t kMaxArenaHead = uint64_t{8} << 10;    // heap_info and malloc_state
constexpr size_t kMaxCaches = 1 << 14;                   // candidates for a thread's cache to examine
constexpr size_t kMaxInBin = 1 << 20;
constexpr uint64_t kLargestCached = 0x408;  // usable bytes of a block in a thread's cache
// In the arena's state: the lists of fast bins, the top chunk, and the first of 254 words of bins.
constexpr uint64_t kFastBinsToBins = 0x60, kTopToBins = 0x10;
constexpr int kFastBins = 10, kBinWords = 254;

bool IsOrdinaryMemory(const MemoryMapping& mapping) {
  return mapping.is_anonymous() && mapping.readable && mapping.writable && !mapping.shared;
}

}  // namespace

// Not in the unnamed namespace, because a class of the header has them as members.
namespace glibc_walk {

// Reads single words through a window.
class WindowReader {
 public:
  explicit WindowReader(MemoryImage* image) : image_(*image) {}

  // Returns 0 if the word cannot be read.
  uint64_t At(uint64_t address) {
    if (address < start_ || address - start_ + sizeof(uint64_t) > bytes_) Move(address);
    if (bytes_ < sizeof(uint64_t)) return 0;
    uint64_t word;
    memcpy(&word, window_.data() + (address - start_), sizeof word);
    return word;
  }

 private:
  static constexpr uint64_t kWindowBytes = 256 << 10;

  void Move(uint64_t address) {
    start_ = address;
    bytes_ = 0;
    const MemoryRange run = image_.PopulatedRun(address, address + kWindowBytes);
    if (run.start != address) return;
    for (bytes_ = run.end - address; bytes_ >= sizeof(uint64_t) && !image_.Read(address, window_.data(), bytes_);)
      bytes_ /= 2;
  }

  MemoryImage& image_;
  uint64_t start_ = 0, bytes_ = 0;
  std::vector<char> window_ = std::vector<char>(kWindowBytes);
};

struct ChunkHeap {
  MemoryRange range;   // of its chunks
  uint64_t whole = 0;  // where the mapping begins
  bool is_main = false;
};

}  // namespace glibc_walk

class GlibcBlocks::Walk {
  using WindowReader = glibc_walk::WindowReader;
  using ChunkHeap = glibc_walk::ChunkHeap;

 public:
  Walk(MemoryImage* image, const std::vector<MemoryRange>& excluded, BlockMap* blocks, GlibcBlocks* found)
      : image_(*image), words_(image), excluded_(excluded), blocks_(*blocks), found_(*found) {}

  void FindHeaps() {
    MemoryRange main;
    for (const MemoryMapping& mapping : image_.mappings()) {
      if (mapping.name == "[heap]") {
        // One heap may consist of several mappings.
        if (main.start == 0) main.start = mapping.start;
        main.end = mapping.end;
      } else if (IsOrdinaryMemory(mapping)) {
        FindInMapping(mapping);
      }
    }
    if (main.start != 0) AddChunkHeap({{main.start, main.end}, main.start, true});
    found_.heap_count_ = heaps_.size();
    found_.version_ = LibcVersion();
  }

  void AddBlocks() {
    FindEarlyKey();
    for (const ChunkHeap& heap : heaps_) WalkChunks(heap);
  }

  void FindCached() {
    FindCaches();
    FindFastBins();
  }

 private:
  bool IsExcluded(uint64_t address) const {
    const auto next = std::upper_bound(excluded_.begin(), excluded_.end(), address,
                                       [](uint64_t at, const MemoryRange& range) { return at < range.start; });
    return next != excluded_.begin() && address < std::prev(next)->end;
  }

  uint64_t SizeAt(uint64_t chunk) { return words_.At(chunk + 8) & ~kChunkFlags; }
  static bool IsChunkSize(uint64_t at, uint64_t size, uint64_t end) {
    return size >= kMinChunk && size % kChunkStep == 0 && size <= end - at;
  }
  bool IsTrustedChunk(uint64_t at, uint64_t end) {
    for (int i = 0; i < kTrustedChunks; ++i) {
      if (at + kMinChunk > end) return i > 0;
      const uint64_t size = SizeAt(at);
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
      const MemoryRange run = image_.PopulatedRun(at, mapping.end);
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
    constexpr uint64_t kLargestHead = 256;
    uint64_t head[4], first = 0;
    if (!image_.Read(at, head, sizeof head)) return std::nullopt;
    const uint64_t arena = head[0], bytes = head[2];
    if (arena < kArenaHeap || arena % kArenaHeap == 0 || arena % kArenaHeap >= kLargestHead || bytes % kPage != 0 ||
        bytes == 0 || bytes > kArenaHeap || bytes > head[3] || at + bytes > end) {
      return std::nullopt;
    }
    if (!image_.Read(arena - arena % kArenaHeap, &first, sizeof first) || first != arena) return std::nullopt;
    const bool has_state = arena - arena % kArenaHeap == at;
    const uint64_t from = has_state ? arena : at + 0x20;
    for (uint64_t chunk = from / kChunkStep * kChunkStep; chunk < from + kMaxArenaHead && chunk < at + bytes;
         chunk += kChunkStep) {
      if ((words_.At(chunk + 8) & kPreviousUsed) == 0 || !IsTrustedChunk(chunk, at + bytes)) continue;
      if (has_state) arena_states_.push_back(arena);
      return ChunkHeap{{chunk, at + bytes}, at, false};
    }
    return std::nullopt;
  }

  // Large blocks fill their mapping, alone or beside each other. A chain of them must begin or end with the mapping:
  // other memory may look like one of them by chance.
  void FindMappedChunks(const MemoryRange& range) {
    uint64_t at = AddChain(range.start, ChainEnd(range.start, range.end));
    while (at < range.end) {
      const MemoryRange run = image_.PopulatedRun(at, range.end);
      if (run.start >= range.end) return;
      at = run.start / kPage * kPage;
      const uint64_t chain_end = ChainEnd(at, range.end);
      if (chain_end == range.end) {
        AddChain(at, chain_end);
        return;
      }
      // A chain that begins within this one ends at the same place.
      at = std::max(chain_end, at + kPage);
    }
  }
  uint64_t AddChain(uint64_t at, uint64_t end) {
    while (at < end) {
      const uint64_t size = MappedChunkSize(at, end);
      if (size == 0) break;  // changed meanwhile
      blocks_.AddHeap({at, at + size}, 0, at + kChunkHead);
      at += size;
    }
    return at;
  }
  uint64_t MappedChunkSize(uint64_t at, uint64_t end) {
    if (IsExcluded(at) || words_.At(at) != 0) return 0;
    const uint64_t head = words_.At(at + 8), size = head & ~kChunkFlags;
    if ((head & kChunkFlags) != kIsMapped || size < kPage || size % kPage != 0 || size > end - at) return 0;
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
        uint64_t next = at + kChunkStep;
        const uint64_t last = std::min(end, at + kLongestSearch);
        while (next < last && !IsTrustedChunk(next, end)) next += kChunkStep;
        if (next >= last) next = end;
        AddGap(at + kChunkHead, next);
        previous = 0;
        at = next;
        continue;
      }
      if (previous != 0 && (head & kPreviousUsed) == 0) blocks_.MarkUnused(previous);
      blocks_.AddBlock(at + kChunkHead);
      previous = at + kChunkHead;
      if (early_key_.has_value() && size <= kLargestCached + 8 && words_.At(at + kChunkHead + 8) == *early_key_) {
        blocks_.MarkUnused(previous);
        ++found_.cached_;
      }
      at += size;
      if (at == end) blocks_.MarkUnused(previous);  // the top
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
    for (const MemoryMapping& mapping : image_.mappings()) {
      const std::string_view name = BaseName(mapping.name);
      if ((!name.starts_with("libc.so.6") && !name.starts_with("libc-2.")) || mapping.writable || !mapping.readable)
        continue;
      std::string text(std::min<uint64_t>(mapping.end - mapping.start, 4 << 20), '\0');
      if (!image_.Read(mapping.start, text.data(), text.size())) continue;
      if (std::string version = GlibcVersionIn(text); !version.empty()) return version;
    }
    return "";
  }

  // ---- Caches of threads ----

  // Marks a chunk in a cache or a list as free. Returns false if there is no such chunk.
  bool MarkCached(uint64_t block, uint64_t least, uint64_t most) {
    const BlockMap::Block found = blocks_.Find(block);
    if (found.number == BlockMap::kNone || found.range.start != block) return false;
    const uint64_t bytes = found.range.end - found.range.start;
    if (bytes < least || bytes > most) return false;
    if (!found.unused) {
      blocks_.MarkUnused(block);
      ++found_.cached_;
    }
    return true;
  }

  struct CacheLayout {
    uint64_t chunk, count_bytes;
  };
  // Of glibc 2.30 to 2.41, and of 2.26 to 2.29.
  static constexpr CacheLayout kCacheLayouts[] = {{0x290, 2}, {0x250, 1}};
  static constexpr int kCacheBins = 64;

  // The main thread's cache is the first chunk of the main heap. If it has a block, the walk recognizes cached blocks,
  // and needs no second pass.
  void FindEarlyKey() {
    const CacheLayout& layout = kCacheLayouts[0];
    for (const ChunkHeap& heap : heaps_) {
      const uint64_t chunk = heap.range.start;
      uint64_t entries[kCacheBins];
      if (!heap.is_main || SizeAt(chunk) != layout.chunk ||
          !image_.Read(chunk + kChunkHead + kCacheBins * layout.count_bytes, entries, sizeof entries))
        continue;
      for (int i = 0; i < kCacheBins; ++i) {
        uint64_t words[3];  // the head, the link and the number
        if (entries[i] == 0) continue;
        if (!heap.range.Contains(entries[i]) || !image_.Read(entries[i] - 8, words, sizeof words) ||
            (words[0] & ~kChunkFlags) != kMinChunk + kChunkStep * static_cast<uint64_t>(i) || words[2] < kPage ||
            (early_key_.has_value() && *early_key_ != words[2])) {
          early_key_.reset();
          return;
        }
        early_key_ = words[2];
      }
    }
  }

  // Adds the first blocks of all bins to `entries`. Returns false if this is no cache.
  bool ReadCache(const BlockMap::Block& block, const CacheLayout& layout, std::vector<uint64_t>* entries) {
    std::array<char, 0x280> bytes;
    const uint64_t size = kCacheBins * (layout.count_bytes + sizeof(uint64_t));
    if (!image_.Read(block.range.start, bytes.data(), size)) return false;
    const size_t before = entries->size();
    for (int i = 0; i < kCacheBins; ++i) {
      uint64_t count = 0, entry = 0;
      memcpy(&count, bytes.data() + i * layout.count_bytes, layout.count_bytes);
      memcpy(&entry, bytes.data() + kCacheBins * layout.count_bytes + i * sizeof entry, sizeof entry);
      bool fits = (count != 0) == (entry != 0);
      if (fits && entry != 0) {
        const BlockMap::Block first = blocks_.Find(entry);
        fits = first.number != BlockMap::kNone && first.range.start == entry &&
               first.range.end - first.range.start == 0x18 + 16 * static_cast<uint64_t>(i);
      }
      if (!fits) {
        entries->resize(before);
        return false;
      }
      if (entry != 0) entries->push_back(entry);
    }
    return true;
  }

  // Marks the chunks that threads have cached: all with the number that marks them in the second word.
  void FindCaches() {
    std::set<uint64_t> keys;
    size_t examined = 0;
    bool any = false;
    std::vector<uint64_t> entries;
    blocks_.ForEach([&](const BlockMap::Block& block) {
      for (const CacheLayout& layout : kCacheLayouts) {
        if (block.unused || block.range.end - block.range.start != layout.chunk - 8 || examined >= kMaxCaches) continue;
        ++examined;
        const size_t before = entries.size();
        if (!ReadCache(block, layout, &entries) || entries.size() == before) continue;
        any = true;
        // The number is random since 2.34; before, it was the address of the cache.
        for (size_t i = before; i < entries.size(); ++i) {
          if (uint64_t words[2]; image_.Read(entries[i], words, sizeof words) && words[1] != 0) keys.insert(words[1]);
        }
      }
    });
    int minor = 0;
    if (!found_.version_.empty()) minor = atoi(found_.version_.c_str() + 2);
    found_.knows_caches_ = any || (minor > 0 && minor < 42);
    // 2.26 to 2.28 have no mark: only the first block of each bin is found by `entries`.
    for (const uint64_t entry : entries) MarkCached(entry, 0, UINT64_MAX);
    if (minor >= 26 && minor < 29) {
      for (const uint64_t entry : entries) FollowPlainList(entry);
    }
    if (early_key_.has_value()) keys.erase(*early_key_);
    if (keys.empty()) return;
    MarkBySecondWord(keys);
  }

  void FollowPlainList(uint64_t entry) {
    for (size_t i = 0; i < kMaxInBin && entry != 0; ++i) {
      if (!MarkCached(entry, 0, UINT64_MAX)) return;
      if (!image_.Read(entry, &entry, sizeof entry)) return;
    }
  }

  void MarkBySecondWord(const std::set<uint64_t>& keys) {
    const std::vector<uint64_t> all(keys.begin(), keys.end());
    std::vector<uint64_t> cached;
    for (const ChunkHeap& heap : heaps_) {
      ForEachPiece(&image_, heap.range.start, heap.range.end, [&](uint64_t at, std::span<const uint64_t> words) {
        for (size_t i = 1; i < words.size(); i += 2) {
          if (words[i] < kPage) continue;
          for (const uint64_t key : all) {
            if (words[i] == key) cached.push_back(at + (i - 1) * sizeof(uint64_t));
          }
        }
      });
    }
    for (const uint64_t block : cached) MarkCached(block, 0, kLargestCached);
  }

  // ---- Fast bins ----

  void FindFastBins() {
    std::vector<uint64_t> bins;
    for (const uint64_t arena : arena_states_) {
      for (uint64_t at = arena; at < arena + kArenaStateBytes; at += 8) {
        if (IsEmptyBin(at) && LooksLikeBins(at)) {
          bins.push_back(at);
          break;
        }
      }
    }
    // The main arena is in libc's data, or in the program's if libc is linked into it.
    for (const MemoryMapping& mapping : image_.mappings()) {
      const std::string_view name = BaseName(mapping.name);
      if (!mapping.writable || mapping.shared || mapping.end - mapping.start > (uint64_t{16} << 20)) continue;
      const bool is_libc = name.starts_with("libc.so.6") || name.starts_with("libc-2.");
      if (!is_libc && !mapping.name.starts_with('/')) continue;
      std::vector<uint64_t> candidates;
      ForEachPiece(&image_, mapping.start, mapping.end, [&](uint64_t at, std::span<const uint64_t> words) {
        uint64_t last = 0;
        for (size_t i = 0; i + 1 < words.size(); ++i) {
          const uint64_t address = at + i * sizeof(uint64_t);
          if (words[i] != address - kChunkHead || words[i + 1] != address - kChunkHead) continue;
          if (address - last > kArenaStateBytes) candidates.push_back(address);
          last = address;
        }
      });
      for (const uint64_t candidate : candidates) {
        // The first bins may be in use, so the first empty one need not be the first of all.
        for (uint64_t at = candidate; at + kBinWords * 8 > candidate && at > mapping.start; at -= 16) {
          if (!LooksLikeBins(at)) continue;
          bins.push_back(at);
          found_.arenas_.push_back({at - kFastBinsToBins - 0x10, at + kBinWords * 8 + 0x38});
          break;
        }
      }
    }
    for (const uint64_t at : bins) FollowFastBins(at);
  }

  bool IsEmptyBin(uint64_t at) {
    uint64_t pair[2];
    return image_.Read(at, pair, sizeof pair) && pair[0] == at - kChunkHead && pair[1] == at - kChunkHead;
  }
  // Of 127 bins many are empty: these lead to themselves. The top chunk is in a heap.
  bool LooksLikeBins(uint64_t at) {
    std::array<uint64_t, kBinWords> words;
    uint64_t top = 0;
    if (!image_.Read(at, words.data(), sizeof words) || !image_.Read(at - kTopToBins, &top, sizeof top)) return false;
    if (blocks_.HeapAt(top + kChunkHead) == nullptr && blocks_.HeapAt(top) == nullptr) return false;
    int pairs = 0, empty = 0;
    for (int i = 0; i + 1 < kBinWords; i += 2) {
      const uint64_t bin = at + static_cast<uint64_t>(i) * 8 - kChunkHead;
      const bool is_list = blocks_.HeapAt(words[i]) != nullptr && blocks_.HeapAt(words[i + 1]) != nullptr;
      empty += words[i] == bin && words[i + 1] == bin ? 1 : 0;
      pairs += is_list || (words[i] == bin && words[i + 1] == bin) ? 1 : 0;
    }
    return pairs == kBinWords / 2 && empty > 0;
  }
  void FollowFastBins(uint64_t bins) {
    std::array<uint64_t, kFastBins> heads;
    if (!image_.Read(bins - kFastBinsToBins, heads.data(), sizeof heads)) return;
    for (const uint64_t head : heads) {
      uint64_t chunk = head;
      for (size_t i = 0; i < kMaxInBin && chunk != 0; ++i) {
        const uint64_t block = chunk + kChunkHead;
        uint64_t next = 0;
        if (!MarkCached(block, 0, 0x100) || !image_.Read(block, &next, sizeof next)) break;
        // Links are hidden since glibc 2.32.
        const uint64_t shown = next ^ (block >> 12);
        chunk = next == 0 ? 0 : shown == 0 || blocks_.HeapAt(shown) != nullptr ? shown : next;
      }
    }
  }

  MemoryImage& image_;
  WindowReader words_;
  const std::vector<MemoryRange>& excluded_;
  BlockMap& blocks_;
  std::vector<ChunkHeap> heaps_;
  std::vector<uint64_t> arena_states_;
  std::optional<uint64_t> early_key_;
  GlibcBlocks& found_;
};

GlibcBlocks::GlibcBlocks(MemoryImage* image, const std::vector<MemoryRange>& excluded, BlockMap* blocks)
    : walk_(std::make_unique<Walk>(image, excluded, blocks, this)) {}
GlibcBlocks::~GlibcBlocks() = default;

void GlibcBlocks::FindHeaps() { walk_->FindHeaps(); }
void GlibcBlocks::AddBlocks() { walk_->AddBlocks(); }
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
