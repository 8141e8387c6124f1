#include "report/lock_records/waiting_comments.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/base/printable.h"
#include "report/pprof/stack_text.h"

namespace holdfast {
namespace {

constexpr const char* kSources[] = {"-", "free", "now", "start", "last", "readers"};

class WaitingWriter {
 public:
  WaitingWriter(const Snapshot& snapshot, const FramesOfStack& frames, Profile* profile)
      : snapshot_(snapshot), frames_(frames), profile_(*profile) {
    const std::vector<const LockInfo*> locks = LocksToWrite(snapshot);
    for (size_t i = 0; i < locks.size(); ++i) locks_.emplace(std::pair(locks[i]->address, locks[i]->kind), i + 1);
    for (uint32_t i = 0; i < snapshot.threads.size(); ++i) place_.emplace(snapshot.threads[i].id, i);
  }

  void Write(size_t most) {
    uint64_t delay_ns = 0;
    for (const OngoingWaitInfo& wait : snapshot_.ongoing) AddUpToMost(DelayOf(wait), &delay_ns);
    profile_.AddComment(fmt::format("waiting: {} {}, delay_ns {}", snapshot_.ongoing.size(),
                                    snapshot_.ongoing.size() == 1 ? "thread" : "threads", delay_ns));
    std::vector<size_t> order = Order();
    if (order.size() > most) {
      profile_.AddComment(fmt::format("waiting not written: {}", order.size() - most));
      order.resize(most);
    }
    for (size_t i = 0; i < order.size(); ++i) WriteWait(i + 1, snapshot_.ongoing[order[i]]);
    for (size_t i = 0; i < snapshot_.deadlocks.size() && i < most; ++i) {
      std::vector<size_t> threads;
      for (const uint32_t thread : snapshot_.deadlocks[i]) threads.push_back(ThreadNumber(thread));
      profile_.AddComment(fmt::format("waiting deadlock {}: {}", i + 1, fmt::join(threads, " ")));
    }
    for (uint32_t i = 0; i < snapshot_.threads.size(); ++i) {
      if (snapshot_.threads[i].wait == kNoIndex) ThreadNumber(i);
    }
    if (!snapshot_.cannot_look.empty()) profile_.AddComment(fmt::format("waiting unknown: {}", snapshot_.cannot_look));
  }

 private:
  uint64_t DelayOf(const OngoingWaitInfo& wait) const {
    return static_cast<uint64_t>(snapshot_.monotonic_ns - wait.start_ns);
  }

  std::vector<size_t> Order() const {
    std::vector<bool> in_deadlock(snapshot_.ongoing.size());
    for (const auto& circle : snapshot_.deadlocks) {
      for (const uint32_t thread : circle) in_deadlock[snapshot_.threads[thread].wait] = true;
    }
    std::vector<size_t> order(snapshot_.ongoing.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto rank = [&](size_t i) {
        const OngoingWaitInfo& wait = snapshot_.ongoing[i];
        return std::tuple(!in_deadlock[i], HasNoHolder(wait.kind), wait.start_ns);
      };
      return rank(a) < rank(b);
    });
    return order;
  }

  size_t ThreadNumber(uint32_t index) {
    const auto [place, added] = threads_.emplace(index, threads_.size() + 1);
    const size_t number = place->second;
    if (!added) return number;
    const ThreadInfo& thread = snapshot_.threads[index];
    profile_.AddComment(fmt::format("waiting thread {}: tid {} number {} gone {} name {}", number, thread.id,
                                    thread.number, thread.gone ? 1 : 0, Printable(thread.name)));
    if (thread.since_start) profile_.AddComment(fmt::format("waiting thread {} waits: since its start", number));
    if (const std::string labels = LabelsOf(thread); !labels.empty())
      profile_.AddComment(fmt::format("waiting thread {} labels: {}", number, labels));
    if (!thread.doing.empty()) profile_.AddComment(fmt::format("waiting thread {} does: {}", number, thread.doing));
    if (thread.stack != kNoStack)
      profile_.AddComment(fmt::format("waiting thread {} stack: {}", number, StackNumber(thread.stack)));
    return number;
  }

  std::string LabelsOf(const ThreadInfo& thread) const {
    std::string text;
    if (thread.wait == kNoIndex || snapshot_.ongoing[thread.wait].stack == kNoStack) return text;
    for (const auto& [key, value] :
         snapshot_.label_sets[snapshot_.stacks[snapshot_.ongoing[thread.wait].stack].labels]) {
      if (key == kThreadNameKey) continue;  // already written as the name
      text += fmt::format("{}{}={}", text.empty() ? "" : ", ", Printable(key), Printable(value));
    }
    return text;
  }

  size_t StackNumber(uint32_t stack) {
    const auto [place, added] = stacks_.emplace(stack, stacks_.size() + 1);
    if (added) {
      profile_.AddComment(fmt::format("waiting stack {}:{}", place->second, StackText(profile_, frames_(stack))));
    }
    return place->second;
  }

  void WriteWait(size_t number, const OngoingWaitInfo& wait) {
    const auto or_none = [](size_t value) { return value == 0 ? std::string("-") : fmt::format("{}", value); };
    const WaitKind kind = wait.kind == WaitKind::kRwlockRead ? WaitKind::kRwlockWrite : wait.kind;
    const auto lock = locks_.find(std::pair(wait.lock, kind));
    // First the comments that this wait refers to.
    const auto waiter = place_.find(wait.thread_id);
    const size_t thread = waiter != place_.end() ? ThreadNumber(waiter->second) : 0;
    const size_t holder = wait.holder < snapshot_.threads.size() ? ThreadNumber(wait.holder) : 0;
    const size_t stack = wait.stack != kNoStack ? StackNumber(wait.stack) : 0;
    profile_.AddComment(fmt::format(
        "waiting {}: thread {} {} 0x{:x} lock {} delay_ns {} stack {} holder {} source {} readers {} died {}", number,
        or_none(thread), kWaitKindNames[static_cast<int>(wait.kind)], wait.lock,
        or_none(lock == locks_.end() ? 0 : lock->second), DelayOf(wait), or_none(stack), or_none(holder),
        kSources[wait.source], wait.readers, wait.owner_died ? 1 : 0));
    if (wait.since_ns < wait.start_ns)
      profile_.AddComment(fmt::format("waiting {} slices: age_ns {}", number, snapshot_.monotonic_ns - wait.since_ns));
  }

  const Snapshot& snapshot_;
  const FramesOfStack& frames_;
  Profile& profile_;
  absl::flat_hash_map<std::pair<uint64_t, WaitKind>, size_t> locks_;  // numbers in the file, from 1; so are those below
  absl::flat_hash_map<uint32_t, size_t> threads_, stacks_;
  absl::flat_hash_map<uint32_t, uint32_t> place_;  // thread id → its first place in the snapshot
};

}  // namespace

void AddWaitingComments(const Snapshot& snapshot, const FramesOfStack& frames, Profile* profile, size_t most) {
  if (!snapshot.ongoing.empty() || !snapshot.threads.empty()) WaitingWriter(snapshot, frames, profile).Write(most);
}

}  // namespace holdfast
