#include "report/observe/outside/look_at_waits.h"

#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "report/base/libc_names.h"
#include "report/observe/memory/libc_mappings.h"
#include "report/observe/memory/mappings.h"
#include "report/observe/outside/modules_of_process.h"
#include "report/observe/outside/outside_stack.h"
#include "report/observe/table/ongoing_reader.h"
#include "report/observe/table/thread_status.h"
#include "sampler/contract/lock_words.h"

namespace holdfast {
namespace {

bool SaysWhoHolds(WaitKind kind) { return kind == WaitKind::kMutex || IsRwlock(kind); }

// Returns the id of the thread with a control block (glibc's struct pthread) that contains `address`; 0: none. A block
// begins with its own address, contains it a second time, and has the id at the same offset in all tested versions,
// 2.36 to 2.43.
uint32_t ThreadOfBlock(const ProcessMemory& memory, uint64_t address) {
  constexpr uint64_t kLargestBlock = 4096, kAlignment = 64, kSelf = 0x10, kId = 0x2d0;
  const uint64_t highest = address / kAlignment * kAlignment;
  for (uint64_t block = highest; block + kLargestBlock > highest && block <= highest; block -= kAlignment) {
    uint64_t head[3];
    if (!memory.Read(block, head, sizeof head)) return 0;
    if (head[0] != block || head[kSelf / sizeof(uint64_t)] != block) continue;
    uint32_t id = 0;
    return memory.Read(block + kId, &id, sizeof id) ? id : 0;
  }
  return 0;
}

// Returns the id of the thread that a call of futex(2) in pthread_join waits for; 0: not known. The call waits for a
// word of that thread's control block to change: the id, or since glibc 2.43 and musl 1.1.20 a small number for the
// thread's state, which is also a valid id in a pid namespace.
uint32_t ThreadJoinedBy(const ProcessMemory& memory, const BlockedCall& call, bool is_musl) {
  constexpr uint64_t kIdToState = 8, kLargestState = 8;
  if (is_musl) {  // int tid, errno_val, detach_state
    if (call.arguments[2] > kLargestState) return static_cast<uint32_t>(call.arguments[2]);
    uint32_t id = 0;
    return memory.Read(call.arguments[0] - kIdToState, &id, sizeof id) ? id : 0;
  }
  if (const uint32_t id = ThreadOfBlock(memory, call.arguments[0]); id != 0) return id;
  // arm64's blocks do not contain their own address.
  return call.arguments[2] > kLargestState ? static_cast<uint32_t>(call.arguments[2]) : 0;
}

enum class Timeout { kUnknown, kAbsent, kSet };

// Returns whether the system call in which a thread sleeps ends that wait by a timeout.
Timeout TimeoutOf(const BlockedCall& call, const OngoingWaitInfo& wait) {
  // The kernel resumes a futex wait under this number after a stop, only if the wait has a timeout.
  if (call.number == SYS_restart_syscall) return Timeout::kSet;
  const bool is_its_futex = wait.kind == WaitKind::kJoin || call.arguments[0] - wait.lock < kLockBytes;
  if (call.number != SYS_futex || !is_its_futex) return Timeout::kUnknown;
  return call.arguments[3] != 0 ? Timeout::kSet : Timeout::kAbsent;
}

class Look {
 public:
  Look(const TableFile& table, const std::vector<LastGotInfo>& last_got, WaitGraph* state)
      : table_(table), last_got_(last_got), state_(*state) {}

