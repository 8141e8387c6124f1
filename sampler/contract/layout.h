// The table file: what the library knows of one process, in memory that any process of the same user can read.
//
//   offset 0          TableHeader   identity, options, control words, exact counters, losses, heads of lists
//   after the header  records       (typed_records.h) Node, Stack, Row, Module, LabelSet, LiveLevel, those of a shard about in the order in which they were needed
//
// Only the target writes it, except for control words, which the exporter and the tool write; anyone reads it. There
// are no pointers: an `Offset` counts 8-byte units from the start of the file, 0 means "none". A record is filled first
// and published last, by a release store of its offset into the list that holds it. So a reader that finds an offset
// finds a whole record, even if the target was killed in the next instruction. Records are never removed or moved. Only
// counters change after publication.
//
// The shim and the tool include this header: plain data, no code that allocates, locks or throws. docs/format.md draws
// the same; kLayoutVersion changes with any change here.
#ifndef HOLDFAST_SAMPLER_CONTRACT_LAYOUT_H_
#define HOLDFAST_SAMPLER_CONTRACT_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/contract/cpu_sampling.h"
#include "sampler/contract/mapped_ranges.h"
#include "sampler/contract/ongoing_layout.h"
#include "sampler/contract/records.h"
#include "sampler/contract/triggers.h"

