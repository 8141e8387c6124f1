// Reads the single locks of a profile, and their holders and waiters, from its records (message Locks of
// proto/holdfast.proto).
//
// A file may contain anything: numbers that are out of range become kUnknown.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_LIST_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_LIST_H_

#include <cstdint>
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

  struct Lock {
    int number = 0;  // in the file
    std::string kind, address;
    uint64_t address_value = 0;
    int64_t contentions = 0, delay_ns = 0, longest_ns = 0;
    int64_t holds = 0, hold_ns = 0;            // hold_ns: the time that others waited during these holds
    int64_t held_ns = 0, longest_held_ns = 0;  // duration of holds during which a thread waited
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

LockList ReadLockList(const Profile& profile, Plumbing* plumbing);

// Returns the most informative function of a stack: the first that is not plumbing (report/analysis/profiles/plumbing.h); the
// leaf's if `plumbing` is null; "?" if there is none.
std::string FunctionOf(const Profile& profile, std::span<const uint32_t> stack, Plumbing* plumbing);
// Returns all functions of a stack, leaf first.
std::vector<std::string> FunctionsOf(const Profile& profile, const std::vector<uint32_t>& stack);

// Returns the function to which most of a lock's delay is attributed, or that waited longest; "-": unknown.
enum class LockSide { kHolder, kWaiter };
std::string TopFunctionOf(const Profile& profile, const LockList& list, int lock, LockSide side, Plumbing* plumbing);

// Durations of that function's waits or holds for locks of this kind, at the call sites that concern this lock.
struct SiteLengths {
  TimeCounts times;
  int64_t longest_ns = 0;
  int64_t delay_ns = 0, alone_ns = 0;  // as in LockList::Site
};
SiteLengths LengthsAtSites(const Profile& profile, const LockList& list, const LockList::Lock& lock, LockSide side,
                           const std::string& function, Plumbing* plumbing);

// "rwlock" for "rwlock:read": a lock has one kind, its waits may have several.
std::string LockKindOf(const LockList::Lock& lock);
// IsUnheldKind: nobody holds objects of this kind (condition, semaphore, barrier …). RankOf also recognizes event
// futexes: no function both waits for one and wakes it, as functions that lock and unlock do. Threads park on event
// futexes, one each. Unheld objects rank after every lock, however long the waits; last if all waiters are idle
// (report/analysis/locks/wait_rank.h).
bool IsUnheldKind(std::string_view kind);  // true if all objects of the kind have no holder
WaitRank RankOf(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing);

// "queue_mutex (server)", "16 into a block of 64 B from make_queue", "Queue::mutex_ (server) in a block from
// make_queue", "48 into the frame of serve", otherwise the address.
std::string LockNameOf(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_LIST_H_
