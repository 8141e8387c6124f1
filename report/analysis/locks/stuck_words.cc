#include "report/analysis/locks/stuck_words.h"

#include <algorithm>
#include <array>

#include "fmt/format.h"
#include "report/analysis/locks/calls_text.h"
#include "report/analysis/locks/lock_classes.h"
#include "report/base/printable.h"

namespace holdfast {
namespace {

constexpr int kLongestChain = 4;

bool HasNumber(const LockList::Lock& lock, uint32_t number) {
  return number != 0 && lock.number == static_cast<int64_t>(number);
}

bool IsInAny(const std::vector<std::vector<uint32_t>>& circles, uint32_t thread) {
  return std::any_of(circles.begin(), circles.end(), [thread](const std::vector<uint32_t>& circle) {
    return std::find(circle.begin(), circle.end(), thread) != circle.end();
  });
}

}  // namespace

StuckWords::StuckWords(const Profile& profile, const CallsShown& shown)
    : profile_(profile),
      plumbing_(Plumbing::Make(profile, shown.plumbing).value()),  // cannot fail, because the patterns are valid
      folds_(shown.folds),
      locks_(ReadLockList(profile, &plumbing_)),
      list_(ReadWaitingList(profile)) {
  for (const record::Wait& wait : list_.waits) {
    ++waiters_[{wait.kind, wait.address}];
    if (wait.holder != 0) holders_.insert(wait.holder);
  }
  FindPassingCircles();
}

void StuckWords::FindPassingCircles() {
  for (uint32_t start = 1; start <= list_.threads.size(); ++start) {
    std::vector<uint32_t> circle;
    bool is_named = true;
    // Each circle is found from its first thread.
    for (uint32_t at = start; at >= start && list_.IsWaiting(at) && circle.size() <= list_.threads.size();) {
      circle.push_back(at);
      is_named = is_named && list_.WaitOf(at).source == record::HolderSource::kNow;
      at = list_.WaitOf(at).holder;
      if (at != start) continue;
      if (is_named && !IsInDeadlock(start)) passing_circles_.push_back(std::move(circle));
      break;
    }
  }
}

std::string StuckWords::ThreadName(uint32_t thread) const {
  if (thread == 0) return "a thread";
  const record::WaitingThread& it = list_.ThreadAt(thread);
  std::string name = it.number != 0 ? fmt::format("T{}", it.number) : "";
  if (!it.name.empty()) name += (name.empty() ? "" : " ") + Printable(it.name);
  const std::string labels = it.labels.empty() ? "" : "; " + Printable(it.labels);
  return name.empty() ? fmt::format("tid {}{}", it.tid, labels) : fmt::format("{} (tid {}{})", name, it.tid, labels);
}

std::string StuckWords::LockName(const record::Wait& wait) const {
  if (wait.kind == "join") {
    return wait.holder == 0 ? "a thread's end" : fmt::format("the end of {}", ThreadName(wait.holder));
  }
  for (const LockList::Lock& lock : locks_.locks) {
    if (HasNumber(lock, wait.lock)) return Printable(LockNameOf(profile_, locks_, lock, &plumbing_));
  }
  return wait.address == 0 ? "several futexes" : fmt::format("0x{:x}", wait.address);
}

std::string StuckWords::LockClass(const record::Wait& wait) const {
  for (const LockList::Lock& lock : locks_.locks) {
    if (HasNumber(lock, wait.lock)) return Printable(LockClassOf(profile_, locks_, lock, &plumbing_));
  }
  return "";
}

bool StuckWords::HasOwnName(const record::Wait& wait) const {
  return std::any_of(locks_.locks.begin(), locks_.locks.end(), [&](const LockList::Lock& lock) {
    return HasNumber(lock, wait.lock) && !lock.name.empty() && !IsNameless(lock.name);
  });
}

std::string StuckWords::WaitTarget(const record::Wait& wait) const {
  return wait.kind == "join" ? LockName(wait) : fmt::format("{} {}", Printable(wait.kind), LockName(wait));
}

std::string StuckWords::Calls(uint32_t stack) const {
  if (!folds_) return Way(stack);
  return stack == 0 ? "" : Printable(CallsText(profile_, list_.StackAt(stack), &plumbing_));
}

std::string StuckWords::Way(uint32_t stack) const {
  return stack == 0 ? "" : Printable(WayText(profile_, list_.StackAt(stack), folds_ ? &plumbing_ : nullptr));
}

std::vector<std::string> StuckWords::CallNames(uint32_t stack) const {
  if (stack == 0) return {};
  std::vector<std::string> names = FewCalls(profile_, list_.StackAt(stack), &plumbing_);
  for (std::string& name : names) name = Printable(name);
  return names;
}

std::vector<std::string> StuckWords::Functions(uint32_t stack) const {
  return stack == 0 ? std::vector<std::string>() : FunctionsOf(profile_, list_.StackAt(stack));
}

size_t StuckWords::FunctionCount(uint32_t stack) const {
  return stack == 0 ? 0 : OwnFunctions(profile_, list_.StackAt(stack), &plumbing_);
}

std::string StuckWords::HolderText(const record::Wait& wait) const {
  const std::string died = wait.owner_died ? " (its previous owner died, and no thread has made it consistent)" : "";
  if (wait.source == record::HolderSource::kFree) return "not held at this moment" + died;
  if (wait.source == record::HolderSource::kReaders) {
    return wait.readers == 1 ? "held by 1 reader; the lock does not record which"
                             : fmt::format("held by {} readers; the lock does not record which", wait.readers);
  }
  if (wait.holder == 0) {
    if (wait.kind == "futex" || wait.kind == "spin" || wait.kind == "custom")
      return "the lock does not record its holder";
    // It cannot be read, or, with musl, does not record its holder either.
    return wait.kind == "mutex" || wait.kind.starts_with("rwlock") ? "its holder is not known" : "";
  }
  std::string text =
      wait.kind == "join" ? fmt::format("that thread {}", DoingText(wait.holder, 0))
      : wait.source == record::HolderSource::kLast
          ? fmt::format(
                "the lock does not record its holder; the last thread that acquired it after a wait is {}, which {}",
                ThreadName(wait.holder), DoingText(wait.holder, 0))
          : fmt::format("held by {}{}, which {}", ThreadName(wait.holder),
                        wait.source == record::HolderSource::kStart ? " when the wait began" : "",
                        DoingText(wait.holder, 0));
  return text + died;
}

std::string StuckWords::HolderCalls(const record::Wait& wait) const {
  if (wait.holder == 0) return "";
  const record::WaitingThread& holder = list_.ThreadAt(wait.holder);
  return Calls(list_.IsWaiting(wait.holder) ? list_.WaitOf(wait.holder).stack : holder.stack);
}

// Describes what a holder does; if it waits, for which holder, and so on.
std::string StuckWords::DoingText(uint32_t thread, int depth) const {
  const record::WaitingThread& it = list_.ThreadAt(thread);
  if (it.gone) return "has exited: nobody will release it";
  if (!list_.IsWaiting(thread)) {
    const std::string calls = Calls(it.stack);
    const std::string does = it.does.empty() ? "does not wait for a lock" : Printable(it.does);
    return calls.empty() ? does : fmt::format("{}: {}", does, calls);
  }
  const record::Wait& wait = list_.WaitOf(thread);
  const std::string calls = Calls(wait.stack);
  std::string text = fmt::format("waits for {}{}{}", WaitTarget(wait), calls.empty() ? "" : ": ", calls);
  if (wait.holder == 0 || wait.holder == thread || depth >= kLongestChain) return text;
  if (IsInDeadlock(thread)) return text + " (in the deadlock)";
  if (IsInPassingCircle(thread)) return text + " (in the circle)";
  if (wait.source == record::HolderSource::kLast) return text;
  const std::string holder = wait.kind == "join" ? "which" : fmt::format("held by {}, which", ThreadName(wait.holder));
  return fmt::format("{}; {} {}", text, holder, DoingText(wait.holder, depth + 1));
}

std::string StuckWords::HowKnown(const record::Wait& wait) const {
  switch (wait.source) {
    case record::HolderSource::kNow:
      return "yes";
    case record::HolderSource::kStart:
      return "when the wait began";
    case record::HolderSource::kLast:
      return "last to get it";
    case record::HolderSource::kReaders:
      return "readers";
    case record::HolderSource::kFree:
      return "free";
    default:
      return "no";
  }
}

WaitRank StuckWords::RankOf(const record::Wait& wait) const {
  // A futex with one waiter is much more often an event than a lock.
  const bool is_lock =
      wait.kind != "futex" || ((wait.holder != 0 || waiters_.at({wait.kind, wait.address}) > 1) &&
                               !(wait.stack != 0 && WaitsForAnEvent(profile_, list_.StackAt(wait.stack))));
  if (!IsUnheldKind(wait.kind) && is_lock) return IsParked(wait) ? WaitRank::kIdle : WaitRank::kLock;
  // A thread that blocks others is not idle.
  if (wait.stack == 0 || holders_.contains(wait.thread)) return WaitRank::kEvent;
  const bool is_known = wait.thread != 0;
  const bool since_start = is_known && list_.ThreadAt(wait.thread).since_start;
  const WaitRank rank = RankOfUnheld(profile_, list_.StackAt(wait.stack), since_start, &plumbing_);
  const bool is_runtimes = is_known && IsRuntimeThread(list_.ThreadAt(wait.thread).name);
  return rank == WaitRank::kEvent && is_runtimes ? WaitRank::kIdle : rank;
}

bool StuckWords::IsParked(const record::Wait& wait) const {
  if (wait.kind != "mutex" || wait.holder == 0 || wait.stack == 0) return false;
  if (waiters_.at({wait.kind, wait.address}) > 1 || holders_.contains(wait.thread)) return false;
  const record::WaitingThread& holder = list_.ThreadAt(wait.holder);
  // main's stack may be truncated when it is read from outside.
  const bool is_idle = !holder.gone && !list_.IsWaiting(wait.holder) && holder.stack != 0 &&
                       FunctionCount(holder.stack) <= kLoopFunctions && holder.polls;
  return is_idle && IsInOwnLoop(profile_, list_.StackAt(wait.stack), false, &plumbing_);
}

bool StuckWords::IsInLoop(const record::WaitingThread& thread) const {
  return thread.stack != 0 && IsInOwnLoop(profile_, list_.StackAt(thread.stack), false, &plumbing_);
}

bool StuckWords::IsOther(uint32_t thread) const {
  return !list_.IsWaiting(thread) && !list_.ThreadAt(thread).does.empty() && !holders_.contains(thread);
}

int64_t StuckWords::SinceNs(const std::vector<uint32_t>& circle) const {
  int64_t since_ns = INT64_MAX;
  for (const uint32_t thread : circle) since_ns = std::min(since_ns, list_.WaitOf(thread).delay_ns);
  return since_ns;
}

bool StuckWords::IsInDeadlock(uint32_t thread) const { return IsInAny(list_.deadlocks, thread); }

bool StuckWords::IsInPassingCircle(uint32_t thread) const { return IsInAny(passing_circles_, thread); }

}  // namespace holdfast
