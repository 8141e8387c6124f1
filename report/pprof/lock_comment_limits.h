// How many locks the comments of a profile name, and which come last. For who writes them (report/lock_records/lock_comments.h)
// and who reads them back (report/analysis/lock_list.h).
#ifndef HOLDFAST_REPORT_PPROF_LOCK_COMMENT_LIMITS_H_
#define HOLDFAST_REPORT_PPROF_LOCK_COMMENT_LIMITS_H_

#include <cstddef>

#include "sampler/contract/layout.h"

namespace holdfast {

inline constexpr size_t kMostLocksWritten = 64;
inline constexpr size_t kMostPairsWritten = 256;
// Sums of the other locks: a server has one in each connection.
inline constexpr size_t kMostSumsWritten = 64;
// Of what nobody holds, while there are others: threads that are idle wait for conditions all day.
inline constexpr size_t kMostUnheldWritten = 16;
inline bool HasNoHolder(WaitKind kind) {
  return kind == WaitKind::kCondition || kind == WaitKind::kSemaphore || kind == WaitKind::kBarrier ||
         kind == WaitKind::kOnce;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PPROF_LOCK_COMMENT_LIMITS_H_
