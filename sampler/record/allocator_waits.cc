#include "sampler/record/allocator_waits.h"

#include "sampler/capture/sample_stack.h"
#include "sampler/hot_path/timed_samples.h"

namespace holdfast {

constinit std::atomic<int> allocator_range_count{0};

namespace {

constexpr int kMaxRanges = 768;
constinit CodeRange ranges[kMaxRanges] = {};

// Calls without an allocator above them when they were last looked at: hashes of the caller and its stack height, because
// a function may be the program's and the allocator's (std::mutex::lock without optimization). One wait in
// kLookAgainOneIn is looked at again.
constexpr int kKnownSites = 1024;
constexpr uint64_t kLookAgainOneIn = 16;
constinit std::atomic<uintptr_t> programs_sites[kKnownSites] = {};

bool IsAllocatorsCode(uintptr_t address) {
  int low = 0, high = allocator_range_count.load(std::memory_order_relaxed);
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (ranges[middle].end <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < allocator_range_count.load(std::memory_order_relaxed) && ranges[low].Has(address);
}

}  // namespace

void SetAllocatorCode(const CodeRange* code, int count) {
  if (count > kMaxRanges) count = kMaxRanges;
  for (int i = 0; i < count; ++i) ranges[i] = code[i];
  allocator_range_count.store(count, std::memory_order_release);
}

HOLDFAST_COLD bool IsCalledByAllocatorSlow(SharedTable* table, ThreadState& thread, const CallerRegisters& caller) {
  uintptr_t call = caller.pc ^ caller.sp * 0x9e3779b97f4a7c15;
  call ^= call >> 32;
  std::atomic<uintptr_t>& site = programs_sites[call % kKnownSites];
  if (site.load(std::memory_order_relaxed) == call && NextRandom(&thread.random) % kLookAgainOneIn != 0) return false;
  StackTrace* trace = LittleStackLeft(kStackForCapture) ? nullptr : TakeScratch(thread);
  if (trace == nullptr) return false;
  Mute(thread);
  const uintptr_t low = thread.stack_bounds.low;
  CaptureStack(caller, &thread.stack_bounds, trace);
  NoteCapture(table, thread, low, false);
  bool found = false;
  // A return address may be that of the next function.
  for (int i = 0; i < trace->depth && !found; ++i) found = IsAllocatorsCode((trace->frames[i] & kPcMask) - 1);
  ReturnScratch(thread);
  Unmute(thread);
  if (!found) site.store(call, std::memory_order_relaxed);
  return found;
}

}  // namespace holdfast
