// Reads the single locks of a profile, and their holders and waiters, from its records (message Locks of
// proto/holdfast.proto).
//
// A file may contain anything: numbers that are out of range become kUnknown.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_LIST_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_LIST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/locks/wait_rank.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/profile/profile.h"
#include "report/profile/time_counts.h"

namespace holdfast {

struct LockList {
  static constexpr int kUnknown = -1;

  // By the label `holder_state`: how long threads waited while the holder did this; "": not known.
  using HolderStates = std::map<std::string, int64_t>;
  struct Lock {
    int number = 0;  // in the file
    std::string kind, address;
    uint64_t address_value = 0;
    int64_t contentions = 0, delay_ns = 0, longest_ns = 0;
    // Only holds during which a thread waited. Three threads that wait during a hold of 10 ms: hold_ns 30 ms, held_ns
    // 10 ms.
    int64_t holds = 0, hold_ns = 0;            // hold_ns: the waiting charged to the holds, all waiters added up
    int64_t held_ns = 0, longest_held_ns = 0;  // how long the lock was held while at least one thread waited
    int64_t alone_ns = 0;                      // the part of held_ns with only one reader
    TimeCounts wait_times, hold_times;
    int64_t waiting = 0, waiting_ns = 0,
            longest_waiting_ns = 0;  // threads that waited at the snapshot, and for how long so far
    std::string name;                // from a symbol, or its address in `file`; "" = none
    std::string file;                // which contains the lock, if no symbol does
    uint64_t file_address = 0;
    int64_t block_bytes = 0, block_offset = 0;  // the block that contains the lock; 0 bytes: the frame of a function
    int block_stack = kUnknown;
    int64_t thread_offset = 0;  // a thread-local variable: distance below the thread's control block; 0: none
    std::string member;         // the block's class member, "Server::mutex_ (server)"; "" if unknown
    WaitRank rank = WaitRank::kLock;
    // For a class (report/analysis/locks/lock_classes.h): number of locks, delay of the hottest one, and what they have in
    // common.
    int locks = 1;
    int64_t hottest_ns = 0;
    std::string class_name;
    // From other profiles (report/analysis/locks/lock_costs.h): CPU time in the calls that lock and unlock it, and what its
    // holder does. Nothing: not known.
    std::optional<int64_t> call_cpu_ns = {};
    HolderStates holder_does = {};
    bool lacks_holders = false;  // the file has this sum of locks without their addresses

    // Returns the total waiting time: finished waits and those in progress.
    int64_t all_delay_ns() const;
    bool is_in_block() const { return block_stack != kUnknown && block_bytes != 0; }
    bool is_in_frame() const { return block_stack != kUnknown && block_bytes == 0; }
  };
  struct Pair {
    int lock = 0;                              // its number
    int holder = kUnknown, waiter = kUnknown;  // indices of stacks
    double contentions = 0, delay_ns = 0;
  };
  std::vector<Lock> locks;  // longest delay first; idle waits last
  std::vector<Pair> pairs;
  std::vector<std::vector<uint32_t>> stacks;  // by number; indices into profile.locations, leaf first
  // Estimated durations of waits or holds at a stack, for all locks of one kind.
  struct Site {
    int stack = kUnknown;
    std::string kind;
    bool is_holder = false;
    int64_t longest_ns = 0;
    TimeCounts times;
    // For readers that release waiters: the delay of their holds, and the part with only one reader.
    int64_t delay_ns = 0, alone_ns = 0;
  };
  std::vector<Site> sites;
  // Waits in progress at the snapshot with known stacks.
  struct Waiter {
    int lock = 0;                 // its number
    std::vector<uint32_t> stack;  // indices into profile.locations, leaf first
    int64_t delay_ns = 0;
  };
  std::vector<Waiter> waiters;
};

// Totals of all waits in a block profile's process, including locks that are not listed. If the file does not have
// them: the sums of the list.
struct WaitTotals {
  int64_t contentions = 0, delay_ns = 0;  // finished waits
  int64_t waiting = 0, waiting_ns = 0;    // in progress at the snapshot, so far

  // Takes other totals, or a lock.
  template <typename Counted>
  void Add(const Counted& counted) {
    contentions = WrappedSum(contentions, counted.contentions);
    delay_ns = WrappedSum(delay_ns, counted.delay_ns);
    waiting = WrappedSum(waiting, counted.waiting);
    waiting_ns = WrappedSum(waiting_ns, counted.waiting_ns);
  }
};
WaitTotals WaitTotalsOf(const Profile& profile, const LockList& list);

// Returns the locks in order of RankOf; locks of one rank keep the file's order. Without lock records in the profile there
// are no locks; without a list of waiting threads no waiters. Never fails. `plumbing` decides which function a stack
// belongs to, for the ranks; null: without patterns of the user. One thread at a time for each profile and Plumbing, because
// Plumbing keeps what it has found out.
LockList ReadLockList(const Profile& profile, Plumbing* plumbing);

// Returns the most informative function of a stack: the first that is not plumbing (report/analysis/profiles/plumbing.h); the
// leaf's if `plumbing` is null; "?" if there is none.
std::string FunctionOf(const Profile& profile, std::span<const uint32_t> stack, Plumbing* plumbing);
// The same, but returns nothing for code without a name and if all is plumbing: equal names mean one function.
std::optional<std::string> NamedFunctionOf(const Profile& profile, std::span<const uint32_t> stack, Plumbing* plumbing);
// Returns all functions of a stack, leaf first.
std::vector<std::string> FunctionsOf(const Profile& profile, const std::vector<uint32_t>& stack);

enum class LockSide { kHolder, kWaiter };
// Returns the function to which most of a lock's delay is attributed, or that waited longest; "-": unknown. `lock`: its
// number in the file.
std::string TopFunctionOf(const Profile& profile, const LockList& list, int lock, LockSide side, Plumbing* plumbing);

// Durations of a function's waits or holds for locks of one kind, at the call sites that concern one lock.
struct SiteLengths {
  TimeCounts times;
  int64_t longest_ns = 0;
  int64_t delay_ns = 0, alone_ns = 0;  // as in LockList::Site
};
SiteLengths LengthsAtSites(const Profile& profile, const LockList& list, const LockList::Lock& lock, LockSide side,
                           const std::string& function, Plumbing* plumbing);

// Returns "rwlock" for "rwlock-read" and "rwlock-write": a lock has one kind, its waits may have several.
std::string LockKindOf(std::string_view wait);
// Returns whether nobody can hold objects of a kind (condition, semaphore, barrier, join …). False for futexes, which may
// be locks.
bool IsUnheldKind(std::string_view kind);
// Ranks a lock (report/analysis/locks/wait_rank.h). What nobody holds ranks after every lock, however long the waits; last
// if all waiters are idle. A futex is a lock if some function both waits for it and wakes it, as functions that lock and
// unlock do; otherwise it is an event, on which a thread parks.
WaitRank RankOf(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing);

// Returns "queue_mutex (server)", "16 into a block of 64 B from make_queue", "Queue::mutex_ (server) in a block from
// make_queue", "48 into the frame of serve", otherwise the address.
std::string LockNameOf(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_LIST_H_
