#include "report/run/entry_patches.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "fmt/format.h"
#include "report/base/time_budget.h"
#include "report/observe/memory/mappings.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"
#include "report/run/stopped_call.h"
#include "report/run/traced_memory.h"
#include "report/run/traced_stop.h"

namespace holdfast {
namespace {

// A thread that has not stopped by then waits for a processor, or is in a call that no stop interrupts.
constexpr int64_t kStopWithinUs = 200'000, kInterruptedWithinUs = 20'000;
// In this time before the end, a thread that seems to be in such a call is stopped nevertheless: it may be a new call each time.
constexpr int64_t kLastTriesUs = 3'000'000;
// For so long a moment is awaited in which no thread is in a large write. A guess.
constexpr int64_t kWritesWithinUs = 2'000'000;

void PauseUs(long us) {
  const timespec pause = {0, us * 1000};
  nanosleep(&pause, nullptr);
}

#if defined(__x86_64__)

// A thread that cannot be stopped now: it waits for a disk, or for the child of vfork. 0: there is none.
pid_t Uninterruptible(pid_t pid) {
  for (const auto& [thread, name] : ThreadsOf(pid, false)) {
    if (RunStateOf(thread) == 'D') return thread;
  }
  return 0;
}

// Whether a stop may cut short a call that moves many bytes.
bool WouldCutShort(pid_t pid) {
  const auto threads = ThreadsOf(pid, false);
  return std::any_of(threads.begin(), threads.end(), [pid](const auto& one) {
    const std::optional<BlockedCall> call = BlockedCallOf(pid, one.first);
    return call.has_value() && CostOfStop(one.first, *call) == StopCost::kShort;
  });
}

// Counts the time from now until the end of this object, when all threads continue.
class StopsAreCounted {
 public:
  explicit StopsAreCounted(PatchStops* stops) : stops_(stops), begun_us_(NowNs() / 1000) {}
  StopsAreCounted(const StopsAreCounted&) = delete;
  StopsAreCounted& operator=(const StopsAreCounted&) = delete;
  ~StopsAreCounted() {
    ++stops_->times;
    stops_->stopped_us += NowNs() / 1000 - begun_us_;
  }

 private:
  PatchStops* const stops_;
  const int64_t begun_us_;
};

// All threads of a process, stopped until the end of this object.
class StoppedProcess {
 public:
  explicit StoppedProcess(pid_t pid) : pid_(pid) {}
  StoppedProcess(const StoppedProcess&) = delete;
  StoppedProcess& operator=(const StoppedProcess&) = delete;
  ~StoppedProcess() {
    for (const auto& [thread, signal] : stopped_) ptrace(PTRACE_DETACH, thread, nullptr, signal);
  }

  // Threads that start meanwhile are stopped as well: those that are stopped start no more. A thread that has ended may have
  // started one that was not listed yet, so a thread that was not met before makes another look necessary.
  absl::Status Stop(PatchStops* stops) {
    const int64_t begun_us = NowNs() / 1000;
    std::set<pid_t> ended;
    for (bool found = true; found;) {
      found = false;
      std::vector<pid_t> seized;
      for (const auto& [thread, name] : ThreadsOf(pid_, false)) {
        if (stopped_.contains(thread)) continue;
        if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
          const int error = errno;
          const char state = RunStateOf(thread);
          if (error == ESRCH || state == 'Z' || state == 'X' || state == '?') {  // has ended
            if (ended.insert(thread).second) found = true;
            continue;
          }
          return SeizeFailed(
              pid_, absl::UnavailableError(fmt::format("thread {} cannot be traced: {}", thread, strerror(error))));
        }
        ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
        seized.push_back(thread);
      }
      for (const pid_t thread : seized) {
        const absl::StatusOr<bool> is_stopped = Await(thread, begun_us);
        if (!is_stopped.ok()) return is_stopped.status();
        if (!*is_stopped) {
          stops->unstoppable = thread;
          return absl::AbortedError("cannot be stopped now");
        }
        found = true;
      }
    }
    if (stopped_.empty()) return absl::NotFoundError("it has ended");
    stops->threads = std::max(stops->threads, static_cast<uint32_t>(stopped_.size()));
    return absl::OkStatus();
  }

