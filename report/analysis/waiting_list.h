// Who waited when a snapshot was taken, and for whom: what report/lock_records/waiting_comments.h describes, read back.
//
// Comments of a file may be anything: a line that does not have its form is passed over.
#ifndef HOLDFAST_REPORT_ANALYSIS_WAITING_LIST_H_
#define HOLDFAST_REPORT_ANALYSIS_WAITING_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "report/pprof/profile.h"

namespace holdfast {

struct WaitingList {
  static constexpr int kUnknown = -1;

  struct Thread {
    int64_t tid = 0;
    int number = 0;            // 1 is main; 0: not known
    bool gone = false;         // it has ended, and holds all the same
    bool since_start = false;  // it has waited for what nobody holds since it was created
    std::string name;
    std::string labels;    // its own: "kind=write, tenant=acme"
    std::string does;      // of one that does not wait
    int stack = kUnknown;  // then, into `stacks`
    int wait = kUnknown;   // into `waits`: the one that it waits in
  };
  struct Wait {
    int thread = kUnknown;
    std::string kind, address;
    int lock = kUnknown;   // number in the file: LockList::Lock::number
    int64_t delay_ns = 0;  // of all slices, where it waits in slices
    int stack = kUnknown;
    int holder = kUnknown;  // thread
    std::string source;     // how the holder is known: - free now start last readers
    int64_t readers = 0;
    bool owner_died = false;
  };
  int64_t total = 0, not_written = 0;
  std::vector<Thread> threads;
  std::vector<Wait> waits;
  std::vector<std::vector<int>> deadlocks;    // threads, each of which waits for the next
  std::vector<std::vector<uint32_t>> stacks;  // indices into profile.locations, leaf first
  std::string unknown;                        // why nobody could look into the process
};

WaitingList ReadWaitingList(const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_WAITING_LIST_H_
