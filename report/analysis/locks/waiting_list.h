// Reads which threads waited when a snapshot was taken, and for which holders, from a profile's records (message Waits of
// proto/holdfast.proto).
//
// Threads, waits and stacks are known by their numbers in the file, from 1; 0: unknown. A file may contain anything:
// numbers that are out of range become 0.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCKS_WAITING_LIST_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCKS_WAITING_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "report/profile/profile.h"
#include "report/profile/typed_records.h"

namespace holdfast {

struct WaitingList {
  int64_t total = 0, not_written = 0;
  std::vector<record::WaitingThread> threads;
  std::vector<record::Wait> waits;
  std::vector<uint32_t> wait_of;                 // for each thread, the number of its current wait
  std::vector<std::vector<uint32_t>> deadlocks;  // cycles of threads, each waiting for the next
  std::vector<std::vector<uint32_t>> stacks;     // indices into profile.locations, leaf first
  std::string unknown;                           // why the process could not be inspected

  // These require a number that is not 0.
  const record::WaitingThread& ThreadAt(uint32_t thread) const { return threads[thread - 1]; }
  const std::vector<uint32_t>& StackAt(uint32_t stack) const { return stacks[stack - 1]; }
  bool IsWaiting(uint32_t thread) const { return wait_of[thread - 1] != 0; }
  const record::Wait& WaitOf(uint32_t thread) const { return waits[wait_of[thread - 1] - 1]; }
};

WaitingList ReadWaitingList(const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCKS_WAITING_LIST_H_