  // Whether no thread would continue within a patch, now or after a signal handler.
  absl::StatusOr<bool> IsOutside(const std::vector<EntryPatch>& patches, PatchStops* stops) const {
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (const EntryPatch& patch : patches) {
      lowest = std::min(lowest, patch.address);
      highest = std::max(highest, patch.address + std::max(patch.moved, patch.count));
    }
    const auto is_inside = [&](uint64_t address) {
      return address > lowest && address < highest &&
             std::any_of(patches.begin(), patches.end(), [address](const EntryPatch& patch) {
               return address > patch.address && address < patch.address + std::max(patch.moved, patch.count);
             });
    };
    bool is_outside = true;
    const absl::StatusOr<std::vector<MemoryMapping>> mappings = ReadMemoryMap(pid_);
    if (!mappings.ok()) return mappings.status();
    for (const auto& [thread, signal] : stopped_) {
      user_regs_struct registers{};
      if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) {
        if (errno == ESRCH) continue;  // was killed
        return absl::UnavailableError(fmt::format("read registers: {}", strerror(errno)));
      }
      if (IsCallOfStoppedLost(thread)) ++stops->lost_calls;
      if (is_inside(registers.rip)) is_outside = false;
      if (!is_outside) continue;
      // The place where a handler returns to is on the stack. No call returns into a patch. The handler may be on a stack of its
      // own (sigaltstack): the handler's frame has the stack pointer of the interrupted code. A worker of the kernel's (io_uring)
      // has no stack: its registers are 0.
      std::set<uint64_t> stacks;  // the starts of mappings
      for (uint64_t sp = registers.rsp; sp != 0 && stacks.size() < kMaxStacks;) {
        const std::vector<uint64_t> words = StackFrom(sp, *mappings, &stacks);
        const bool is_own = sp == registers.rsp;
        if ((is_own && words.empty()) || std::any_of(words.begin(), words.end(), is_inside)) is_outside = false;
        sp = OtherStackIn(words, *mappings, stacks);
      }
    }
    return is_outside;
  }

  // 8 bytes at a time, all in one page: the kernel copies them without a stop.
  absl::Status Write(const std::vector<EntryPatch>& patches, bool undo) const {
    std::vector<EntryPatch> ordered = patches;
    if (undo) std::reverse(ordered.begin(), ordered.end());
    const pid_t thread = stopped_.begin()->first;
    for (const EntryPatch& patch : ordered) {
      const uint8_t* to = undo ? patch.was : patch.now;
      const uint64_t at = std::min(patch.address, (patch.address | (kPage - 1)) + 1 - sizeof(long));
      errno = 0;
      long word = ptrace(PTRACE_PEEKDATA, thread, reinterpret_cast<void*>(at), nullptr);
      if (errno != 0) return absl::UnavailableError(fmt::format("read its code: {}", strerror(errno)));
      auto* bytes = reinterpret_cast<uint8_t*>(&word) + (patch.address - at);
      if (memcmp(bytes, to, patch.count) == 0) continue;
      if (memcmp(bytes, undo ? patch.now : patch.was, patch.count) != 0) {
        return absl::FailedPreconditionError(
            "the entries of its allocator were changed meanwhile: a breakpoint, a uprobe or another tool is there");
      }
      memcpy(bytes, to, patch.count);
      if (ptrace(PTRACE_POKEDATA, thread, reinterpret_cast<void*>(at), reinterpret_cast<void*>(word)) != 0)
        return absl::UnavailableError(fmt::format("change its code: {}", strerror(errno)));
    }
    return absl::OkStatus();
  }

 private:
  static constexpr uint64_t kPage = 4096, kMaxStackBytes = 1 << 20;
  static constexpr size_t kMaxStacks = 8;

  // True: it is stopped, or has ended.
  absl::StatusOr<bool> Await(pid_t thread, int64_t begun_us) {
    while (true) {
      int status = 0;
      const pid_t got = AwaitTraced(thread, &status, WNOHANG);
      if (got < 0 && errno == ECHILD) return true;  // has ended
      if (got < 0 && errno != EINTR)
        return absl::UnavailableError(fmt::format("wait for thread {}: {}", thread, strerror(errno)));
      if (got == thread) {
        if (!WIFSTOPPED(status)) return true;
        // It is stopped as well where a signal is about to reach it, which then does so.
        stopped_[thread] = status >> 16 == kStopEvent ? 0 : WSTOPSIG(status);
        return true;
      }
      const int64_t us = NowNs() / 1000 - begun_us;
      if (us > kStopWithinUs || (us > kInterruptedWithinUs && RunStateOf(thread) == 'D')) return false;
      PauseUs(50);
    }
  }

