// The threads that live, in a table: LiveThread in sampler/contract/records.h. Any thread, signal handlers; lock-free.
#ifndef HOLDFAST_SAMPLER_TABLES_LIVE_THREADS_H_
#define HOLDFAST_SAMPLER_TABLES_LIVE_THREADS_H_

#include <cstdint>

#include "sampler/tables/shared_table.h"

namespace holdfast {

inline constexpr uint32_t kMostLiveThreads = kThreadSlots0 * ((1u << kThreadSegments) - 1);
inline constexpr uint32_t kNoLiveThread = UINT32_MAX;

// A slot for a thread that is about to be created where `row` says; kNoLiveThread: there is none left (counted). `is_gone` says of
// a thread's id whether it has ended without a word: then its slot is taken, after `ended` was told its row. Asked for at most 64 of
// them, where otherwise the table had to grow.
uint32_t TakeLiveThread(SharedTable* table, const Row* row, bool (*is_gone)(uint32_t id), void (*ended)(Row* row));
LiveThread* LiveThreadAt(SharedTable* table, uint32_t number);

// The thread has begun: its id, and now.
void BeginLiveThread(LiveThread* thread, uint32_t id, int64_t now_ns);
// False: it was nobody's any more.
bool EndLiveThread(LiveThread* thread, uint64_t who);

// The slot of a thread by its id; kNoLiveThread: it has none.
uint32_t FindLiveThread(SharedTable* table, uint32_t id);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLES_LIVE_THREADS_H_
