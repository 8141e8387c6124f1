// The table file: what one profiled process knows, as it lies in memory that any process of the same user can map.
//
//   offset 0          TableHeader   identity, options, control words, exact counters, losses, heads of lists
//   after the header  records       (records.h) Node, Stack, Row, Module, LabelSet, LiveLevel, those of a shard about in the order in which they were needed
//
// Written only by the target (and, for the control words, by the exporter and the tool); read by anyone.
// There are no pointers: an `Offset` counts 8-byte units from the start of the file, 0 means "none".
// A record is filled first and published last, by a release store of its offset into the list that holds it;
// a reader that finds an offset therefore finds a whole record, also when the target was killed in the next instruction.
// Records are never removed or moved. Only counters change after publication.
//
// This header is included by the shim and by the tool: plain data, no code that allocates, locks or throws.
// docs/format.md draws the same; kLayoutVersion changes with any change here.
#ifndef HOLDFAST_SAMPLER_CONTRACT_LAYOUT_H_
#define HOLDFAST_SAMPLER_CONTRACT_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/contract/mapped_ranges.h"
#include "sampler/contract/ongoing_layout.h"
#include "sampler/contract/records.h"
#include "sampler/contract/triggers.h"

namespace holdfast {

inline constexpr uint64_t kTableMagic = 0x5453'4146'444c'4f48;  // "HOLDFAST" as bytes
inline constexpr uint32_t kLayoutVersion = 23;

// Table files are called `holdfast.<uid>.<pid>.<start-ticks>.<image>.table`, image in 16 hexadecimal digits.
inline constexpr char kTablePrefix[] = "holdfast.";
inline constexpr char kTableSuffix[] = ".table";

// A folder as the kernel knows it: in another container, or after chroot, its path may name another one. Inode 0: not known;
// then `device` is the mount namespace in which there was no such folder, or none to be seen.
struct FolderId {
  uint64_t device, inode;
  bool known() const { return inode != 0; }
  bool operator==(const FolderId&) const = default;
};

// The file grows (is backed with pages) by at most this much at a time.
inline constexpr uint32_t kGrowStepBytes = 256 * 1024;

inline constexpr int kCounterShards = 16;
// Of all stacks: a cache line for each shard.
inline constexpr uint32_t kListsOfShard = 16, kStackLists = kListsOfShard * kCounterShards;
inline constexpr int kIntervals = 32;

// Exact counts of what the slow paths saw; the sum over all shards is the figure. Threads spread over the shards, so
// that they rarely write one cache line. `alloc_calls` and `free_calls` are the program's own calls when every
// allocation is sampled (interval 1); otherwise they count samples. `alloc_bytes` is always exact up to what each
// thread has allocated since its last sample.
struct alignas(64) CounterShard {
  std::atomic<uint64_t> alloc_calls;
  std::atomic<uint64_t> alloc_bytes;
  std::atomic<uint64_t> free_calls;  // frees of sampled blocks
  std::atomic<uint64_t> free_bytes;
  std::atomic<uint64_t> sample_ns;  // our own time in slow paths, estimated: see docs/sampling.md
  // All system calls that samples make, once there is a table.
  std::atomic<uint64_t> table_steps;    // of growth, also of what finds the table's records; refused ones included
  std::atomic<uint64_t> memory_probes;  // pages that the kernel was asked about: stacks, code without unwind tables
};
static_assert(sizeof(CounterShard) == 64);

// What each new record changes: else all threads that make records would write one line. Of the threads of a shard.
struct alignas(64) RecordShard {
  std::atomic<uint64_t>
      room;  // taken from the table and not handed out yet, in units: from where, and from bit 32 on to where
  std::atomic<uint64_t> stack_lost;  // Loss::kStackTableFull
  // A list of heap rows, by Row::older: who was there at the last look finds what has come since at its head. Of a race two that are
  // alike may be in these lists, of which one is in no stack's list.
  std::atomic<Offset> newest_row;
};

// Exact counts as in CounterShard for locks, by WaitKind: every wait and every hold, sampled or not. Of one kind, with every wait and hold over,
// wait_ns = hold_ns + gap_ns, up to rounding and to what `lost lock-slot-taken` counts.
struct alignas(64) LockCounters {
  std::atomic<uint64_t> waits[kWaitKinds];     // for something that was taken
  std::atomic<uint64_t> acquired[kWaitKinds];  // those that ended with it (the others gave up, or were cancelled)
  std::atomic<uint64_t> wait_ns[kWaitKinds];
  std::atomic<uint64_t> holds[kWaitKinds];    // during which others waited
  std::atomic<uint64_t> hold_ns[kWaitKinds];  // how long they waited, all together
  std::atomic<uint64_t> gap_ns[kWaitKinds];   // waited while nobody held it: from an unlock to the next acquisition
  std::atomic<uint64_t> wait_samples, hold_samples;
};

// Whether the age of freed blocks is taken, and whose of them have a profile of it.
enum class Lifetimes : uint32_t { kNo = 0, kYes, kUnlessShort };

struct IntervalChange {
  int64_t wall_ns;
  uint64_t interval;  // bytes or nanoseconds; 0 = off
};

// What is in use now and was at most: one line for who looks from outside, often. Where every allocation is recorded `now` stays as it
// was, and the threads count in lines of their own (ThreadInUse).
struct alignas(64) HeapInUse {
  std::atomic<uint64_t> now;            // estimated bytes, in kAmountFractionBits
  std::atomic<uint64_t> highest;        // that was ever in use
  std::atomic<int64_t> highest_ns;      // when, of CLOCK_MONOTONIC: when the last 1/256 of it was missing, or later
  std::atomic<uint64_t> highest_timed;  // what was in use then
  std::atomic<Offset> shadow;           // ShadowDirectory; 0: none
  std::atomic<uint32_t> threads;  // lines of TableHeader::in_use_of that are looked at: 1 + the last one that was used
};
static_assert(sizeof(HeapInUse) == 64);

// What one thread has in use, where every allocation is recorded: `limit` − `room`, modulo 2^64, as a thread may free what others have
// allocated. Both in kAmountFractionBits. An allocation takes from `room`, a free adds to it; the thread only looks at what the others
// have in use once there is no room (SeeHeight in sampler/heap/in_use.h), and gets more room by a higher limit.
struct alignas(64) ThreadInUse {
  // A new limit is written after the new room, and read before it: a reader never finds too much in use.
  std::atomic<uint64_t> limit, room;
};
static_assert(sizeof(ThreadInUse) == 64);
// The height may miss one part in kHeightParts where several threads allocate.
inline constexpr uint64_t kHeightParts = 1024;

// Which interval is in force, of `count` that were ever set; 0 if that is no count.
inline uint32_t NewestIndex(uint32_t count) { return count == 0 || count > kIntervals ? 0 : count - 1; }

// The state before the exit handlers. The target asks for a copy of the table and waits for it, since the handlers free
// what the program held. The exporter answers; a copy that comes after the target went on is of no use.
enum class ExitMoment : uint32_t {
  kNone = 0,
  kAsked,   // target: main has returned, or exit was called; it waits for kCopied
  kCopied,  // exporter: the copy is made
  kMissed,  // target: nobody answered in time, the handlers run
};

// Who fills which control word:
//   target → exporter   exit_request (1: an orderly end, which waits for `exported` where there is an exporter), snapshot_request
//   exporter → target   exported (futex word: set to 1 once the last profile is in place), exporter_pid; exporter_beat
//                       (+1 for each kBeatNs, or third of a shorter snapshot_every_ns, that it lives)
//   tool → exporter     snapshot_request (+1 for each wish); exporter answers in snapshot_done
//   target ↔ exporter   exit_moment
//   target, tool → exporter   resident
//   target → exporters        takes_orphans (1: the process is a subreaper, PR_SET_CHILD_SUBREAPER)
//   tool → target       another interval, under a flock of the file: its IntervalChange first, then the count; the bit of
//                       its kind in `profiles`
struct TableHeader {
  std::atomic<uint64_t> magic;  // written last: a table without it is still being made
  uint32_t version;
  uint32_t header_bytes;  // sizeof(TableHeader)
  uint64_t cap_bytes;     // the file never grows above this
  std::atomic<uint32_t>
      used;  // units handed out or taken by shards, header included; may run past `backed` or cap after a refusal
  std::atomic<uint32_t> backed;  // units that have pages

