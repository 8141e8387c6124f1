#include "report/holders/never_woken.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "report/holders/block_marker.h"
#include "report/holders/references.h"
#include "report/holders/thread_cache.h"

namespace holdfast {
namespace {

constexpr uint32_t kNoWait = 0xffffffff;

class WakeSearch {
 public:
  WakeSearch(AddressSpace* space, HeapBlocks heap, const HeapBlocksInput& input, const std::vector<FutexWait>& waits)
      : space_(*space),
        heap_(std::move(heap)),
        waits_(waits),
        threads_(waits.size()),
        chances_(waits.size()),
        owner_(waits.size()) {
    for (uint32_t i = 0; i < waits_.size(); ++i) wait_of_thread_.emplace(waits_[i].thread, i);
    roots_ = FindRoots(space, heap_, input);
  }

  WakeChances Run() {
    FindStacks();
    for (uint32_t i = 0; i < waits_.size(); ++i) FindPlace(i);
    if (!freed_.empty()) IgnoreCaches();
    Search();
    WakeChances result;
    for (uint32_t i = 0; i < waits_.size(); ++i) {
      if (chances_[i].kind != WakeChance::kUnknown)
        chances_[i].kind = threads_[i].is_alive ? WakeChance::kCanBeWoken : WakeChance::kNever;
    }
    for (uint32_t i = 0; i < space_.threads().size(); ++i) {
      const auto wait = wait_of_thread_.find(i);
      const bool is_alive = wait == wait_of_thread_.end() || threads_[wait->second].is_alive;
      result.hidden_threads += is_alive && !space_.threads()[i].has_all_registers ? 1 : 0;
    }
    result.of_waits = std::move(chances_);
    return result;
  }

 private:
  // A waiting thread.
  struct Waiting {
    MemoryRange stack;          // to which pointers may lead; empty: unknown
    MemoryRange control_block;  // empty: unknown
    std::vector<RootRange> roots;
    bool is_alive = false, is_stack_reached = false, is_searched = false;
  };

  uint32_t WaitOf(const RootRange& root) const {
    const bool is_of_thread = root.kind == RootKind::kStack || root.kind == RootKind::kThreadBlock;
    const auto found = is_of_thread ? wait_of_thread_.find(root.index) : wait_of_thread_.end();
    return found == wait_of_thread_.end() ? kNoWait : found->second;
  }

  void FindStacks() {
    for (const RootRange& root : roots_) {
      const uint32_t wait = WaitOf(root);
      if (wait == kNoWait) continue;
      threads_[wait].roots.push_back(root);
      (root.kind == RootKind::kStack ? threads_[wait].stack : threads_[wait].control_block) = root.range;
    }
    std::erase_if(roots_, [this](const RootRange& root) { return WaitOf(root) != kNoWait; });
    // If the walk of a stack is incomplete, the memory below the stack pointer is a mapping's. It is this thread's alone,
    // if the mapping begins with the stack.
    for (Waiting& thread : threads_) {
      const auto below = std::find_if(roots_.begin(), roots_.end(), [&](const RootRange& root) {
        return root.kind == RootKind::kMapping && root.range.end == thread.stack.start;
      });
      if (thread.stack.start == 0 || below == roots_.end() || !BeginsAboveGuard(below->range.start)) continue;
      thread.stack.start = below->range.start;
      thread.roots.push_back(*below);
      roots_.erase(below);
    }
  }
  bool BeginsAboveGuard(uint64_t start) const {
    const MemoryMapping* mapping = space_.MappingAt(start);
    return mapping != nullptr && mapping->start == start &&
           HasGuardBelow(space_.mappings(), static_cast<size_t>(mapping - space_.mappings().data()));
  }

  void FindPlace(uint32_t i) {
    const uint64_t address = waits_[i].address;
    WakeChance& chance = chances_[i];
    const auto set = [&](WakeChance::Place place, uint32_t owner) {
      chance.place = place;
      chance.owner = waits_[owner].thread;
      owner_[i] = owner;
    };
    if (threads_[i].stack.start == threads_[i].stack.end) {
      threads_[i].is_alive = true;
      chance.kind = WakeChance::kUnknown;
      return;
    }
    for (uint32_t k = 0; k < waits_.size(); ++k) {
      if (threads_[k].stack.Contains(address)) return set(WakeChance::kStack, k);
      if (threads_[k].control_block.Contains(address)) {
        const uint64_t offset = address - threads_[k].control_block.start;
        if (k != i && (offset == kThreadIdOffset || offset == kThreadStateOffset))
          return set(WakeChance::kEndOfThread, k);
        break;
      }
    }
    const BlockMap::Block block = heap_.map.Find(address);
    if (block.number != BlockMap::kNone && !AnyContains(heap_.gaps, address)) {
      chance.place = block.unused ? WakeChance::kFreedBlock : WakeChance::kBlock;
      chance.block = block.range;
      if (block.unused) freed_.push_back({block.range, false});
      return;
    }
    // A variable, a mapping, or the stack of a thread that does not wait: always alive.
    threads_[i].is_alive = true;
    const MemoryMapping* mapping = space_.MappingAt(address);
    if (mapping == nullptr || AnyContains(heap_.gaps, address)) chance.kind = WakeChance::kUnknown;
  }

