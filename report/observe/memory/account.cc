#include "report/observe/memory/account.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "report/base/base_name.h"
#include "report/base/holdfast_library.h"
#include "report/base/libc_names.h"
#include "report/observe/memory/arenas.h"
#include "report/observe/memory/joined_mappings.h"
#include "report/observe/memory/libc_mappings.h"
#include "report/observe/memory/table_reader.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"
#include "sampler/contract/attach_call.h"
#include "sampler/contract/weight.h"

namespace holdfast {
namespace {

constexpr double kSigmas = 1.96;
constexpr const char *kGlibc = "glibc", *kMusl = "musl";

enum class Use {
  kAllocator,
  kMapped,  // by glibc, for single blocks
  kFile,
  kShared,
  kStack,
  kOwn,
  kRest
};

// Returns the size of a block's chunk in glibc's heaps: a head of 8 bytes, in steps of 16.
uint64_t GlibcChunkBytes(uint64_t bytes) {
  constexpr uint64_t kHead = 8, kStep = 16, kMinChunk = 32;
  return std::max(kMinChunk, (bytes + kHead + kStep - 1) / kStep * kStep);
}

// Returns jemalloc's size class on x86-64 with its usual quantum of 16 bytes: 8, 16, 32, 48 … 128, then four classes
// for each doubling.
uint64_t JemallocClassBytes(uint64_t bytes) {
  constexpr uint64_t kTiny = 8, kQuantum = 16, kFirstGroup = 128;
  if (bytes <= kTiny) return kTiny;
  const uint64_t step = bytes <= kFirstGroup ? kQuantum : std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

// Whether blocks are missing that were allocated while the process was recorded, or between two times when it was.
bool TableHasGaps(const TableHeader& head) {
  const auto lost = [&head](Loss cause) { return CounterValue(head.losses[static_cast<size_t>(cause)]) != 0; };
  const size_t changes = std::min<size_t>(CounterValue(head.heap_interval_count), kIntervals);
  const bool was_off = std::any_of(head.heap_intervals, head.heap_intervals + changes,
                                   [](const IntervalChange& change) { return change.interval == 0; });
  return lost(Loss::kLiveTableFull) || lost(Loss::kSumFull) || was_off;
}

bool IsAttachedTable(const TableHeader& head) { return (head.profiles & kAttachedBit) != 0; }

class Account {
 public:
  explicit Account(const AccountInput& input) : input_(input), uses_(input.mappings.size(), Use::kRest) {
    for (size_t i = 0; i < uses_.size(); ++i) uses_[i] = UseByName(i);
    account_.allocator_name = AllocatorName();
    const Use use = account_.allocator_name == kGlibc ? Use::kMapped : Use::kAllocator;
    for (const LiveBlock& block : input_.blocks) {
      const auto mapping = IndexAt(block.address);
      if (mapping.has_value() && (uses_[*mapping] == Use::kRest || IsDataAfterFile(input_.mappings, *mapping)))
        uses_[*mapping] = use;
    }
    for (const uint64_t sp : input_.stack_pointers) {
      const auto mapping = IndexAt(sp);
      if (mapping.has_value() && uses_[*mapping] == Use::kStack) ++account_.threads;
    }
  }

  MemoryAccount Sum(PageTable* pages) {
    std::map<std::string, uint64_t> by_file;
    uint64_t mapped = 0;
    for (size_t i = 0; i < uses_.size(); ++i) {
      const MemoryMapping& mapping = input_.mappings[i];
      account_.total += mapping.resident;
      account_.swapped += mapping.swapped;
      account_.huge += mapping.huge;
      account_.hugetlb += mapping.hugetlb;
      const Seen seen = SeenIn(i, pages);
      account_.mapped += seen.programs;
      account_.allocator += seen.allocators;
      const uint64_t others = mapping.resident - seen.programs - seen.allocators;
      if (uses_[i] == Use::kMapped)
        mapped += others;
      else
        *PlaceOf(uses_[i]) += others;
      const std::string& file = mapping.name.empty() && i > 0 ? input_.mappings[i - 1].name : mapping.name;
      if (uses_[i] == Use::kFile) by_file[std::string(BaseName(file))] += others;
      if ((uses_[i] == Use::kAllocator || uses_[i] == Use::kMapped) && mapping.resident > 0) ++account_.heaps;
      if (uses_[i] == Use::kAllocator && IsGlibcHeap(i)) account_.glibc_heaps += others;
    }
    account_.by_file.assign(by_file.begin(), by_file.end());
    std::stable_sort(account_.by_file.begin(), account_.by_file.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    AddBlocks(pages);
    // Estimates may be too high, and blocks of a pool may be inside those of malloc, so limit each line to its
    // mappings.
    const auto of_heaps = std::min(account_.allocator, static_cast<uint64_t>(std::llround(live_in_heaps_.value)));
    const auto of_blocks = std::min(mapped, static_cast<uint64_t>(std::llround(live_mapped_.value)));
    account_.live = {.value = static_cast<double>(of_heaps + of_blocks),
                     .variance = live_in_heaps_.variance + live_mapped_.variance};
    account_.allocator += of_blocks;
    account_.rest += mapped - of_blocks;
    account_.rest_variance = live_mapped_.variance;
    account_.beyond_variance = live_in_heaps_.variance;
    FitRounding(static_cast<double>(account_.allocator - of_blocks), static_cast<double>(of_blocks));
    account_.glibc_live.value =
        std::min(account_.glibc_live.value, account_.live.value - static_cast<double>(of_blocks));
    return account_;
  }

 private:
  std::optional<size_t> IndexAt(uint64_t address) const {
    const MemoryMapping* mapping = MappingAt(input_.mappings, address);
    if (mapping == nullptr) return std::nullopt;
    return static_cast<size_t>(mapping - input_.mappings.data());
  }

  // Blocks and their rounding come from the same samples. If they exceed the heaps' size, both are reduced by the same
  // factor.
  void FitRounding(double heaps, double live_elsewhere) {
    const double both = live_in_heaps_.value + account_.rounding.value;
    if (both <= heaps) return;
    account_.live.value = live_elsewhere + heaps * live_in_heaps_.value / both;
    account_.rounding.value *= heaps / both;
  }

  // Resident bytes of the observed mapped ranges in a mapping.
  struct Seen {
    uint64_t programs = 0, allocators = 0;
  };
  Seen SeenIn(size_t i, PageTable* pages) const {
    Seen seen;
    const MemoryMapping& mapping = input_.mappings[i];
    const bool has_blocks = uses_[i] == Use::kMapped || uses_[i] == Use::kAllocator;
    if ((uses_[i] != Use::kRest && uses_[i] != Use::kFile && !has_blocks) || mapping.resident == 0 ||
        (!mapping.is_anonymous() && mapping.name != "[heap]"))
      return seen;
    uint64_t left = mapping.resident, done = mapping.start;
    auto range = std::partition_point(input_.ranges.begin(), input_.ranges.end(),
                                      [&](const OwnRange& each) { return each.start < mapping.start; });
    while (range != input_.ranges.begin() && std::prev(range)->end > mapping.start) --range;
    for (; range != input_.ranges.end() && range->start < mapping.end; ++range) {
      const uint64_t from = std::max(range->start, done), to = std::min(range->end, mapping.end);
      if (from >= to) continue;
      done = to;
      // An allocator linked into the program maps memory as the program does.
      if (!range->of_allocator && has_blocks && HasBlock(from, to)) continue;
      if (range->of_allocator && has_blocks && uses_[i] == Use::kAllocator) continue;  // already counted
      const bool whole = from == mapping.start && to == mapping.end;
      const uint64_t resident = std::min(left, whole ? left : pages->Of(from, to - from).resident);
      left -= resident;
      (range->of_allocator ? seen.allocators : seen.programs) += resident;
    }
    return seen;
  }

  bool HasBlock(uint64_t from, uint64_t to) const {
    const auto at = std::partition_point(input_.blocks.begin(), input_.blocks.end(),
                                         [from](const LiveBlock& block) { return block.address < from; });
    return at != input_.blocks.end() && at->address < to;
  }

  Use UseByName(size_t i) {
    const MemoryMapping& mapping = input_.mappings[i];
    if (mapping.name == "[heap]") return Use::kAllocator;
    if (mapping.name == "[stack]") return Use::kStack;
    if (!input_.table_name.empty() && mapping.name.find(input_.table_name) != std::string::npos) return Use::kOwn;
    if (IsHoldfastLibrary(mapping.name)) return Use::kOwn;
    if (mapping.shared || mapping.name.starts_with("/dev/shm/") || mapping.name.starts_with("/memfd:") ||
        mapping.name.starts_with("/SYSV") || mapping.name.starts_with("/dev/zero")) {
      return Use::kShared;
    }
    if (mapping.name.starts_with('/')) return Use::kFile;
    if (input_.arenas.contains(mapping.start)) {
      ++account_.arenas;
      return Use::kAllocator;
    }
    if (IsDataAfterFile(input_.mappings, i)) return Use::kFile;
    return input_.stacks.contains(mapping.start) ? Use::kStack : Use::kRest;
  }

  uint64_t* PlaceOf(Use use) {
    switch (use) {
      case Use::kAllocator:
        return &account_.allocator;
      case Use::kFile:
        return &account_.files;
      case Use::kShared:
        return &account_.shared;
      case Use::kStack:
        return &account_.stacks;
      case Use::kOwn:
        return &account_.own;
      default:
        return &account_.rest;
    }
  }

  static void Add(double bytes, double p, Estimate* to) {
    to->value += bytes / p;
    to->variance += bytes * bytes * (1 - p) / (p * p);
  }

  void AddBlocks(PageTable* pages) {
    for (const LiveBlock& block : input_.blocks) {
      const double p = SampleProbability(block.bytes, block.interval);
      const PageTable::Share share = pages->Of(block.address, block.bytes);
      Add(static_cast<double>(block.bytes), p, &account_.in_use);
      Add(static_cast<double>(share.resident), p, &account_.in_use_resident);
      // A pool in shared memory or in a file counts with those.
      const auto mapping = IndexAt(block.address);
      const Use use = mapping.has_value() ? uses_[*mapping] : Use::kRest;
      if (use == Use::kMapped) Add(static_cast<double>(share.resident), p, &live_mapped_);
      if (use == Use::kAllocator) {
        Add(static_cast<double>(share.resident), p, &live_in_heaps_);
        if (IsGlibcHeap(*mapping)) Add(static_cast<double>(share.resident), p, &account_.glibc_live);
        if (const uint64_t rounding = RoundingOf(block.bytes); rounding > 0)
          Add(static_cast<double>(pages->Of(block.address + block.bytes, rounding).resident), p, &account_.rounding);
      }
      Add(static_cast<double>(share.swapped), p, &account_.in_use_swapped);
    }
    account_.has_pages = !pages->is_denied() && !pages->has_failed();
    account_.sampled = input_.blocks.size();
  }

  bool IsGlibcHeap(size_t i) const {
    return account_.allocator_name != "jemalloc" && account_.allocator_name != kMusl &&
           (input_.mappings[i].name == "[heap]" || input_.arenas.contains(input_.mappings[i].start));
  }

  // Returns by how much a block exceeds its requested size, for allocators with known size classes.
  uint64_t RoundingOf(uint64_t bytes) const {
    if (account_.allocator_name == kGlibc) return GlibcChunkBytes(bytes) - bytes;
    if (account_.allocator_name == "jemalloc") return JemallocClassBytes(bytes) - bytes;
    return 0;
  }

  // Recognizes the allocator by its mapped library; glibc by the addresses of blocks.
  std::string AllocatorName() const {
    bool has_glibc_heap = account_.arenas > 0;
    for (const MemoryMapping& mapping : input_.mappings) {
      if (const std::string_view name = AllocatorOfFile(mapping.name); !name.empty()) return std::string(name);
    }
    if (UsesMusl(input_.mappings)) return kMusl;
    // gperftools' tcmalloc takes its memory from [heap].
    if (input_.replaces_malloc && account_.arenas == 0) return "";
    for (const LiveBlock& block : input_.blocks) {
      if (has_glibc_heap) break;
      const auto mapping = IndexAt(block.address);
      has_glibc_heap = mapping.has_value() && input_.mappings[*mapping].name == "[heap]";
    }
    return has_glibc_heap ? kGlibc : "";
  }

  const AccountInput& input_;
  std::vector<Use> uses_;  // indexed like input_.mappings
  // Resident bytes of live blocks in their own mappings, and in the allocator's mappings.
  Estimate live_mapped_, live_in_heaps_;
  MemoryAccount account_;
};

}  // namespace

int64_t Estimate::error() const { return std::llround(kSigmas * std::sqrt(variance)); }

MemoryAccount AccountOf(const AccountInput& input, PageTable* pages) { return Account(input).Sum(pages); }

bool IsRead(const FreeMemory& free, const MemoryAccount& account) {
  constexpr uint64_t kShare = 16;  // a guess
  return free.all() > 0 && free.unread < std::max(free.all(), account.glibc_heaps / kShare);
}

void CountLive(FreeMemory* free, MemoryAccount* account) {
  const uint64_t known = free->all() + free->heads + free->unread;
  if (known > account->glibc_heaps) {
    const double scale = static_cast<double>(account->glibc_heaps) / static_cast<double>(known);
    for (uint64_t* part :
         {&free->pages, &free->main_top, &free->tops, &free->pieces, &free->heads, &free->unread, &free->in_arenas})
      *part = static_cast<uint64_t>(static_cast<double>(*part) * scale);
  }
  const auto chunks = static_cast<double>(account->glibc_heaps - free->all() - free->heads - free->unread);
  // Blocks that were not sampled have heads too. The rounding cannot exceed that of blocks of one byte.
  account->rounding.value = std::min(account->rounding.value, chunks * 31 / 32);
  account->unrecorded = {.value = std::max(0.0, chunks - account->rounding.value - account->glibc_live.value),
                         .variance = account->glibc_live.variance + account->rounding.variance};
  const double elsewhere = std::max(0.0, account->live.value - account->glibc_live.value);
  account->live.value = elsewhere + chunks - account->rounding.value;
  account->live.variance =
      std::max(0.0, account->live.variance - account->glibc_live.variance) + account->rounding.variance;
  account->beyond_variance = std::max(0.0, account->beyond_variance - account->glibc_live.variance);
  account->is_counted = true;
}

absl::StatusOr<MemoryAccount> ReadAccount(pid_t pid, const TableFile& table, std::optional<FreeMemory>* free) {
  AccountInput input;
  input.table_name = table.name();
  absl::StatusOr<std::vector<LiveBlock>> blocks = ReadLiveBlocks(table);
  if (!blocks.ok()) return blocks.status();
  input.blocks = *std::move(blocks);
  uint32_t newest = 0;
  input.replaces_malloc = ReplacesMalloc(table.ModulesSince(&newest));
  absl::StatusOr<std::vector<OwnRange>> ranges = ReadMappedRanges(table);
  if (ranges.ok()) input.ranges = *std::move(ranges);
  for (const auto& [thread, inner] : ThreadsOf(pid, false)) {
    if (const std::optional<BlockedCall> call = BlockedCallOf(pid, thread)) input.stack_pointers.push_back(call->sp);
  }
  absl::StatusOr<std::vector<MemoryMapping>> mappings = ReadMappings(pid);
  if (!mappings.ok()) return mappings.status();
  input.mappings = *std::move(mappings);
  const ProcessMemory memory(pid);
  PageTable pages(pid);
  input.arenas = FindArenas(memory, &pages, ArenasSay::kParts, &input.mappings);
  input.stacks = FindStacks({input.ranges, input.blocks, input.arenas}, input.stack_pointers, &pages, &input.mappings);
  MemoryAccount account = AccountOf(input, &pages);
  if (const auto head = TableReader(table.descriptor()).Head(); head.ok()) {
    if ((*head)->forked != 0) account.parent = (*head)->parent_pid;
    const bool has_gaps = TableHasGaps(**head);
    account.lacks_blocks = (*head)->forked != 0 || IsAttachedTable(**head) || has_gaps;
    account.is_attached = (*head)->forked == 0 && IsAttachedTable(**head);
    account.has_gaps = has_gaps || ((*head)->profiles & kDetachedBit) != 0;
  }
  if (free != nullptr && account.has_pages && !memory.is_denied() &&
      (account.allocator_name == kGlibc || account.allocator_name.empty())) {
    // Read resident pages only: reading others would make them resident, or swap them in.
    const auto read = [&memory, &pages](uint64_t address, void* to, size_t bytes) {
      return pages.IsResident(address, bytes) && memory.Read(address, to, bytes);
    };
    FreeMemory found = FreeInGlibcHeaps(input.mappings, {input.arenas.begin(), input.arenas.end()}, read, &pages);
    // If there is no sampled block, the chunks' heads still show that the heaps are glibc's.
    if (IsRead(found, account)) {
      account.allocator_name = kGlibc;
      CountLive(&found, &account);
      *free = found;
    }
  }
  return account;
}

}  // namespace holdfast
