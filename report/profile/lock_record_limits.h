// Limits for locks in a profile's records: how many are written, and which are left out first. Used by the writer
// (report/builder/written_locks.h) and the reader (report/analysis/locks/lock_list.h).
#ifndef HOLDFAST_REPORT_PROFILE_LOCK_RECORD_LIMITS_H_
#define HOLDFAST_REPORT_PROFILE_LOCK_RECORD_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

inline constexpr size_t kMaxLocksWritten = 64;
inline constexpr size_t kMaxPairsWritten = 256;
// Sums of the remaining locks: a server may have a lock in each connection.
inline constexpr size_t kMaxSumsWritten = 64;
// Locks without a holder, if there are others: idle threads wait for condition variables all day.
inline constexpr size_t kMaxUnheldWritten = 16;
// The offset in a block of a sum of locks at several offsets.
inline constexpr int64_t kManyOffsets = -1;
inline bool HasNoHolder(WaitKind kind) {
  return kind == WaitKind::kCondition || kind == WaitKind::kSemaphore || kind == WaitKind::kBarrier ||
         kind == WaitKind::kOnce;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_LOCK_RECORD_LIMITS_H_