  void Run(size_t others, int64_t now_ns) {
    const TableOwner& owner = table_.owner();
    pid_ = table_.liveness() == Liveness::kDead ? std::nullopt : FindProcess(owner);
    if (pid_.has_value()) memory_.emplace(*pid_);
    if (memory_.has_value() && memory_->is_denied()) {
      state_.unknown = WhyUnreadable(LookRightsFor(*pid_), *pid_, "stuck");
    }
    if (memory_.has_value()) is_musl_ = IsOfMusl();
    if (pid_.has_value()) alive_ = ThreadsOf(*pid_, !owner.IsOfOurNamespace());
    for (size_t i = 0; i < alive_.size(); ++i) place_.emplace(alive_[i].second, i);
    if (!alive_.empty()) {
      std::erase_if(state_.ongoing, [this](const OngoingWaitInfo& wait) {
        return wait.thread_id != 0 && !place_.contains(wait.thread_id);
      });
    }
    ReadLocksOnce();
    for (uint32_t i = 0; i < state_.ongoing.size(); ++i) AddWaiter(i);
    for (OngoingWaitInfo& wait : state_.ongoing) FindHolder(&wait);
    CountWaitersOfLocks(state_.ongoing, now_ns,
                        &state_.locks);  // some wait for another lock than recorded, or are gone
    FindDeadlocks();
    for (const auto& [thread, id] : alive_) {
      if (others == 0) break;
      if (index_.contains(id)) continue;
      Thread(id);
      --others;
    }
    for (ThreadInfo& thread : state_.threads) {
      thread.since_start = WaitsSinceStart(thread);
      Describe(&thread);
    }
  }

 private:
  uint32_t Thread(uint32_t id) {
    const auto [found, added] = index_.emplace(id, static_cast<uint32_t>(state_.threads.size()));
    if (!added && id != 0) return found->second;
    ThreadInfo thread;
    thread.id = id;
    if (const auto place = place_.find(id); place != place_.end()) {
      thread.number = static_cast<uint32_t>(place->second + 1);
      thread.name = ThreadName(*pid_, alive_[place->second].first);
    } else if (!alive_.empty() && id != 0) {
      thread.gone = !IsOfAnotherProcess(id);
      if (!thread.gone) thread.doing = "is a thread of another process";
    }
    state_.threads.push_back(std::move(thread));
    return static_cast<uint32_t>(state_.threads.size() - 1);
  }

  // A lock that was copied by fork while it was held names a thread of the parent. Ids of other pid namespaces say nothing
  // here.
  bool IsOfAnotherProcess(uint32_t id) const {
    return table_.owner().IsOfOurNamespace() &&
           !ReadOfThread(static_cast<pid_t>(id), static_cast<pid_t>(id), "comm").empty();
  }

  // Keeps the later of two waits of one thread: a signal handler may wait during another wait.
  void AddWaiter(uint32_t index) {
    ThreadInfo& thread = state_.threads[Thread(state_.ongoing[index].thread_id)];
    if (thread.wait == kNoIndex || state_.ongoing[thread.wait].start_ns < state_.ongoing[index].start_ns)
      thread.wait = index;
  }

  std::optional<BlockedCall> CallOf(uint32_t thread_id) const {
    const auto place = place_.find(thread_id);
    return place == place_.end() ? std::nullopt : BlockedCallOf(*pid_, alive_[place->second].first);
  }

  // The table has the C library only if a stack led through it, which musl's stacks rarely do.
  bool IsOfMusl() const {
    const auto is_glibc = [](const ModuleInfo& module) { return IsFileOfGlibc(module.path); };
    if (std::any_of(state_.modules.begin(), state_.modules.end(), is_glibc)) return false;
    const absl::StatusOr<std::vector<MemoryMapping>> mappings = ReadMemoryMap(*pid_);
    return mappings.ok() && UsesMusl(*mappings);
  }

  bool ReadLock(uint64_t address, char (&bytes)[kLockBytes]) {
    // A mutex may be at the end of a page, and it is shorter than a reader-writer lock.
    return memory_.has_value() &&
           (memory_->Read(address, bytes, kLockBytes) || memory_->Read(address, bytes, sizeof(pthread_mutex_t)));
  }

