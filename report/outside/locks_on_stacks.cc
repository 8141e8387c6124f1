#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "report/outside/look_at_waits.h"
#include "report/outside/modules_of_process.h"
#include "report/outside/outside_stack.h"
#include "report/table/thread_status.h"

namespace holdfast {
namespace {

constexpr uint64_t kFarthestLock = uint64_t{64} << 20;

struct SleepingThread {
  BlockedCall call;
  bool is_walked = false;
  StackInfo stack = {};
  std::vector<uint64_t> ends = {};
};

bool LiesInModule(const Snapshot& snapshot, uint64_t address) {
  return std::any_of(snapshot.modules.begin(), snapshot.modules.end(), [address](const ModuleInfo& module) {
    return !module.unloaded && address >= module.start && address < module.end;
  });
}

std::vector<LockInfo*> LocksNowhere(Snapshot* snapshot) {
  std::vector<LockInfo*> locks;
  for (LockInfo& lock : snapshot->locks_known) {
    // Of a thread that is joined the address is that of its own block of data.
    if (lock.block_stack != kNoStack || lock.kind == WaitKind::kJoin || lock.address == 0) continue;
    if (lock.waits + lock.holds + lock.waiting == 0 || LiesInModule(*snapshot, lock.address)) continue;
    locks.push_back(&lock);
  }
  return locks;
}

}  // namespace

std::optional<FrameAt> FrameHolding(uint64_t address, uint64_t sp, const std::vector<uint64_t>& ends) {
  const auto end = std::upper_bound(ends.begin(), ends.end(), address);
  if (address < sp || end == ends.end()) return std::nullopt;
  const uint64_t start = end == ends.begin() ? sp : *(end - 1);
  return FrameAt{.frame = static_cast<size_t>(end - ends.begin()), .offset = address - start};
}

void FindLocksOnStacks(const TableFile& table, Snapshot* snapshot) {
  const std::vector<LockInfo*> locks = LocksNowhere(snapshot);
  if (locks.empty() || table.liveness() == Liveness::kDead) return;
  const TableOwner& owner = table.owner();
  const std::optional<pid_t> pid = FindProcess(owner);
  if (!pid.has_value()) return;
  const ProcessMemory memory(*pid);
  if (memory.is_denied()) return;
  std::vector<SleepingThread> threads;
  for (const auto& [thread, inner] : ThreadsOf(*pid, !owner.IsOfOurNamespace())) {
    if (const std::optional<BlockedCall> call = BlockedCallOf(*pid, thread)) threads.push_back({.call = *call});
  }
  std::sort(threads.begin(), threads.end(), [](const auto& a, const auto& b) { return a.call.sp < b.call.sp; });
  OutsideStacks stacks;
  bool knows_modules = false;
  for (LockInfo* lock : locks) {
    const auto above =
        std::upper_bound(threads.begin(), threads.end(), lock->address,
                         [](uint64_t address, const SleepingThread& thread) { return address < thread.call.sp; });
    if (above == threads.begin()) continue;
    SleepingThread& thread = *(above - 1);
    if (lock->address - thread.call.sp >= kFarthestLock) continue;
    if (!std::exchange(knows_modules, true)) AddModulesOf(*pid, memory, &snapshot->modules);
    if (!std::exchange(thread.is_walked, true))
      thread.stack = stacks.Walk(memory, snapshot->modules, thread.call.pc, thread.call.sp, &thread.ends);
    const std::optional<FrameAt> place = FrameHolding(lock->address, thread.call.sp, thread.ends);
    if (!place.has_value()) continue;
    StackInfo stack = thread.stack;
    stack.frames.erase(stack.frames.begin(), stack.frames.begin() + static_cast<ptrdiff_t>(place->frame));
    lock->block_offset = place->offset;
    lock->block_stack = static_cast<uint32_t>(snapshot->stacks.size());
    snapshot->stacks.push_back(std::move(stack));
  }
}

}  // namespace holdfast
