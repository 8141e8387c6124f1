// The target's side of the table file: the only place that allocates memory in it. See sampler/contract/layout.h for
// the contents.
//
// One table for each process, reached through `CurrentTable()`; null until the first sample (or until a thread has allocated 1
// MiB), in a forked child until its own, and for good if no memory could be had. Any thread, also in a signal handler.
// Takes no lock, never waits, preserves errno. Full = null, counted by the caller under the right `Loss`.
#ifndef HOLDFAST_SAMPLER_TABLE_SHARED_TABLE_H_
#define HOLDFAST_SAMPLER_TABLE_SHARED_TABLE_H_

#include <atomic>
#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/contract/layout.h"
#include "sampler/hot_path/thread_state.h"

namespace holdfast {

class SharedTable {
 public:
  static constexpr uint64_t kKeptOfCap = 16;

  // The mapping's first bytes are the header.
  TableHeader* header() { return reinterpret_cast<TableHeader*>(this); }

  // Returns `bytes` of zeroed memory, aligned to kUnit and already backed by pages: writing to it cannot raise SIGBUS.
  // Null if the cap is reached or the kernel refuses. Never freed. `behind`: the record with the list that will lead to
  // this one; 0: the header. The new record comes after it, because readers that copy the table while the program runs
  // read that record first (TableFile::TakeSnapshot).
  void* Allocate(uint32_t bytes, Offset behind = 0);

  template <typename T>
  T* New(Offset behind = 0) {
    return static_cast<T*>(Allocate(sizeof(T), behind));
  }

  template <typename T>
  T* At(Offset offset) {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(this) + uint64_t{offset} * kUnit);
  }
  Offset OffsetOf(const void* record) const {
    return static_cast<Offset>((reinterpret_cast<uintptr_t>(record) - reinterpret_cast<uintptr_t>(this)) / kUnit);
  }

  void Count(Loss loss) {
    // This loss may come with each allocation of each thread.
    std::atomic<uint64_t>& lost =
        loss == Loss::kStackTableFull ? shard().stack_lost : header()->losses[static_cast<int>(loss)];
    lost.fetch_add(1, std::memory_order_relaxed);
  }
  // The calling thread's shard.
  RecordShard& shard() { return header()->record_shards[thread_state.shard]; }

  // Whether there is no room below the cap for `bytes` more of stacks and their rows. The last part is reserved for
  // live blocks: a block with an unseen free is a worse loss than one in [overflow].
  bool IsFull(uint32_t bytes) { return HasOnlyKept(bytes, kKeptOfCap); }
  // The same for ages, including those of [overflow], which come when there is no room for stacks: half of the reserve
  // remains then.
  bool IsFullForAges(uint32_t bytes) { return HasOnlyKept(bytes, 2 * kKeptOfCap); }

  // Backs at least `bytes` more than are used now, in steps. False if refused.
  bool Back(uint32_t bytes);

 private:
  bool HasOnlyKept(uint32_t bytes, uint64_t part) {
    const uint64_t cap = header()->cap_bytes;
    return uint64_t{header()->used.load(std::memory_order_relaxed)} * kUnit + bytes > cap - cap / part;
  }

  static constexpr uint32_t kRoomBytes = 2048;  // taken by a shard at once

  // Takes at least `units`, at most `*taken`, of what is backed by now. 0: the table is full.
  Offset Take(uint32_t units, uint32_t* taken);
};

// The process's table, or null. One relaxed load.
extern HOLDFAST_HIDDEN std::atomic<SharedTable*> current_table;
inline SharedTable* CurrentTable() { return current_table.load(std::memory_order_acquire); }

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_SHARED_TABLE_H_