  // Reads the locks until they agree with the waiters. In a convoy a lock changes hands between two reads: a waiter of
  // the snapshot may have got the lock, and would be reported as its own holder.
  void ReadLocksOnce() {
    constexpr int kMaxRounds = 8;
    // A thread that got its lock needs microseconds to record it.
    constexpr absl::Duration kPause = absl::Milliseconds(1);
    for (OngoingWaitInfo& wait : state_.ongoing) {
      if (wait.kind == WaitKind::kCondition && wait.mutex != 0) FindWokenWaiter(&wait);
    }
    if (!memory_.has_value()) return;
    for (int round = 1;; ++round) {
      const bool is_last = round == kMaxRounds;
      states_.clear();
      for (const OngoingWaitInfo& wait : state_.ongoing) ReadState(wait);
      const size_t before = state_.ongoing.size();
      std::erase_if(state_.ongoing,
                    [this](const OngoingWaitInfo& wait) { return table_.OngoingOwnerAt(wait.place) != wait.owner; });
      const absl::flat_hash_set<uint64_t> got = PlacesOfOwners();
      if (is_last) std::erase_if(state_.ongoing, [&](const auto& wait) { return got.contains(wait.place); });
      if (is_last || (got.empty() && before == state_.ongoing.size())) return;
      if (!got.empty()) absl::SleepFor(kPause);
    }
  }

  void ReadState(const OngoingWaitInfo& wait) {
    char bytes[kLockBytes] = {};
    if (SaysWhoHolds(wait.kind) && ReadLock(wait.lock, bytes))
      states_.emplace(wait.place, StateOfLock(wait.kind, bytes, is_musl_));
  }

  // Returns waits of threads that own the lock and do not sleep for it: they are about to record that they got it. A
  // thread that sleeps for its own mutex is deadlocked.
  absl::flat_hash_set<uint64_t> PlacesOfOwners() const {
    absl::flat_hash_set<std::pair<uint64_t, uint32_t>> owned;
    for (const OngoingWaitInfo& wait : state_.ongoing) {
      const auto state = states_.find(wait.place);
      if (state != states_.end() && state->second.owner != 0) owned.emplace(wait.lock, state->second.owner);
    }
    absl::flat_hash_set<uint64_t> places;
    for (const OngoingWaitInfo& wait : state_.ongoing) {
      if (!SaysWhoHolds(wait.kind) || !owned.contains({wait.lock, wait.thread_id})) continue;
      // Check that the same wait is still ongoing after the thread was examined; otherwise the examination saw the next
      // wait.
      if (!SleepsFor(wait) || table_.OngoingOwnerAt(wait.place) != wait.owner) places.insert(wait.place);
    }
    return places;
  }

  bool SleepsFor(const OngoingWaitInfo& wait) const {
    const std::optional<BlockedCall> call = CallOf(wait.thread_id);
    return call.has_value() && call->number == SYS_futex && call->arguments[0] - wait.lock < kLockBytes;
  }

  void FindHolder(OngoingWaitInfo* wait) {
    if (wait->kind == WaitKind::kJoin) return FindJoined(wait);
    if (!SaysWhoHolds(wait->kind)) return FindLast(wait);
    if (const auto found = states_.find(wait->place); found != states_.end()) {
      const LockState& state = found->second;
      wait->owner_died = state.owner_died;
      wait->readers = state.readers;
      wait->source = state.owner != 0           ? OngoingWaitInfo::kNow
                     : state.is_held_by_unknown ? OngoingWaitInfo::kNotKept
                     : state.readers != 0       ? OngoingWaitInfo::kReaders
                                                : OngoingWaitInfo::kFree;
      if (state.owner != 0) wait->holder = Thread(state.owner);
    } else if (wait->noted_holder != 0) {
      wait->source = OngoingWaitInfo::kAtStart;
      wait->holder = Thread(wait->noted_holder);
    }
  }

  // The waiter was signalled and is still in the same call: it sleeps for the mutex. musl's futex is its second word.
  void FindWokenWaiter(OngoingWaitInfo* wait) const {
    const std::optional<BlockedCall> call = CallOf(wait->thread_id);
    if (!call.has_value() || call->number != SYS_futex || call->arguments[0] - wait->mutex >= sizeof(pthread_mutex_t))
      return;
    wait->kind = WaitKind::kMutex;
    wait->lock = wait->mutex;
  }

