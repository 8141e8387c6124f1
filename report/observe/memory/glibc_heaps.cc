#include "report/observe/memory/glibc_heaps.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>

namespace holdfast {
namespace {

constexpr uint64_t kAlignment = 16, kMinChunk = 32;  // of a chunk
constexpr uint64_t kInUse = 1, kFlags = 7;           // PREV_INUSE: describes the previous chunk
// The part of a free chunk that malloc_trim keeps: two sizes, and the links to its neighbours.
constexpr uint64_t kFreeHead = 48;
constexpr uint64_t kOtherArena = 4;                     // NON_MAIN_ARENA
constexpr uint64_t kLargestGrowth = uint64_t{1} << 30;  // while it is read
constexpr int kTrusted = 16;                            // this many consecutive plausible heads
constexpr uint64_t kLargestSearch = 16 << 20;           // for the next plausible head
constexpr uint64_t kLargestArenaHead = 8 << 10;         // heap_info and malloc_state

// The start of a heap, except the main one.
struct HeapHead {
  uint64_t arena, previous, bytes;
};

class Words {
 public:
  explicit Words(const ReadMemory& read) : read_(read) {}
  // Returns 0 if the word cannot be read.
  uint64_t At(uint64_t address) {
    if (address < start_ || address - start_ + sizeof(uint64_t) > bytes_) {
      if (address / kSmallestPage == unread_page_) return 0;
      start_ = address;
      // The heap may end within the window.
      for (bytes_ = kWindow; bytes_ >= sizeof(uint64_t) && !read_(address, window_.data(), bytes_);) bytes_ /= 2;
      if (bytes_ < sizeof(uint64_t)) {
        unread_page_ = address / kSmallestPage;
        return bytes_ = 0;
      }
    }
    uint64_t word;
    memcpy(&word, window_.data() + (address - start_), sizeof word);
    return word;
  }

 private:
  static constexpr uint64_t kWindow = 256 << 10;

  const ReadMemory& read_;
  uint64_t start_ = 0, bytes_ = 0;  // address and size of the window's contents
  uint64_t unread_page_ = UINT64_MAX;
  std::vector<char> window_ = std::vector<char>(kWindow);
};

class Walk {
 public:
  Walk(const ReadMemory& read, PageTable* pages) : words_(read), pages_(pages) {}

  // Walks the chunks from `first` to `end`.
  void Heap(uint64_t first, uint64_t end, bool is_main) {
    const uint64_t before = free_.all();
    for (uint64_t at = first; at + kMinChunk <= end;) {
      const uint64_t size = SizeAt(at);
      if (IsGrownTop(at, size, end)) {
        (is_main ? free_.main_top : free_.tops) += Resident(at + kAlignment, end);
        break;
      }
      if (!IsSize(at, size, end)) {
        // The end marker of a heap that is not its arena's newest.
        if (end - at <= 3 * kMinChunk && size <= kAlignment) break;
        const uint64_t next = NextTrusted(at + kAlignment, end);
        free_.unread += next - at;
        at = next;
      } else if (at + size == end) {
        (is_main ? free_.main_top : free_.tops) += Resident(at + kAlignment, end);
        break;
      } else {
        if ((words_.At(at + size + sizeof(uint64_t)) & kInUse) == 0) AddFree(at, at + size);
        at += size;
      }
    }
    if (!is_main) free_.in_arenas += free_.all() - before;
  }

  // Returns the first chunk of such a heap: after the heap's head, and after the arena's head if this heap contains it.
  std::optional<uint64_t> FirstChunk(uint64_t heap, uint64_t end, uint64_t arena) {
    const uint64_t from = arena > heap && arena < heap + kSmallestPage ? arena : heap + sizeof(HeapHead);
    for (uint64_t at = (from + kAlignment - 1) / kAlignment * kAlignment; at < from + kLargestArenaHead && at < end;
         at += kAlignment) {
      if ((words_.At(at + sizeof(uint64_t)) & kInUse) != 0 && IsTrusted(at, end)) return at;
    }
    return std::nullopt;
  }

  FreeMemory& free() { return free_; }

 private:
  uint64_t SizeAt(uint64_t chunk) { return words_.At(chunk + sizeof(uint64_t)) & ~kFlags; }
  static bool IsSize(uint64_t at, uint64_t size, uint64_t end) {
    return size >= kMinChunk && size % kAlignment == 0 && size <= end - at;
  }
  // The heap has grown since its mapping was read. The last chunk ends with the last page, and the one before it is never
  // free.
  bool IsGrownTop(uint64_t at, uint64_t size, uint64_t end) {
    return size % kAlignment == 0 && size > end - at && size <= kLargestGrowth + (end - at) &&
           (at + size) % kSmallestPage == 0 && (words_.At(at + sizeof(uint64_t)) & kFlags & ~kOtherArena) == kInUse;
  }
  bool IsTrusted(uint64_t at, uint64_t end) {
    for (int i = 0; i < kTrusted; ++i) {
      const uint64_t size = SizeAt(at);
      if (!IsSize(at, size, end)) return i > 0 && (end - at <= 3 * kMinChunk || IsGrownTop(at, size, end));
      at += size;
      if (at == end) return true;
    }
    return true;
  }
  uint64_t NextTrusted(uint64_t at, uint64_t end) {
    const uint64_t last = std::min(end, at + kLargestSearch);
    while (at < last && !IsTrusted(at, end)) at += kAlignment;
    return at < last ? at : end;
  }
  uint64_t Resident(uint64_t from, uint64_t to) { return from < to ? pages_->Of(from, to - from).resident : 0; }

  void AddFree(uint64_t at, uint64_t end) {
    free_.heads += kAlignment;
    const uint64_t page = pages_->page_bytes();
    const uint64_t from = (at + kFreeHead + page - 1) / page * page, to = end / page * page;
    if (from < to) free_.pages += Resident(from, to);
    const uint64_t edges =
        from < to ? Resident(at + kAlignment, from) + Resident(to, end) : Resident(at + kAlignment, end);
    free_.pieces += edges;
    if (edges > 0) ++free_.piece_count;
  }

  Words words_;
  PageTable* pages_;
  FreeMemory free_;
};

}  // namespace

FreeMemory FreeInGlibcHeaps(const std::vector<MemoryMapping>& mappings, const std::vector<uint64_t>& heaps,
                            const ReadMemory& read, PageTable* pages) {
  Walk walk(read, pages);
  // One heap may consist of several mappings.
  uint64_t start = 0, end = 0;
  for (const MemoryMapping& mapping : mappings) {
    if (mapping.name != "[heap]") continue;
    if (start == 0) start = mapping.start;
    end = mapping.end;
  }
  if (start != 0) walk.Heap((start + kAlignment - 1) / kAlignment * kAlignment, end, true);
  std::set<uint64_t> arenas;
  for (const uint64_t heap : heaps) {
    HeapHead head;
    if (!read(heap, &head, sizeof head)) continue;
    const auto mapping =
        std::find_if(mappings.begin(), mappings.end(), [heap](const MemoryMapping& of) { return of.start == heap; });
    if (mapping == mappings.end()) continue;
    arenas.insert(head.arena);
    const uint64_t heap_end = heap + std::min(head.bytes, mapping->end - heap);
    if (const std::optional<uint64_t> first = walk.FirstChunk(heap, heap_end, head.arena))
      walk.Heap(*first, heap_end, false);
    else
      walk.free().unread += heap_end - heap;
  }
  walk.free().arenas = arenas.size();
  return walk.free();
}

}  // namespace holdfast