  // Identity. `process: host/pid_ns/pid/start_ticks/image` in every profile.
  uint32_t pid;  // as the process itself sees it
  uint32_t uid;
  uint64_t pid_ns;       // inode of /proc/self/ns/pid
  uint64_t start_ticks;  // field 22 of /proc/self/stat
  uint64_t image;        // random, new at each exec and in each forked child
  uint64_t stack_end;    // __libc_stack_end: with entry, tells one exec of this pid from the next
  uint64_t entry;        // AT_ENTRY
  uint32_t parent_pid;
  uint32_t forked;  // 1: a child that did not exec
  int64_t start_wall_ns;
  int64_t start_monotonic_ns;

  // Control words, on a line of their own: the exporter writes here while the target writes elsewhere.
  alignas(64) std::atomic<uint32_t> exit_request;
  std::atomic<uint32_t> exported;
  std::atomic<uint32_t> snapshot_request;
  std::atomic<uint32_t> snapshot_done;
  std::atomic<ExitMoment> exit_moment;  // futex word
  std::atomic<int32_t> exporter_pid;
  std::atomic<uint32_t> exporter_beat, exporter_beat_s;  // the latter: when, in seconds of CLOCK_MONOTONIC
  std::atomic<uint32_t> resident;                        // 1: a profile of what is resident is wanted
  std::atomic<uint32_t> takes_orphans;                   // 1: orphans of its descendants become its children