  void FindJoined(OngoingWaitInfo* wait) {
    const std::optional<BlockedCall> call = CallOf(wait->thread_id);
    if (!call.has_value() || call->number != SYS_futex || !memory_.has_value()) return;
    const uint32_t id = ThreadJoinedBy(*memory_, *call, is_musl_);
    if (!place_.contains(id)) return;
    wait->holder = Thread(id);
    wait->source = OngoingWaitInfo::kNow;
  }

  void FindLast(OngoingWaitInfo* wait) {
    // Things that are woken have no holder, except futexes, which may be locks.
    if (wait->lock == 0 || !KeepsNoHolder(wait->kind)) return;
    const LastGotInfo* last = nullptr;
    for (const LastGotInfo& got : last_got_) {
      if (got.lock == wait->lock && (last == nullptr || got.end_ns > last->end_ns)) last = &got;
    }
    // A thread that got the lock last and now waits for it does not hold it.
    if (last == nullptr || last->thread_id == wait->thread_id) return;
    if (!alive_.empty() && !place_.contains(last->thread_id)) return;
    wait->holder = Thread(last->thread_id);
    wait->source = OngoingWaitInfo::kLastGot;
  }

  // Returns whether the holder is certain: the lock names it while all these threads sleep. If the process cannot be
  // inspected, the last recorded holder counts.
  bool IsSure(const OngoingWaitInfo& wait) const {
    return wait.source == OngoingWaitInfo::kNow || wait.source == OngoingWaitInfo::kAtStart;
  }

  // Returns the system call in which a thread sleeps for this wait; nothing if it cannot be read, or the wait is over.
  std::optional<BlockedCall> CallOfWait(const OngoingWaitInfo& wait) const {
    constexpr int kMaxRounds = 8;
    constexpr absl::Duration kPause = absl::Milliseconds(1);  // the thread is about to sleep, or to return
    for (int round = 1; pid_.has_value() && round <= kMaxRounds; ++round) {
      const std::optional<BlockedCall> call = CallOf(wait.thread_id);
      if (table_.OngoingOwnerAt(wait.place) != wait.owner) return std::nullopt;
      if (call.has_value() && TimeoutOf(*call, wait) != Timeout::kUnknown) return call;
      absl::SleepFor(kPause);
    }
    return std::nullopt;
  }

  void FindDeadlocks() {
    std::vector<uint32_t> waits_for(state_.threads.size(), kNoIndex);
    for (size_t i = 0; i < waits_for.size(); ++i) {
      const uint32_t wait = state_.threads[i].wait;
      if (wait != kNoIndex && IsSure(state_.ongoing[wait])) waits_for[i] = state_.ongoing[wait].holder;
    }
    for (std::vector<uint32_t>& circle : CirclesOf(waits_for)) {
      // If the system call cannot be read, it is not known whether the wait has a timeout. The views say so.
      const bool is_deadlock = std::all_of(circle.begin(), circle.end(), [this](uint32_t thread) {
        const OngoingWaitInfo& wait = WaitOf(thread);
        const std::optional<BlockedCall> call = CallOfWait(wait);
        return (!call.has_value() || TimeoutOf(*call, wait) != Timeout::kSet) &&
               table_.OngoingOwnerAt(wait.place) == wait.owner;
      });
      if (!is_deadlock) continue;
      const auto is_older = [this](uint32_t a, uint32_t b) {
        return state_.threads[a].number < state_.threads[b].number;
      };
      std::rotate(circle.begin(), std::min_element(circle.begin(), circle.end(), is_older), circle.end());
      state_.deadlocks.push_back(std::move(circle));
    }
    FindLocksNobodyReleases();
  }

