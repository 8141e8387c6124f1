// Single locks of a profile, and who waited for whom: what report/export/lock_comments.h describes, read back.
//
// Comments of a file may be anything: a line that does not have its form is passed over.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCK_LIST_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCK_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "report/pprof/profile.h"

namespace holdfast {

struct LockList {
  static constexpr int kUnknown = -1;

  struct Lock {
    int number = 0;  // in the file
    std::string kind, address;
    int64_t contentions = 0, delay_ns = 0, longest_ns = 0;
    int64_t holds = 0, hold_ns = 0;
    std::string name;  // of a symbol, "" if none
    int64_t block_bytes = 0, block_offset = 0;
    int block_stack = kUnknown;
  };
  struct Pair {
    int lock = 0;                              // number
    int holder = kUnknown, waiter = kUnknown;  // stacks
    double contentions = 0, delay_ns = 0;
  };
  std::vector<Lock> locks;  // the longest delay first; last what nobody holds
  std::vector<Pair> pairs;
  std::vector<std::vector<uint32_t>> stacks;  // by number; indices into profile.locations, leaf first
};

LockList ReadLockList(const Profile& profile);

// The function that says most about a stack: the innermost one of the program's own file, else the leaf; "?" without
// one.
std::string FunctionOf(const Profile& profile, const std::vector<uint32_t>& stack);
// All functions of a stack, leaf first.
std::vector<std::string> FunctionsOf(const Profile& profile, const std::vector<uint32_t>& stack);

// The function that most of a lock's delay was attributed to, or that waited most for it; "-": not known.
enum class LockSide { kHolder, kWaiter };
std::string TopFunctionOf(const Profile& profile, const LockList& list, int lock, LockSide side);

// "rwlock" of "rwlock:read": a lock has one kind, its waits may have several.
std::string LockKindOf(const LockList::Lock& lock);
// A condition, a semaphore …: what nobody holds, and idle threads wait for.
bool IsHeldByNobody(const LockList::Lock& lock);

// "queue_mutex (server)", "16 into a block of 64 B from make_queue", else the address.
std::string LockNameOf(const Profile& profile, const LockList& list, const LockList::Lock& lock);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCK_LIST_H_
