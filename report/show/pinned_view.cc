#include "report/show/pinned_view.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/json_text.h"
#include "report/base/kernel_page.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/holders/holder_scan.h"
#include "report/show/observed_process.h"

namespace holdfast {
namespace {

// For glibc's malloc: the head of a chunk, and the part of a free chunk that trimming keeps.
constexpr uint64_t kChunkHeadBytes = 16, kKeptOfFreeChunk = 48;
constexpr uint64_t kPreviousIsUsed = 1;
// free returns the top of an arena other than the main one if it is larger than this, and keeps this much.
constexpr uint64_t kTopPad = 128 << 10;
// The freeing thread's cache keeps this many chunks of each size, up to this size; they pin their pages.
constexpr uint64_t kCachedOfSize = 7, kLargestCachedBlock = 1032;

struct PinningOwner {
  std::string name;
  uint64_t returned = 0;  // pages that freeing all its blocks would return
  uint64_t bytes = 0, blocks = 0;
};

struct PinnedPages {
  uint64_t resident = 0, live = 0;   // of the heap
  uint64_t trimmable = 0;            // pages without any block
  uint64_t shared = 0;               // pages with blocks of several owners
  std::vector<PinningOwner> owners;  // those that pin most first
};

class PageOwners {
 public:
  PageOwners(ObservedProcess* process, HolderScan* scan)
      : process_(*process), scan_(*scan), by_function_(process->is_exact()) {
    owners_.resize(kFirstOwner);
  }

  PinnedPages Find() {
    FindCacheMark();
    for (const BlockMap::Heap& heap : scan_.heap().map.heaps()) {
      if (heap.single == 0) FindIn(heap);
    }
    LeaveInCache();
    for (size_t i = kFirstOwner; i < owners_.size(); ++i) {
      if (owners_[i].returned > 0) pages_.owners.push_back(std::move(owners_[i]));
    }
    std::ranges::stable_sort(pages_.owners, [](const auto& a, const auto& b) { return a.returned > b.returned; });
    return std::move(pages_);
  }

 private:
  static constexpr uint32_t kNobody = 0, kSeveral = 1, kFirstOwner = 2;

  // A free chunk is free for the next chunk as well. One in a cache or a fast bin looks used there.
  struct UnusedChunk {
    BlockMap::Block block;
    bool looks_used = false;
    uint64_t mark = 0;  // its second word
  };
  template <typename Visit>
  void ForEachUnused(const BlockMap::Heap& heap, const Visit& visit) {
    constexpr size_t kBatch = 256;
    std::vector<BlockMap::Block> batch;
    const auto pass = [&] {
      std::vector<MemoryRange> ranges;
      for (const BlockMap::Block& block : batch) {
        ranges.push_back({block.range.start + 8, block.range.start + 16});
        ranges.push_back({block.range.end, block.range.end + 8});
      }
      std::vector<uint64_t> words(ranges.size());
      for (size_t done = 0; done < ranges.size();) {
        done +=
            process_.space().ReadEach(std::span(ranges).subspan(done), reinterpret_cast<char*>(words.data() + done));
        if (done < ranges.size()) words[done++] = 0;  // not readable: after the end of the heap
      }
      for (size_t i = 0; i < batch.size(); ++i)
        visit(UnusedChunk{batch[i], (words[2 * i + 1] & kPreviousIsUsed) != 0, words[2 * i]});
      batch.clear();
    };
    scan_.heap().map.ForEachOf(heap, heap.range.start, heap.range.end, [&](const BlockMap::Block& block) {
      if (!block.unused || block.range.end - block.range.start < 16) return;
      batch.push_back(block);
      if (batch.size() == kBatch) pass();
    });
    pass();
  }

  // Chunks in caches have one random number as their second word. Chunks in fast bins have any, and merge when trimmed.
  void FindCacheMark() {
    std::map<uint64_t, size_t> marks;
    for (const BlockMap::Heap& heap : scan_.heap().map.heaps()) {
      if (heap.single != 0) continue;
      ForEachUnused(heap, [&](const UnusedChunk& chunk) {
        if (chunk.looks_used && chunk.mark >= kSmallestPage && marks.size() < kMaxMarks) ++marks[chunk.mark];
      });
    }
    const auto most = std::ranges::max_element(marks, {}, [](const auto& mark) { return mark.second; });
    if (most != marks.end()) cache_mark_ = most->first;
  }