  const OngoingWaitInfo& WaitOf(uint32_t thread) const { return state_.ongoing[state_.threads[thread].wait]; }

  // Adds the longest wait for each lock with an owner that is no thread of this process.
  void FindLocksNobodyReleases() {
    absl::flat_hash_map<uint64_t, uint32_t> longest;  // by lock
    for (uint32_t i = 0; i < state_.threads.size(); ++i) {
      if (state_.threads[i].wait == kNoIndex) continue;
      const OngoingWaitInfo& wait = WaitOf(i);
      if (!SaysWhoHolds(wait.kind) || wait.source != OngoingWaitInfo::kNow || wait.holder == kNoIndex) continue;
      if (place_.contains(state_.threads[wait.holder].id)) continue;
      const auto [place, added] = longest.emplace(wait.lock, i);
      if (!added && wait.start_ns < WaitOf(place->second).start_ns) place->second = i;
    }
    if (longest.empty()) return;
    // A thread may have been created, and may have got the lock, after the threads were listed.
    absl::flat_hash_set<uint32_t> alive;
    for (const auto& [thread, id] : ThreadsOf(*pid_, !table_.owner().IsOfOurNamespace())) alive.insert(id);
    for (const auto& [lock, thread] : longest) {
      const OngoingWaitInfo& wait = WaitOf(thread);
      const uint32_t owner = state_.threads[wait.holder].id;
      char bytes[kLockBytes] = {};
      if (alive.contains(owner) || !ReadLock(lock, bytes) || StateOfLock(wait.kind, bytes, is_musl_).owner != owner)
        continue;
      // Other processes may release a lock in memory that they share; robust mutexes count as such.
      const std::optional<BlockedCall> call = CallOfWait(wait);
      if (!call.has_value() || TimeoutOf(*call, wait) != Timeout::kAbsent ||
          (call->arguments[1] & FUTEX_PRIVATE_FLAG) == 0)
        continue;
      state_.deadlocks.push_back({thread});
    }
  }

  // Only determines whether the thread is idle (report/analysis/locks/wait_rank.h).
  bool WaitsSinceStart(const ThreadInfo& thread) const {
    constexpr int64_t kSoon = 100'000'000;  // ns; /proc has hundredths of a second
    const auto place = place_.find(thread.id);
    if (thread.wait == kNoIndex || place == place_.end()) return false;
    const OngoingWaitInfo& wait = state_.ongoing[thread.wait];
    if (SaysWhoHolds(wait.kind) || wait.kind == WaitKind::kSpin) return false;
    const std::optional<int64_t> began = ThreadBegan(*pid_, alive_[place->second].first);
    return began.has_value() && wait.since_ns - *began < kSoon;
  }

  void Describe(ThreadInfo* thread) {
    const auto place = place_.find(thread->id);
    if (thread->wait != kNoIndex || place == place_.end()) return;
    const pid_t id = alive_[place->second].first;
    const std::optional<BlockedCall> call = BlockedCallOf(*pid_, id);
    ThreadActivity activity = ThreadActivityOf(*pid_, id, call);
    thread->doing = std::move(activity.text);
    thread->polls = activity.polls;
    if (!call.has_value()) return;
    if (!std::exchange(knows_modules_, true)) AddModulesOf(*pid_, *memory_, &state_.modules);
    StackInfo stack = stacks_.Walk(*memory_, state_.modules, call->pc, call->sp);
    if (stack.frames.empty()) return;
    thread->stack = state_.AddStack(std::move(stack));
  }