  HeapInUse in_use;
  ThreadInUse in_use_of[kMostOwners + 1];  // by Row::owner; [0]: of all threads that own no rows

  // Options, as the target took them.
  alignas(64) uint64_t snapshot_every_ns;  // 0 = only at the end
  uint64_t max_disk_bytes;
  uint64_t max_memory_bytes;
  uint64_t seed;
  FolderId out_id;    // of the output folder, when the table was made
  uint32_t keep;      // snapshots of each kind; 0 = all; kKeepThinned = the default thinning
  uint32_t profiles;  // bit of each ProfileKind
  uint32_t verbose;
  uint32_t merge;  // 1: a process that leaves a single snapshot shares its program's file
  uint32_t peak;   // 1: the exporter keeps the state at the most that was in use
  Lifetimes lifetimes;
  std::atomic<uint32_t> heap_interval_count;
  std::atomic<uint32_t> lock_interval_count;
  IntervalChange heap_intervals[kIntervals];  // the newest stands at [count − 1]
  IntervalChange lock_intervals[kIntervals];

  std::atomic<uint64_t> losses[kLosses];

  // Heads of the lists of records.
  std::atomic<Offset> modules;
  Offset overflow_stack;
  Offset overflow_row[kProfileKinds];
  Offset missing_stack;                              // samples whose stack could not be taken
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
  char program[64];  // last part of the path by which it was executed: the <program> of file names
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

// How often a living exporter counts exporter_beat up, and how long it may stand still before the target looks whether it has
// lost its exporter: within an interval, if that is no shorter than 300 ms.
inline constexpr int64_t kBeatNs = 1'000'000'000;
inline constexpr int64_t PatienceNs(uint64_t snapshot_every_ns) {
  if (snapshot_every_ns == 0 || snapshot_every_ns >= 3 * kBeatNs) return 3 * kBeatNs;
  return snapshot_every_ns < 300'000'000 ? 300'000'000 : static_cast<int64_t>(snapshot_every_ns);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_LAYOUT_H_
