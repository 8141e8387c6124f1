// Single locks of a profile, and who waited for whom: what report/lock_records/lock_comments.h describes, read back.
//
// Comments of a file may be anything: a line that does not have its form is passed over.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCK_LIST_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCK_LIST_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/wait_rank.h"
#include "report/pprof/profile.h"
#include "report/pprof/time_counts.h"
#include "report/profiles/plumbing.h"

namespace holdfast {

struct LockList {
  static constexpr int kUnknown = -1;

  struct Lock {
    int number = 0;  // in the file
    std::string kind, address;
    int64_t contentions = 0, delay_ns = 0, longest_ns = 0;
    int64_t holds = 0, hold_ns = 0;            // hold_ns: how long others waited during them
    int64_t held_ns = 0, longest_held_ns = 0;  // how long they were, as far as somebody waited
    int64_t alone_ns = 0;                      // of held_ns: the lock had one reader
    TimeCounts wait_times, hold_times;
    int64_t waiting = 0, waiting_ns = 0,
            longest_waiting_ns = 0;             // threads that waited at the snapshot, for how long so far
    std::string name;                           // of a symbol, "" if none
    int64_t block_bytes = 0, block_offset = 0;  // the block that it lies in; of 0 bytes: the frame of a function
    int block_stack = kUnknown;
    int64_t thread_offset = 0;  // a thread-local variable: how far below its thread's own block; 0: none
    std::string member;         // of the class that the block is, "Server::mutex_ (server)"; "" if it is not known
    WaitRank rank = WaitRank::kLock;
    // Of a class (report/analysis/lock_classes.h): how many, how long the hottest of them was waited for, and what they have in common.
    int locks = 1;
    int64_t hottest_ns = 0;
    std::string class_name;

    // All that it was waited for: the waits that ended, and those in progress.
    int64_t all_delay_ns() const;
    bool is_in_block() const { return block_stack != kUnknown && block_bytes != 0; }
    bool is_in_frame() const { return block_stack != kUnknown && block_bytes == 0; }
  };
  struct Pair {
    int lock = 0;                              // number
    int holder = kUnknown, waiter = kUnknown;  // stacks
    double contentions = 0, delay_ns = 0;
  };
  std::vector<Lock> locks;  // the longest delay first; last what is idly waited for
  std::vector<Pair> pairs;
  std::vector<std::vector<uint32_t>> stacks;  // by number; indices into profile.locations, leaf first
  // How long waits and holds were at a stack, of one kind of lock, whichever the lock: estimates.
  struct Site {
    int stack = kUnknown;
    std::string kind;
    bool is_holder = false;
    int64_t longest_ns = 0;
    TimeCounts times;
    // Of readers that let waiters in: the delay of their holds, and for how much of it they were the only reader.
    int64_t delay_ns = 0, alone_ns = 0;
  };
  std::vector<Site> sites;
  // Waits in progress at the snapshot, if their stacks are known.
  struct Waiter {
    int lock = 0;                 // number
    std::vector<uint32_t> stack;  // indices into profile.locations, leaf first
    int64_t delay_ns = 0;
  };
  std::vector<Waiter> waiters;
};

// What all waits of a block profile's process come to, whether or not their locks are listed. Of a file that does not count them, the sums of
// the list.
struct WaitTotals {
  int64_t contentions = 0, delay_ns = 0;  // of waits that ended
  int64_t waiting = 0, waiting_ns = 0;    // in progress at the snapshot, so far
};
WaitTotals WaitTotalsOf(const Profile& profile, const LockList& list);

LockList ReadLockList(const Profile& profile, Plumbing* plumbing);

// The function that says most about a stack: the first that is not plumbing (report/profiles/plumbing.h), the leaf's where
// `plumbing` is null; "?" without one.
std::string FunctionOf(const Profile& profile, std::span<const uint32_t> stack, Plumbing* plumbing);
// All functions of a stack, leaf first.
std::vector<std::string> FunctionsOf(const Profile& profile, const std::vector<uint32_t>& stack);

// The function that most of a lock's delay was attributed to, or that waited most for it; "-": not known.
enum class LockSide { kHolder, kWaiter };
std::string TopFunctionOf(const Profile& profile, const LockList& list, int lock, LockSide side, Plumbing* plumbing);

// How long that function's waits for locks of this lock's kind were, or its holds, at the call sites where it had to do with it.
struct SiteLengths {
  TimeCounts times;
  int64_t longest_ns = 0;
  int64_t delay_ns = 0, alone_ns = 0;  // as in LockList::Site
};
SiteLengths LengthsAtSites(const Profile& profile, const LockList& list, const LockList::Lock& lock, LockSide side,
                           const std::string& function, Plumbing* plumbing);

// "rwlock" of "rwlock:read": a lock has one kind, its waits may have several.
std::string LockKindOf(const LockList::Lock& lock);
// What nobody holds: a condition, a semaphore, a barrier …; and a futex that is an event: no function both waits for it and
// wakes it up, as functions do that lock and unlock. Event futexes are how threads park, one for each. Comes after every
// lock, however long it was waited for, and last where all its waiters are idle (report/analysis/wait_rank.h).
bool IsUnheldKind(std::string_view kind);  // of all of a kind, whatever it is
WaitRank RankOf(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing);

// "queue_mutex (server)", "16 into a block of 64 B from make_queue", "Queue::mutex_ (server) in a block from make_queue",
// "48 into the frame of serve", else the address.
std::string LockNameOf(const Profile& profile, const LockList& list, const LockList::Lock& lock, Plumbing* plumbing);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCK_LIST_H_
