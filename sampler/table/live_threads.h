// The live threads in a table: LiveThread in sampler/contract/records.h. Any thread, signal handlers; lock-free.
#ifndef HOLDFAST_SAMPLER_TABLE_LIVE_THREADS_H_
#define HOLDFAST_SAMPLER_TABLE_LIVE_THREADS_H_

#include <cstdint>

#include "sampler/table/shared_table.h"

namespace holdfast {

inline constexpr uint32_t kMaxLiveThreads = kThreadSlots0 * ((1u << kThreadSegments) - 1);
inline constexpr uint32_t kNoLiveThread = UINT32_MAX;

// Takes a slot for a thread that is about to be created at `row`; kNoLiveThread: there is none left (counted).
// `is_gone`: whether the thread with this id has ended without notice; its slot is then reused, after `ended` was
// called with its row. At most 64 are checked, and only if the table would have to grow otherwise.
uint32_t TakeLiveThread(SharedTable* table, const Row* row, bool (*is_gone)(uint32_t id), void (*ended)(Row* row));
// The number of slots that have been made.
uint32_t LiveThreadSlots(SharedTable* table);
LiveThread* LiveThreadAt(SharedTable* table, uint32_t number);

// The thread has begun: stores its id, and the time.
void BeginLiveThread(LiveThread* thread, uint32_t id, int64_t now_ns);
// False: it was already free.
bool EndLiveThread(LiveThread* thread, uint64_t who);

// Returns a thread's slot by its id; kNoLiveThread: it has none.
uint32_t FindLiveThread(SharedTable* table, uint32_t id);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_LIVE_THREADS_H_