  const TableFile& table_;
  const std::vector<LastGotInfo>& last_got_;
  WaitGraph& state_;
  bool is_musl_ = false;
  std::optional<pid_t> pid_;
  std::optional<ProcessMemory> memory_;
  std::vector<std::pair<pid_t, uint32_t>> alive_;    // by age: ids as we see them, and as the process sees them
  absl::flat_hash_map<uint32_t, size_t> place_;      // id as the process sees it → index into alive_
  absl::flat_hash_map<uint32_t, uint32_t> index_;    // → WaitGraph::threads
  absl::flat_hash_map<uint64_t, LockState> states_;  // by the place of a wait: the state of its lock
  OutsideStacks stacks_;
  bool knows_modules_ = false;
};

}  // namespace

LockState StateOfLock(WaitKind kind, const char (&bytes)[kLockBytes], bool is_musl) {
  LockState state;
  if (is_musl && IsRwlock(kind)) {
    MuslRwlock lock;
    memcpy(&lock, bytes, sizeof lock);
    state.readers = lock.Readers();
    state.is_held_by_unknown = lock.HasWriter();
    return state;
  }
  if (is_musl) {
    MuslMutex mutex;
    memcpy(&mutex, bytes, sizeof mutex);
    state.owner = mutex.Owner();
    state.owner_died = (mutex.lock & MuslMutex::kOwnerDied) != 0;
    state.is_held_by_unknown = state.owner == 0 && !mutex.IsFree();
    return state;
  }
  if (IsRwlock(kind)) {
    pthread_rwlock_t lock;
    memcpy(&lock, bytes, sizeof lock);
    constexpr int kReaderShift = 3;
    constexpr uint32_t kWriterHolds = 3;  // the phase of writers, and a writer in it
    state.owner = static_cast<uint32_t>(lock.__data.__cur_writer);
    state.is_held_by_unknown = state.owner == 0 && (lock.__data.__readers & kWriterHolds) == kWriterHolds;
    state.readers = state.owner != 0 || state.is_held_by_unknown ? 0 : lock.__data.__readers >> kReaderShift;
    return state;
  }
  pthread_mutex_t mutex;
  memcpy(&mutex, bytes, sizeof mutex);
  constexpr int kRobust = 0x10, kInherits = 0x20;
  constexpr uint32_t kPriorityCeiling = 0xfff80000;  // of a mutex that protects priorities, also while it is free
  const auto word = static_cast<uint32_t>(mutex.__data.__lock);
  if ((mutex.__data.__kind & (kRobust | kInherits)) == 0) {
    const bool is_held = (word & ~kPriorityCeiling) != 0;
    state.owner = is_held ? static_cast<uint32_t>(mutex.__data.__owner) : 0;
    state.is_held_by_unknown = is_held && state.owner == 0;
    return state;
  }
  state.owner = word & FUTEX_TID_MASK;
  // glibc writes this number, which is no thread's id, until the new owner marks the mutex as consistent.
  constexpr int kInconsistent = 0x7fffffff;
  state.owner_died = (word & FUTEX_OWNER_DIED) != 0 || mutex.__data.__owner >= kInconsistent - 1;
  return state;
}

std::vector<std::vector<uint32_t>> CirclesOf(const std::vector<uint32_t>& waits_for) {
  std::vector<std::vector<uint32_t>> circles;
  std::vector<uint32_t> seen(waits_for.size(), kNoIndex);  // the start of the walk that reached each thread
  for (uint32_t start = 0; start < waits_for.size(); ++start) {
    uint32_t at = start;
    while (at != kNoIndex && seen[at] == kNoIndex) {
      seen[at] = start;
      at = waits_for[at];
    }
    if (at == kNoIndex || seen[at] != start) continue;
    std::vector<uint32_t> circle = {at};
    for (uint32_t next = waits_for[at]; next != at; next = waits_for[next]) circle.push_back(next);
    circles.push_back(std::move(circle));
  }
  return circles;
}

void LookAtWaits(const TableFile& table, const TableSnapshot& snapshot, size_t others, WaitGraph* state) {
  if (!state->ongoing.empty() || others > 0) Look(table, snapshot.last_got, state).Run(others, snapshot.monotonic_ns);
  FindLocksOnStacks(table, state);
  if (!snapshot.lock_intervals.empty() && snapshot.lock_intervals.back().interval != 0) FindUnseenWaits(table, state);
}

}  // namespace holdfast