namespace holdfast {

inline constexpr uint64_t kTableMagic = 0x5453'4146'444c'4f48;  // "HOLDFAST" as bytes
inline constexpr uint32_t kLayoutVersion = 30;

// Table files are called `holdfast.<uid>.<pid>.<start-ticks>.<image>.table`, image in 16 hexadecimal digits.
inline constexpr char kTablePrefix[] = "holdfast.";
inline constexpr char kTableSuffix[] = ".table";
// Follows that of a process that may turn out to be too small for a profile (sampler/process/small_process.h).
inline constexpr char kSmallSuffix[] = ".small";
inline constexpr int64_t kSmallForNs = 1'000'000'000;  // no process is small for longer

// Identifies a folder as the kernel does: in another container, or after chroot, its path may name another folder.
// Inode 0: not known; `device` is then the mount namespace in which the folder was missing or invisible.
struct FolderId {
  uint64_t device, inode;
  bool known() const { return inode != 0; }
  bool operator==(const FolderId&) const = default;
};

// The file grows (gets pages) by at most this much at a time.
inline constexpr uint32_t kGrowStepBytes = 256 * 1024;

inline constexpr int kCounterShards = 16;
// Lists of stacks: a cache line for each shard.
inline constexpr uint32_t kListsOfShard = 16, kStackLists = kListsOfShard * kCounterShards;
inline constexpr int kIntervals = 32;

// Exact counts of events on slow paths; the sum over all shards is the figure. Threads spread over the shards, so that
// they rarely write the same cache line. `alloc_calls` and `free_calls` count the program's own calls when every
// allocation is sampled (interval 1), and otherwise samples. `alloc_bytes` is always exact, except for what each thread
// has allocated since its last sample.
struct alignas(64) CounterShard {
  std::atomic<uint64_t> alloc_calls;
  std::atomic<uint64_t> alloc_bytes;
  std::atomic<uint64_t> free_calls;  // frees of sampled blocks
  std::atomic<uint64_t> free_bytes;
  std::atomic<uint64_t> sample_ns;  // our own time in slow paths, estimated: see docs/sampling.md
  // All system calls of samples, once there is a table.
  std::atomic<uint64_t> table_steps;    // growth of the table and of its indexes; includes refused ones
  std::atomic<uint64_t> memory_probes;  // pages probed by a system call: stacks, code without unwind tables
};
static_assert(sizeof(CounterShard) == 64);

// The words that each new record changes, one set for each shard. A single set would be written by all threads that
// make records.
struct alignas(64) RecordShard {
  std::atomic<uint64_t>
      room;  // reserved from the table and not used yet, in units: the start, and from bit 32 on the end
  std::atomic<uint64_t> stack_lost;  // Loss::kStackTableFull
  // A list of heap rows, by Row::older: a reader that remembers the last head finds newer rows before it. After a race
  // two equal rows may be in these lists, one of them in no stack's list.
  std::atomic<Offset> newest_row;
};

// Exact counts for locks, by WaitKind: every wait and every hold, sampled or not. When every wait and hold of a kind is
// over, wait_ns = hold_ns + gap_ns, up to rounding and to what `lost lock-slot-taken` counts.
struct alignas(64) LockCounters {
  std::atomic<uint64_t> waits[kWaitKinds];     // for a lock that was taken
  std::atomic<uint64_t> acquired[kWaitKinds];  // waits that ended with the lock (others gave up, or were cancelled)
  std::atomic<uint64_t> wait_ns[kWaitKinds];
  std::atomic<uint64_t> holds[kWaitKinds];    // holds with waiters
  std::atomic<uint64_t> hold_ns[kWaitKinds];  // waiting of all threads during these holds
  std::atomic<uint64_t> gap_ns[kWaitKinds];   // waiting while nobody held it: from unlock to next acquisition
  std::atomic<uint64_t> wait_samples, hold_samples;
};

// Whether ages of freed blocks are recorded, and which processes get a profile of them.
enum class Lifetimes : uint32_t { kNo = 0, kYes, kUnlessShort };

struct IntervalChange {
  int64_t wall_ns;
  uint64_t interval;  // bytes or nanoseconds; 0 = off
};

// Bytes in use now and at most, in one line that readers poll. When every allocation is recorded, `now` does not
// change, and threads count in their own lines (ThreadInUse).
struct alignas(64) HeapInUse {
  std::atomic<uint64_t> now;            // estimated bytes, in kAmountFractionBits
  std::atomic<uint64_t> highest;        // the maximum so far
  std::atomic<int64_t> highest_ns;      // when it was reached, CLOCK_MONOTONIC: up to 1/256 below the maximum, or later
  std::atomic<uint64_t> highest_timed;  // bytes in use then
  // When every allocation is recorded: at least the sum of all limits (ThreadInUse), and the maximum of `now` + `limits`.
  // No more than `most` was ever in use, so the maximum misses at most `most` − `highest`.
  std::atomic<uint64_t> limits, most;
  std::atomic<Offset> shadow;     // ShadowDirectory; 0: none
  std::atomic<uint32_t> threads;  // lines of TableHeader::in_use_of in use: 1 + the last one
};
static_assert(sizeof(HeapInUse) == 64);

// What one thread has in use when every allocation is recorded: `limit` − `room`, modulo 2^64, because a thread may
// free what others have allocated. Both in kAmountFractionBits. An allocation takes from `room`, a free adds to it.
// Only when there is no room left does the thread add up what the others have in use (SeeHeight in
// sampler/table/in_use.h), and get room by a higher limit.
struct alignas(64) ThreadInUse {
  // A higher limit is written after the room, a lower one before it. A reader reads the limit before and after the room,
  // so it never finds too much in use.
  std::atomic<uint64_t> limit, room;
};
static_assert(sizeof(ThreadInUse) == 64);
// All threads together may take one part in kHeightParts of the maximum as room, besides what they freed meanwhile.
inline constexpr uint64_t kHeightParts = 1024;

// Index of the interval in force, of `count` that were ever set; 0 if `count` is invalid.
inline uint32_t NewestIndex(uint32_t count) { return count == 0 || count > kIntervals ? 0 : count - 1; }

// The state before the exit handlers. The target asks for a copy of the table and waits for it, because the handlers
// free what the program held. The exporter answers. A copy made after the target has continued is discarded.
enum class ExitMoment : uint32_t {
  kNone = 0,
  kAsked,   // target: main has returned, or exit was called; it waits for kCopied
  kCopied,  // exporter: the copy is made
  kMissed,  // target: nobody answered in time, the handlers run
};

// The leak check of `holdfast run --leak-check`: at its end, the target waits until its memory has been searched.
enum class LeakCheckState : uint32_t {
  kNone = 0,
  kAsked,  // target: waits
  kBegun,  // `holdfast run`: it will search
  kDone,   // `holdfast run`: the search has ended
};

// CPU samples: what was requested, and what the process does.
struct CpuSampling {
  std::atomic<uint32_t> interval_count;  // of cpu_intervals, requested
  std::atomic<uint32_t> applied;         // of these, applied by the process; fewer: the change is pending
  std::atomic<CpuState> state;
  std::atomic<uint32_t> timers;  // threads with a timer
};

// Who fills which control word:
//   target → exporter   exit_request (1: an orderly end, which waits for `exported` where there is an exporter), snapshot_request
//   exporter → target   exported (futex word: set to 1 once the last profile is in place), exporter_pid; exporter_beat
//                       (+1 for each kBeatNs, or third of a shorter snapshot_every_ns, that it lives)
//   tool → exporter     snapshot_request (+1 for each wish); exporter answers in snapshot_done
//   target ↔ exporter   exit_moment
//   target ↔ run        leak_check
//   target, tool → exporter   resident, wall
//   target → exporters        takes_orphans (1: the process is a subreaper, PR_SET_CHILD_SUBREAPER)
//   tool → target       another interval, under a flock of the file: its IntervalChange first, then the count; the bit of
//                       its kind in `profiles`
struct TableHeader {
  std::atomic<uint64_t> magic;  // written last: a table without it is still being made
  uint32_t version;
  uint32_t header_bytes;  // sizeof(TableHeader)
  uint64_t cap_bytes;     // the file never grows above this
  std::atomic<uint32_t>
      used;  // units used or reserved by shards, header included; may exceed `backed` or cap after a refusal
  std::atomic<uint32_t> backed;  // units that have pages

