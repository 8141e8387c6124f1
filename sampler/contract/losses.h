// What a profile lacks, and how often: the table's header has a counter for each reason.
#ifndef HOLDFAST_SAMPLER_CONTRACT_LOSSES_H_
#define HOLDFAST_SAMPLER_CONTRACT_LOSSES_H_

#include <cstdint>

namespace holdfast {

// Why something was not recorded, or only in part. Each reason is a counter in the header and a comment in every
// profile. The names are in `kLossNames`, in this order.
enum class Loss : uint8_t {
  kStackTableFull = 0,  // no room for a new stack or row: the sample went to [overflow]
  kLiveTableFull,       // no room for a live sample: counted as allocated and immediately freed
  kStackTruncated,      // deeper than kMaxDepth, or a frame that could not be walked
  kStackMissing,        // no stack at all: no scratch buffer or too little stack left
  kModuleTableFull,     // a module could not be recorded: its frames have no name
  kTableUnavailable,    // samples taken while there was no table
  kGrowthFailed,        // the file system or the kernel refused a step of growth
  kNoSystemCalls,       // growth that was not attempted because of a seccomp filter
  kLockTableFull,       // locks, or pairs of holder and waiter, missing from `holdfast locks`
  kLockSlotTaken,  // waits that could not be attributed to a holder: too many locks, or waiters of one lock, at once
  kSumFull,        // a full sum, which does not change any more
  kOngoingFull,    // waits that snapshots do not see while they last: too many threads wait at once
  kTimesFull,      // waits and holds missing from their lock's TimeHistogram
  kLabelsFull,     // program labels replaced by `[overflow]`: too many sets, or too long
  kAgesFull,       // freed blocks with an age but no AgeCell: the table is full
  kThreadsFull,    // threads counted as ended from their start on: too many live at once
  kTypesFull,      // exceptions with the type `[overflow]`: too many types, or no room
  kMappingsFull,   // mapping changes not seen or without room: counted as mapped and immediately unmapped
  kCpuTimersFull,  // threads without a CPU timer: a quarter of RLIMIT_SIGPENDING is in use, or too little stack is left
};
inline constexpr int kLosses = 19;
inline constexpr const char* kLossNames[kLosses] = {
    "stack-table-full",  "live-table-full",    "stack-truncated", "stack-missing",   "module-table-full",
    "table-unavailable", "growth-failed",      "no-system-calls", "lock-table-full", "lock-slot-taken",
    "sum-full",          "ongoing-waits-full", "lock-times-full", "labels-full",     "ages-full",
    "threads-full",      "types-full",         "mappings-full",   "cpu-timers-full"};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_LOSSES_H_
