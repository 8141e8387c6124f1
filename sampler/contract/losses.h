// What a profile lacks, and how often: a counter for each reason stands in the header of a table.
#ifndef HOLDFAST_SAMPLER_CONTRACT_LOSSES_H_
#define HOLDFAST_SAMPLER_CONTRACT_LOSSES_H_

#include <cstdint>

namespace holdfast {

// Why something was not recorded, or recorded with less than it should have. Each is a counter in the header and a
// comment in every profile. The names are in `kLossNames`, in this order.
enum class Loss : uint8_t {
  kStackTableFull = 0,  // no room for a new stack or row: the sample went to [overflow]
  kLiveTableFull,       // no room for a live sample: counted as allocated and at once as freed
  kStackTruncated,      // deeper than kMaxDepth, or a frame that could not be walked
  kStackMissing,        // no stack at all: no scratch buffer or too little stack left
  kModuleTableFull,     // a module could not be recorded: its frames have no name
  kTableUnavailable,    // samples taken while there was no table to keep them in
  kGrowthFailed,        // the file system or the kernel refused a step of growth
  kNoSystemCalls,       // growth that was not tried, because a seccomp filter is in place
  kLockTableFull,       // locks, or pairs of holder and waiter, that `holdfast locks` does not know
  kLockSlotTaken,  // waits that could not be attributed to their holder: too many locks, or waiters of one lock, at once
  kSumFull,        // a sum that has no room for more, and stays as it is
  kOngoingFull,    // waits that no snapshot sees while they last: too many threads wait at once
  kTimesFull,      // waits and holds that are in no TimeHistogram: how long those of their lock were is not known
  kLabelsFull,     // labels of the program's that became `[overflow]`: too many sets, or too long ones
  kAgesFull,       // blocks whose age at their free is in no AgeCell: the table is full
  kThreadsFull,    // threads that count as ended from their start on: too many live at once
  kTypesFull,      // exceptions whose type became `[overflow]`: too many types, or no room
  kMappingsFull,   // changes of what is mapped that were not seen, or had no room: mapped and at once unmapped
};
inline constexpr int kLosses = 18;
inline constexpr const char* kLossNames[kLosses] = {
    "stack-table-full",  "live-table-full",    "stack-truncated", "stack-missing",   "module-table-full",
    "table-unavailable", "growth-failed",      "no-system-calls", "lock-table-full", "lock-slot-taken",
    "sum-full",          "ongoing-waits-full", "lock-times-full", "labels-full",     "ages-full",
    "threads-full",      "types-full",         "mappings-full"};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_LOSSES_H_