  // Identity. `process: host/pid_ns/pid/start_ticks/image` in every profile.
  uint32_t pid;  // as the process itself sees it
  uint32_t uid;
  uint64_t pid_ns;       // inode of /proc/self/ns/pid
  uint64_t start_ticks;  // field 22 of /proc/self/stat
  uint64_t image;        // random, new at each exec and in each forked child
  uint64_t stack_end;    // __libc_stack_end: with entry, distinguishes one exec of this pid from the next
  uint64_t entry;        // AT_ENTRY
  uint32_t parent_pid;
  uint32_t forked;  // 1: a child that did not exec
  int64_t start_wall_ns;
  int64_t start_monotonic_ns;

  // Control words, on their own line: the exporter writes here while the target writes elsewhere.
  alignas(64) std::atomic<uint32_t> exit_request;
  std::atomic<uint32_t> exported;
  std::atomic<uint32_t> snapshot_request;
  std::atomic<uint32_t> snapshot_done;
  std::atomic<ExitMoment> exit_moment;  // futex word
  std::atomic<int32_t> exporter_pid;
  std::atomic<uint32_t> exporter_beat, exporter_beat_s;  // the latter: when, in seconds of CLOCK_MONOTONIC
  std::atomic<uint32_t> resident;                        // 1: a resident-memory profile is wanted
  std::atomic<uint32_t> takes_orphans;                   // 1: orphans of its descendants become its children
  std::atomic<LeakCheckState> leak_check;                // futex word
  std::atomic<uint32_t> wall;                            // 1: a profile of all threads' time is wanted

  HeapInUse in_use;
  ThreadInUse in_use_of[kMaxOwners + 1];  // by Row::owner; [0]: of all threads that own no rows

  // Options, as the target read them.
  alignas(64) uint64_t snapshot_every_ns;  // 0 = only at the end
  uint64_t max_disk_bytes;
  uint64_t max_memory_bytes;
  uint64_t seed;
  FolderId out_id;    // of the output folder, when the table was made
  uint32_t keep;      // snapshots of each kind; 0 = all; kKeepThinned = the default thinning
  uint32_t profiles;  // bit of each ProfileKind
  uint32_t verbose;
  uint32_t merge;  // 1: a process that leaves a single snapshot shares its program's file
  uint32_t peak;   // 1: the exporter keeps the state at the maximum in use
  Lifetimes lifetimes;
  std::atomic<uint32_t> heap_interval_count;
  std::atomic<uint32_t> lock_interval_count;
  IntervalChange heap_intervals[kIntervals];  // the newest is at [count − 1]
  IntervalChange lock_intervals[kIntervals];
  CpuSampling cpu;
  IntervalChange cpu_intervals[kIntervals];  // nanoseconds of CPU time between two samples

  std::atomic<uint64_t> losses[kLosses];

  // Heads of the lists of records.
  std::atomic<Offset> modules;
  Offset overflow_stack;
  Offset overflow_row[kProfileKinds];
  Offset missing_stack;                              // samples without a stack
  std::atomic<Offset> live_segments[kLiveSegments];  // level 0, level 1, level 2, the two of level 3, …
  std::atomic<uint32_t> live_levels;                 // how many have been begun
  std::atomic<uint32_t> module_count;
  std::atomic<uint32_t> lock_count, pair_count, lock_number;
  std::atomic<Offset> lock_heads[kLockHeads];
  std::atomic<Offset> pair_heads[kPairHeads];
  std::atomic<Offset> ongoing_segments[kOngoingSegments];
  std::atomic<Offset> thread_segments[kThreadSegments];  // of LiveThreads
  std::atomic<Offset> type_heads[kTypeHeads];            // of ThrownTypes
  std::atomic<uint32_t> type_count;
  std::atomic<Offset> mapped_ranges;  // newest MappedRangeSegment
  NotedThread noted_threads[kNotedThreads];

  // Text, zero-terminated, cut when too long.
  char host[64];
  char program[64];  // last part of the executed path: the <program> of file names
  char executable[512];
  char out[1024];           // output folder, absolute
  char command_line[2048];  // arguments joined by spaces
  char snapshot_when[kTriggerTextBytes];

  CounterShard counters[kCounterShards];
  LockCounters lock_counters[kCounterShards];
  RecordShard record_shards[kCounterShards];
  std::atomic<Offset> stack_lists[kStackLists];
};

inline constexpr uint32_t kKeepThinned = 0xffffffff;

// How often a living exporter increments exporter_beat, and how long the target accepts no change before it checks
// whether it has lost its exporter: within an interval, if that is at least 300 ms.
inline constexpr int64_t kBeatNs = 1'000'000'000;
inline constexpr int64_t PatienceNs(uint64_t snapshot_every_ns) {
  if (snapshot_every_ns == 0 || snapshot_every_ns >= 3 * kBeatNs) return 3 * kBeatNs;
  return snapshot_every_ns < 300'000'000 ? 300'000'000 : static_cast<int64_t>(snapshot_every_ns);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_LAYOUT_H_
