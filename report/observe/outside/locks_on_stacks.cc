#include <elf.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "report/observe/outside/look_at_waits.h"
#include "report/observe/outside/modules_of_process.h"
#include "report/observe/outside/outside_stack.h"
#include "report/observe/table/headers_of_module.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {
namespace {

constexpr uint64_t kFarthestLock = uint64_t{64} << 20;

struct SleepingThread {
  BlockedCall call;
  bool is_walked = false;
  StackInfo stack = {};
  std::vector<uint64_t> ends = {};
};

bool IsInModule(const WaitGraph& state, uint64_t address) {
  return std::any_of(state.modules.begin(), state.modules.end(), [address](const ModuleInfo& module) {
    return !module.unloaded && address >= module.start && address < module.end;
  });
}

std::vector<LockInfo*> LocksNowhere(WaitGraph* state) {
  std::vector<LockInfo*> locks;
  for (LockInfo& lock : state->locks) {
    // For a join, the address is that of the joined thread's control block.
    if (lock.block_stack != kNoStack || lock.kind == WaitKind::kJoin || lock.address == 0) continue;
    if (lock.waits + lock.holds + lock.waiting == 0 || IsInModule(*state, lock.address)) continue;
    locks.push_back(&lock);
  }
  return locks;
}

// Returns an upper bound for the size of these modules' static thread-local variables. Libraries loaded later have
// separate blocks, so the result may be too large.
uint64_t ThreadLocalBytes(const ProcessMemory& memory, const std::vector<ModuleInfo>& modules) {
  uint64_t bytes = 0;
  for (const ModuleInfo& module : modules) {
    Elf64_Ehdr head;
    if (module.unloaded) continue;
    for (const Elf64_Phdr& segment : ReadProgramHeaders(memory, module.start, &head)) {
      if (segment.p_type == PT_TLS) bytes += segment.p_memsz + segment.p_align;
    }
  }
  return bytes;
}

// Returns how far the address is below its thread's control block; 0: there is none within `most` bytes, or 1 MiB. A
// thread's static thread-local variables end where its control block (glibc's struct pthread) begins, and the block contains
// its own address twice.
uint64_t BelowThreadBlock(const ProcessMemory& memory, uint64_t address, uint64_t most) {
  constexpr uint64_t kAlignment = 64, kPage = 4096, kFarthest = uint64_t{1} << 20;
  most = std::min(most, kFarthest);
  std::array<uint64_t, kPage / sizeof(uint64_t)> words;
  for (uint64_t block = (address / kAlignment + 1) * kAlignment; block - address <= most;) {
    const uint64_t bytes = kPage - block % kPage;
    if (!memory.Read(block, words.data(), bytes)) return 0;
    for (uint64_t i = 0; i < bytes / sizeof(uint64_t); i += kAlignment / sizeof(uint64_t), block += kAlignment) {
      if (words[i] == block && words[i + 2] == block) return block - address <= most ? block - address : 0;
    }
  }
  return 0;
}

class LockPlaces {
 public:
  LockPlaces(pid_t pid, const ProcessMemory& memory, const std::vector<std::pair<pid_t, uint32_t>>& threads,
             WaitGraph* state)
      : pid_(pid), memory_(memory), state_(*state) {
    for (const auto& [thread, inner] : threads) {
      if (const std::optional<BlockedCall> call = BlockedCallOf(pid, thread)) threads_.push_back({.call = *call});
    }
    std::sort(threads_.begin(), threads_.end(), [](const auto& a, const auto& b) { return a.call.sp < b.call.sp; });
  }

  bool FindFrame(LockInfo* lock) {
    const auto above =
        std::upper_bound(threads_.begin(), threads_.end(), lock->address,
                         [](uint64_t address, const SleepingThread& thread) { return address < thread.call.sp; });
    if (above == threads_.begin()) return false;
    SleepingThread& thread = *(above - 1);
    if (lock->address - thread.call.sp >= kFarthestLock) return false;
    KnowModules();
    if (!std::exchange(thread.is_walked, true))
      thread.stack = stacks_.Walk(memory_, state_.modules, thread.call.pc, thread.call.sp, &thread.ends);
    const std::optional<FrameAt> place = FrameHolding(lock->address, thread.call.sp, thread.ends);
    if (!place.has_value()) return false;
    StackInfo stack = thread.stack;
    stack.frames.erase(stack.frames.begin(), stack.frames.begin() + static_cast<ptrdiff_t>(place->frame));
    OmitFrames(&stack);
    lock->block_offset = place->offset;
    lock->block_stack = state_.AddStack(std::move(stack));
    return true;
  }

  void FindThread(LockInfo* lock) {
    KnowModules();
    if (!thread_local_bytes_.has_value()) thread_local_bytes_ = ThreadLocalBytes(memory_, state_.modules);
    lock->thread_offset = BelowThreadBlock(memory_, lock->address, *thread_local_bytes_);
  }

 private:
  void KnowModules() {
    if (!std::exchange(knows_modules_, true)) AddModulesOf(pid_, memory_, &state_.modules);
  }

  const pid_t pid_;
  const ProcessMemory& memory_;
  WaitGraph& state_;
  std::vector<SleepingThread> threads_;  // by stack address
  OutsideStacks stacks_;
  bool knows_modules_ = false;
  std::optional<uint64_t> thread_local_bytes_;
};

}  // namespace

std::optional<FrameAt> FrameHolding(uint64_t address, uint64_t sp, const std::vector<uint64_t>& ends) {
  const auto end = std::upper_bound(ends.begin(), ends.end(), address);
  if (address < sp || end == ends.end()) return std::nullopt;
  const uint64_t start = end == ends.begin() ? sp : *(end - 1);
  return FrameAt{.frame = static_cast<size_t>(end - ends.begin()), .offset = address - start};
}

void FindLocksOnStacks(const TableFile& table, WaitGraph* state) {
  const std::vector<LockInfo*> locks = LocksNowhere(state);
  if (locks.empty() || table.liveness() == Liveness::kDead) return;
  const TableOwner& owner = table.owner();
  const std::optional<pid_t> pid = FindProcess(owner);
  if (!pid.has_value()) return;
  const ProcessMemory memory(*pid);
  if (memory.is_denied()) return;
  LockPlaces places(*pid, memory, ThreadsOf(*pid, !owner.IsOfOurNamespace()), state);
  for (LockInfo* lock : locks) {
    if (!places.FindFrame(lock)) places.FindThread(lock);
  }
}

}  // namespace holdfast
