#include "report/builder/written_waits.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

class WaitingWriter {
 public:
  WaitingWriter(const ProcessState& state, const FramesOfStack& frames, Profile* profile)
      : state_(state), frames_(frames), profile_(*profile), waits_(profile->mutable_records()->waits.emplace()) {
    const std::vector<const LockInfo*> locks = LocksToWrite(state);
    for (size_t i = 0; i < locks.size(); ++i)
      locks_.emplace(std::pair(locks[i]->address, locks[i]->kind), static_cast<uint32_t>(i + 1));
    for (uint32_t i = 0; i < state.waits.threads.size(); ++i) place_.emplace(state.waits.threads[i].id, i);
  }

  void Write(size_t most) {
    uint64_t delay_ns = 0;
    for (const OngoingWaitInfo& wait : state_.waits.ongoing) AddSaturating(DelayOf(wait), &delay_ns);
    waits_.threads = static_cast<int64_t>(state_.waits.ongoing.size());
    waits_.delay_ns = static_cast<int64_t>(delay_ns);
    profile_.AddComment(fmt::format("waiting: {} {}, delay_ns {}", state_.waits.ongoing.size(),
                                    state_.waits.ongoing.size() == 1 ? "thread" : "threads", delay_ns));
    std::vector<size_t> order = Order();
    if (order.size() > most) {
      waits_.not_written = static_cast<int64_t>(order.size() - most);
      order.resize(most);
    }
    for (const size_t index : order) WriteWait(state_.waits.ongoing[index]);
    for (size_t i = 0; i < state_.waits.deadlocks.size() && i < most; ++i) {
      record::Deadlock deadlock;
      for (const uint32_t thread : state_.waits.deadlocks[i]) deadlock.thread.push_back(ThreadNumber(thread));
      waits_.deadlock.push_back(std::move(deadlock));
    }
    for (uint32_t i = 0; i < state_.waits.threads.size(); ++i) {
      if (state_.waits.threads[i].wait == kNoIndex) ThreadNumber(i);
    }
    waits_.unknown = state_.waits.unknown;
  }

 private:
  uint64_t DelayOf(const OngoingWaitInfo& wait) const {
    return static_cast<uint64_t>(state_.table->monotonic_ns - wait.start_ns);
  }

  std::vector<size_t> Order() const {
    std::vector<bool> in_deadlock(state_.waits.ongoing.size());
    for (const auto& circle : state_.waits.deadlocks) {
      for (const uint32_t thread : circle) in_deadlock[state_.waits.threads[thread].wait] = true;
    }
    std::vector<size_t> order(state_.waits.ongoing.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto rank = [&](size_t i) {
        const OngoingWaitInfo& wait = state_.waits.ongoing[i];
        return std::tuple(!in_deadlock[i], HasNoHolder(wait.kind), wait.start_ns);
      };
      return rank(a) < rank(b);
    });
    return order;
  }

  uint32_t ThreadNumber(uint32_t index) {
    const auto [place, added] = threads_.emplace(index, static_cast<uint32_t>(threads_.size() + 1));
    const uint32_t number = place->second;
    if (!added) return number;
    const ThreadInfo& thread = state_.waits.threads[index];
    record::WaitingThread& written = waits_.thread.emplace_back();
    written.tid = thread.id;
    written.number = thread.number;
    written.gone = thread.gone;
    written.since_start = thread.since_start;
    written.name = Printable(thread.name);
    written.labels = LabelsOf(thread);
    written.does = thread.doing;
    written.polls = thread.polls;
    if (thread.stack != kNoStack) written.stack = StackNumber(thread.stack);
    return number;
  }

  std::string LabelsOf(const ThreadInfo& thread) const {
    std::string text;
    if (thread.wait == kNoIndex || state_.waits.ongoing[thread.wait].stack == kNoStack) return text;
    for (const auto& [key, value] :
         state_.table->label_sets[state_.stack(state_.waits.ongoing[thread.wait].stack).labels]) {
      if (key == kThreadNameKey) continue;  // written as its name
      text += fmt::format("{}{}={}", text.empty() ? "" : ", ", Printable(key), Printable(value));
    }
    return text;
  }

  uint32_t StackNumber(uint32_t stack) {
    const auto [place, added] = stacks_.emplace(stack, static_cast<uint32_t>(stacks_.size() + 1));
    if (added) waits_.stack.push_back(frames_(stack));
    return place->second;
  }

  void WriteWait(const OngoingWaitInfo& wait) {
    const WaitKind kind = wait.kind == WaitKind::kRwlockRead ? WaitKind::kRwlockWrite : wait.kind;
    record::Wait written;
    if (const auto lock = locks_.find(std::pair(wait.lock, kind)); lock != locks_.end()) written.lock = lock->second;
    if (const auto waiter = place_.find(wait.thread_id); waiter != place_.end())
      written.thread = ThreadNumber(waiter->second);
    if (wait.holder < state_.waits.threads.size()) written.holder = ThreadNumber(wait.holder);
    if (wait.stack != kNoStack) written.stack = StackNumber(wait.stack);
    written.kind = kWaitKindNames[static_cast<int>(wait.kind)];
    written.address = wait.lock;
    written.delay_ns = state_.table->monotonic_ns - std::min(wait.start_ns, wait.since_ns);
    written.source = static_cast<record::HolderSource>(wait.source);
    written.readers = wait.readers;
    written.owner_died = wait.owner_died;
    waits_.wait.push_back(std::move(written));
  }

  const ProcessState& state_;
  const FramesOfStack& frames_;
  Profile& profile_;
  record::Waits& waits_;
  absl::flat_hash_map<std::pair<uint64_t, WaitKind>, uint32_t>
      locks_;  // numbers in the file, from 1; so are those below
  absl::flat_hash_map<uint32_t, uint32_t> threads_, stacks_;
  absl::flat_hash_map<uint32_t, uint32_t> place_;  // of a thread's id, in the snapshot: the first one that has it
};

}  // namespace

void AddWaitRecords(const ProcessState& state, const FramesOfStack& frames, Profile* profile, size_t most) {
  if (!state.waits.ongoing.empty() || !state.waits.threads.empty()) WaitingWriter(state, frames, profile).Write(most);
}

}  // namespace holdfast