  uint32_t OwnerOf(const BlockMap::Block& block) {
    std::string name;
    if (by_function_) {
      const LiveBlock* recorded = process_.RecordedIn(block.range);
      name = recorded == nullptr ? "[not recorded]" : FunctionOf(*recorded);
    } else if (const std::optional<uint32_t> holder = scan_.HolderOfBlock(block.number); holder.has_value()) {
      const auto [place, added] = of_holder_.emplace(*holder, 0);
      if (added) place->second = Numbered(scan_.names().holders()[*holder].name);
      return place->second;
    } else {
      name = "[no pointer found]";
    }
    return Numbered(name);
  }
  // The innermost function that is not plumbing.
  std::string FunctionOf(const LiveBlock& recorded) {
    const ObservedProcess::Calls& calls = process_.CallsOf(recorded);
    for (const ObservedProcess::Call& call : calls) {
      if (!IsPlumbing(call.function, "", call.object)) return ShortName(call.function);
    }
    return calls.empty() ? "[no stack]" : ShortName(calls[0].function);
  }
  uint32_t Numbered(const std::string& name) {
    const auto [place, added] = numbers_.emplace(name, static_cast<uint32_t>(owners_.size()));
    if (added) owners_.push_back({.name = name});
    return place->second;
  }

  // Takes the pages of chunks that free leaves in the cache from what their owner would return.
  void LeaveInCache() {
    for (const auto& [key, blocks] : of_size_) {
      const auto cached = cached_.find(key.second);
      const uint64_t held = cached == cached_.end() ? 0 : cached->second;
      const uint64_t kept = std::min(blocks.count, kCachedOfSize - std::min(kCachedOfSize, held));
      uint64_t& returned = owners_[key.first].returned;
      returned -= std::min(returned, kept * blocks.pages / blocks.count * page_bytes_);
    }
  }

  void FindIn(const BlockMap::Heap& heap) {
    const MemoryMapping* mapping = process_.space().MappingAt(heap.range.start);
    const bool is_main = mapping != nullptr && mapping->name == "[heap]";
    const uint64_t first = heap.range.start / page_bytes_,
                   pages = (heap.range.end + page_bytes_ - 1) / page_bytes_ - first;
    owner_of_page_.assign(pages, kNobody);
    const auto occupy = [&](uint64_t start, uint64_t end, uint32_t owner) {
      for (uint64_t page = start / page_bytes_ - first; page <= (end - 1) / page_bytes_ - first && page < pages; ++page)
        owner_of_page_[page] = owner_of_page_[page] == kNobody || owner_of_page_[page] == owner ? owner : kSeveral;
    };
    uint64_t begun = heap.range.end, top = heap.range.end;
    std::vector<std::pair<MemoryRange, uint32_t>> small;  // with their owners
    scan_.heap().map.ForEachOf(heap, heap.range.start, heap.range.end, [&](const BlockMap::Block& block) {
      begun = std::min(begun, block.range.start - kChunkHeadBytes);
      if (block.unused) {
        top = block.range.start - kChunkHeadBytes;
        if (AnyContains(scan_.heap().gaps, block.range.start)) occupy(top, block.range.end, kSeveral);
        return;
      }
      top = heap.range.end;
      const uint32_t owner = OwnerOf(block);
      if (block.range.end - block.range.start <= kLargestCachedBlock) small.emplace_back(block.range, owner);
      owners_[owner].bytes += block.range.end - block.range.start;
      ++owners_[owner].blocks;
      pages_.live += block.range.end - block.range.start;
      occupy(block.range.start - kChunkHeadBytes, block.range.end - 8 + kKeptOfFreeChunk, owner);
    });
    if (begun > heap.range.start) occupy(heap.range.start, begun + kKeptOfFreeChunk, kSeveral);
    if (!is_main && top < heap.range.end) occupy(top, std::min(top + kTopPad, heap.range.end), kSeveral);
    ForEachUnused(heap, [&](const UnusedChunk& chunk) {
      if (!chunk.looks_used || chunk.mark != cache_mark_) return;
      ++cached_[chunk.block.range.end - chunk.block.range.start];
      occupy(chunk.block.range.start - kChunkHeadBytes, chunk.block.range.end - 8 + kKeptOfFreeChunk, kSeveral);
    });
    for (const auto& [range, owner] : small) {
      BlocksOfSize& blocks = of_size_[{owner, range.end - range.start}];
      ++blocks.count;
      const uint64_t last = (range.end - 8 + kKeptOfFreeChunk - 1) / page_bytes_;
      for (uint64_t page = (range.start - kChunkHeadBytes) / page_bytes_; page <= last && page - first < pages; ++page)
        blocks.pages += owner_of_page_[page - first] == owner ? 1 : 0;
    }
    for (uint64_t at = heap.range.start; at < heap.range.end;) {
      const MemoryRange run = process_.space().PopulatedRun(at, heap.range.end);
      for (uint64_t page = run.start / page_bytes_; page < run.end / page_bytes_; ++page) {
        const uint32_t owner = owner_of_page_[page - first];
        pages_.resident += page_bytes_;
        (owner == kNobody    ? pages_.trimmable
         : owner == kSeveral ? pages_.shared
                             : owners_[owner].returned) += page_bytes_;
      }
      at = std::max(run.end, at + page_bytes_);
    }
  }