  // Caches contain the addresses of free blocks, but malloc wakes nobody. What looks like a cache is one: each number
  // agrees with a free block of exactly this size.
  void IgnoreCaches() {
    std::vector<uint64_t> caches;
    heap_.map.ForEach([&](const BlockMap::Block& block) {
      if (block.unused || !MayBeThreadCache(block.range.end - block.range.start)) return;
      const std::vector<CachedList> lists = ReadThreadCache(space_, heap_.map, block);
      const bool are_free = std::all_of(lists.begin(), lists.end(), [&](const CachedList& list) {
        const BlockMap::Block first = heap_.map.Find(list.block);
        return first.number != BlockMap::kNone && first.unused;
      });
      if (!lists.empty() && are_free) caches.push_back(block.range.start);
    });
    for (const uint64_t start : caches) heap_.map.MarkUnused(start);
  }

  // ---- The search ----

  struct Freed {
    MemoryRange range;
    bool is_reached = false;
  };

  OtherTargets Others() {
    OtherTargets others{.range = {UINT64_MAX, 0}, .visit = [this](uint64_t word) {
                          for (Waiting& thread : threads_)
                            thread.is_stack_reached = thread.is_stack_reached || thread.stack.Contains(word);
                          for (Freed& freed : freed_) freed.is_reached = freed.is_reached || freed.range.Contains(word);
                        }};
    const auto add = [&](const MemoryRange& range) {
      if (range.start >= range.end) return;
      others.range = {std::min(others.range.start, range.start), std::max(others.range.end, range.end)};
    };
    for (const Waiting& thread : threads_) add(thread.stack);
    for (const Freed& freed : freed_) add(freed.range);
    return others;
  }

  bool IsReached(const Marker& marker, uint32_t i) const {
    const WakeChance& chance = chances_[i];
    switch (chance.place) {
      case WakeChance::kBlock:
        return marker.IsMarked(heap_.map.Find(waits_[i].address).number);
      case WakeChance::kFreedBlock:
        return std::any_of(freed_.begin(), freed_.end(), [&](const Freed& freed) {
          return freed.is_reached && freed.range.Contains(waits_[i].address);
        });
      case WakeChance::kStack:
        return threads_[owner_[i]].is_stack_reached;
      case WakeChance::kEndOfThread:
        return threads_[owner_[i]].is_alive;
      case WakeChance::kElsewhere:
        break;
    }
    return true;
  }

  void Search() {
    Marker marker(&space_, heap_.map, Others());
    for (const RootRange& root : roots_) marker.MarkRoot(root);
    ForEachRegister(space_, [&](uint32_t thread, uint64_t word) {
      if (!wait_of_thread_.contains(thread)) marker.Mark(word);
    });
    for (const uint64_t word : space_.kernel_words()) marker.Mark(word);
    for (bool changes = true; changes;) {
      marker.Follow();
      changes = false;
      for (uint32_t i = 0; i < waits_.size(); ++i) {
        Waiting& thread = threads_[i];
        if (!thread.is_alive && IsReached(marker, i)) thread.is_alive = changes = true;
        if ((!thread.is_alive && !thread.is_stack_reached) || thread.is_searched) continue;
        thread.is_stack_reached = thread.is_searched = changes = true;
        for (const RootRange& root : thread.roots) marker.MarkRoot(root);
        const TargetThread& target = space_.threads()[waits_[i].thread];
        for (const uint64_t word : target.registers) marker.Mark(word);
        marker.Mark(target.sp);
      }
    }
  }

  AddressSpace& space_;
  HeapBlocks heap_;
  const std::vector<FutexWait>& waits_;
  std::vector<RootRange> roots_;     // of threads that do not wait, and of no thread
  std::vector<Waiting> threads_;     // as waits_
  std::vector<WakeChance> chances_;  // as waits_
  std::vector<uint32_t> owner_;      // as waits_: the wait of the thread that owns the stack or ends
  std::vector<Freed> freed_;
  absl::flat_hash_map<uint32_t, uint32_t> wait_of_thread_;  // index into AddressSpace::threads → into waits_
};

}  // namespace

absl::StatusOr<WakeChances> FindWakeChances(AddressSpace* space, const HeapBlocksInput& input,
                                            const std::vector<FutexWait>& waits) {
  absl::StatusOr<HeapBlocks> heap = FindHeapBlocks(space, input);
  if (!heap.ok()) return heap.status();
  return WakeSearch(space, *std::move(heap), input, waits).Run();
}

}  // namespace holdfast