  // The stack pointer that the kernel has saved in a handler's frame, if it leads to a stack that is not among `stacks`; 0: none.
  static uint64_t OtherStackIn(const std::vector<uint64_t>& words, const std::vector<MemoryMapping>& mappings,
                               const std::set<uint64_t>& stacks) {
    // In sigcontext, rsp, rip and the flags come before the selectors: cs 0x33 and, since Linux 4.1, ss 0x2b.
    constexpr size_t kSelectorsAfterSp = 3;
    for (size_t i = 0; i + kSelectorsAfterSp < words.size(); ++i) {
      const uint64_t selectors = words[i + kSelectorsAfterSp];
      if ((selectors & 0xffff) != 0x33 || selectors >> 48 != 0x2b) continue;
      const MemoryMapping* stack = MappingAt(mappings, words[i]);
      if (stack != nullptr && stack->writable && !stacks.contains(stack->start)) return words[i];
    }
    return 0;
  }

  // The words of the stack that are in use, at most 1 MiB; none if they cannot be read. With glibc 2.42, a guard that nobody may
  // read ends the stack, and no mapping does (MADV_GUARD_INSTALL). Adds the mapping's start to `stacks`.
  std::vector<uint64_t> StackFrom(uint64_t sp, const std::vector<MemoryMapping>& mappings,
                                  std::set<uint64_t>* stacks) const {
    const MemoryMapping* stack = MappingAt(mappings, sp);
    if (stack == nullptr) return {};
    stacks->insert(stack->start);
    const uint64_t from = (sp + 7) & ~uint64_t{7};
    std::vector<uint64_t> words(std::min(stack->end - from, kMaxStackBytes) / sizeof(uint64_t));
    const iovec ours = {words.data(), words.size() * sizeof(uint64_t)},
                its = {reinterpret_cast<void*>(from), ours.iov_len};
    const ssize_t got = process_vm_readv(stopped_.begin()->first, &ours, 1, &its, 1, 0);
    words.resize(got > 0 ? static_cast<size_t>(got) / sizeof(uint64_t) : 0);
    return words;
  }

  const pid_t pid_;
  std::map<pid_t, int> stopped_;  // with the signal that each gets
};

#endif

}  // namespace

absl::StatusOr<std::vector<EntryPatch>> ReadEntryPatches(pid_t pid, uint64_t address, uint32_t count) {
  std::vector<EntryPatch> patches(std::min(count, kMaxEntryPatches));
  if (patches.empty() || count > kMaxEntryPatches ||
      !ReadTraced(ThreadWithMemory(pid), address, patches.data(), patches.size() * sizeof patches[0]))
    return absl::UnavailableError("the library's list of entries cannot be read");
  for (const EntryPatch& patch : patches) {
    if (patch.count > sizeof patch.now || patch.count == 0)
      return absl::UnavailableError("the library's list of entries is damaged");
  }
  return patches;
}

absl::Status WriteEntryPatches(pid_t pid, uint64_t address, const std::vector<EntryPatch>& patches, bool undo,
                               const std::atomic<int64_t>& end_us, PatchStops* stops) {
#if defined(__x86_64__)
  const int64_t begun_us = NowNs() / 1000;
  for (long pause_us = 500; true; pause_us = std::min(2 * pause_us, 100'000L)) {
    const pid_t uninterruptible = Uninterruptible(pid);
    const bool is_late = NowNs() / 1000 > end_us - kLastTriesUs;
    if (!is_late && uninterruptible == 0 && NowNs() / 1000 - begun_us < kWritesWithinUs && WouldCutShort(pid)) {
      constexpr long kPauseUs = 1000;
      PauseUs(kPauseUs);
      continue;
    }
    if (uninterruptible == 0 || is_late) {
      const StopsAreCounted count(stops);
      StoppedProcess process(pid);
      if (absl::Status status = process.Stop(stops); !status.ok()) return status;
      // After an exec, the same code may be at the same addresses, but the library is not.
      const absl::StatusOr<std::vector<EntryPatch>> list =
          ReadEntryPatches(pid, address, static_cast<uint32_t>(patches.size()));
      if (!list.ok() || *list != patches) return absl::NotFoundError("it has executed another program meanwhile");
      const absl::StatusOr<bool> is_outside = process.IsOutside(patches, stops);
      if (!is_outside.ok()) return is_outside.status();
      if (*is_outside) return process.Write(patches, undo);
    }
    if (NowNs() / 1000 > end_us) {
      return absl::UnavailableError(
          uninterruptible != 0
              ? fmt::format(
                    "thread {} is in a call that cannot be interrupted: it waits for a disk, or a child of vfork",
                    uninterruptible)
              : "a thread was within an entry each time it was stopped");
    }
    PauseUs(pause_us);
  }
#else
  (void)pid, (void)address, (void)patches, (void)undo, (void)end_us, (void)stops;
  return absl::UnimplementedError("only possible on x86-64");
#endif
}

}  // namespace holdfast