  static constexpr size_t kMaxMarks = 100'000;

  ObservedProcess& process_;
  HolderScan& scan_;
  const bool by_function_;
  const uint64_t page_bytes_ = KernelPageBytes();
  uint64_t cache_mark_ = 0;
  std::vector<PinningOwner> owners_;
  std::map<std::string, uint32_t> numbers_;
  absl::flat_hash_map<uint32_t, uint32_t> of_holder_;
  std::vector<uint32_t> owner_of_page_;
  struct BlocksOfSize {
    uint64_t count = 0, pages = 0;  // pages: of the owner alone, for each block
  };
  std::map<std::pair<uint32_t, uint64_t>, BlocksOfSize> of_size_;  // by owner and size
  std::map<uint64_t, uint64_t> cached_;                            // chunks in caches, by size
  PinnedPages pages_;
};

std::string Sized(uint64_t bytes) { return FormatSize(static_cast<int64_t>(bytes)); }

void PrintPinnedJson(const ObservedProcess& process, const PinnedPages& pages, std::ostream& out) {
  JsonText json;
  const auto number = [&](const char* key, uint64_t value) { json.Key(key).Number(static_cast<int64_t>(value)); };
  json.Open('{').Key("pid").Number(process.pid()).Key("process").String(process.name());
  number("heap_pages_bytes", pages.resident);
  number("live_bytes", pages.live);
  number("trimmable_bytes", pages.trimmable);
  number("shared_bytes", pages.shared);
  json.Key("owner").String(process.is_exact() ? "function" : "holder").Key("pinned").Open('[');
  for (const PinningOwner& owner : pages.owners) {
    json.Open('{').Key("owner").String(owner.name);
    number("would_return", owner.returned);
    number("holds", owner.bytes);
    number("blocks", owner.blocks);
    json.Close('}');
  }
  out << json.Close(']').Close('}').text() << "\n";
}

void PrintPinned(const ObservedProcess& process, const PinnedPages& pages, size_t most_rows, std::ostream& out) {
  out << fmt::format("{}: ", process.name());
  if (pages.owners.empty()) {
    out << fmt::format("no owner's blocks alone keep a page of the heap ({} of pages)\n", Sized(pages.resident));
  } else {
    const PinningOwner& most = pages.owners.front();
    out << fmt::format("freeing what {} holds ({}) would return {}\n", most.name, Sized(most.bytes),
                       Sized(most.returned));
  }
  out << fmt::format(
      "  {} of heap pages hold {} in blocks. malloc_trim(0) would return {}; {} have blocks of several owners\n",
      Sized(pages.resident), Sized(pages.live), Sized(pages.trimmable), Sized(pages.shared));
  if (pages.owners.empty()) return;
  out << fmt::format("  {:>12}  {:>9}  {:>9}  {}\n", "would return", "it holds", "blocks", "owner");
  for (size_t i = 0; i < pages.owners.size(); ++i) {
    if (most_rows != 0 && i == most_rows) {
      out << fmt::format("  and {} more: see --json\n", pages.owners.size() - i);
      break;
    }
    const PinningOwner& owner = pages.owners[i];
    out << fmt::format("  {:>12}  {:>9}  {:>9}  {}\n", Sized(owner.returned), Sized(owner.bytes), owner.blocks,
                       owner.name);
  }
}

}  // namespace

int RunPinned(const PinnedOptions& options, std::ostream& out, std::ostream& err) {
  absl::StatusOr<ScanBudget> budget = BudgetFor(options.scan_memory);
  if (!budget.ok()) return Failed(budget.status(), err);
  const absl::StatusOr<pid_t> pid = ParsePid(options.of_process);
  if (!pid.ok()) return Failed(pid.status(), err);
  absl::StatusOr<std::unique_ptr<ObservedProcess>> process = ObservedProcess::Open(*pid, options.tables);
  if (!process.ok()) return Failed(process.status(), err);
  const auto failed = [&](const absl::Status& status) {
    return Failed(absl::Status(status.code(), fmt::format("{}: {}", (*process)->name(), std::string(status.message()))),
                  err);
  };
  const absl::StatusOr<HeapBlocksInput> input = (*process)->Prepare(false);
  if (!input.ok()) return failed(input.status());
  HolderScan scan(&(*process)->space(), (*process)->Names(), &*budget);
  if (absl::Status status = scan.Run(*input, !(*process)->is_exact()); !status.ok()) return failed(status);
  if (scan.heap().source != BlockSource::kGlibc)
    return failed(absl::UnimplementedError("its heap is not glibc's, so which pages could be returned is unknown."));
  const PinnedPages pages = PageOwners(process->get(), &scan).Find();
  if (options.json) {
    PrintPinnedJson(**process, pages, out);
  } else {
    PrintPinned(**process, pages, options.rows, out);
  }
  return kFine;
}

}  // namespace holdfast
