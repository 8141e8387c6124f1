// Reads which threads waited when a snapshot was taken, and for which holders, from a profile's records (message Waits of
// proto/holdfast.proto).
//
// A file may contain anything: numbers that are out of range become kUnknown.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCKS_WAITING_LIST_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCKS_WAITING_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "report/profile/profile.h"
#include "report/profile/typed_records.h"

namespace holdfast {

struct WaitingList {
  static constexpr int kUnknown = -1;

  struct Thread {
    int64_t tid = 0;
    int number = 0;            // 1 is main; 0: unknown
    bool gone = false;         // the thread has ended and still holds a lock
    bool since_start = false;  // since the thread was created it has waited for something without a holder
    std::string name;
    std::string labels;    // its own labels: "kind=write, tenant=acme"
    std::string does;      // for a thread that does not wait
    bool polls = false;    // such a thread sleeps in a system call that waits for events
    int stack = kUnknown;  // for a thread that does not wait, index into `stacks`
    int wait = kUnknown;   // index into `waits`: the current wait
  };
  struct Wait {
    int thread = kUnknown;
    std::string kind, address;
    int lock = kUnknown;   // number in the file: LockList::Lock::number
    int64_t delay_ns = 0;  // sum of all slices if it waits in slices
    int stack = kUnknown;
    int holder = kUnknown;  // thread index
    record::HolderSource source = record::HolderSource::kNotKept;
    int64_t readers = 0;
    bool owner_died = false;
  };
  int64_t total = 0, not_written = 0;
  std::vector<Thread> threads;
  std::vector<Wait> waits;
  std::vector<std::vector<int>> deadlocks;    // cycles of threads, each waiting for the next
  std::vector<std::vector<uint32_t>> stacks;  // indices into profile.locations, leaf first
  std::string unknown;                        // why the process could not be inspected
};

WaitingList ReadWaitingList(const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCKS_WAITING_LIST_H_
