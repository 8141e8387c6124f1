// The reader of table files: from hostile bytes to a Snapshot. The only reader there is; links into the tool, never
// into the shim.
//
// A table is written by a process that may be alive, dead, compromised or of another version. The caller copies it once
// (report/table/table_folder.h); every offset, count and string of the copy is checked before it is followed. What does not
// fit is an error that names what and where, never a crash and never an endless walk.
#ifndef HOLDFAST_REPORT_TABLE_SNAPSHOT_H_
#define HOLDFAST_REPORT_TABLE_SNAPSHOT_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "report/table/heap_in_use.h"
#include "sampler/contract/layout.h"

namespace holdfast {

struct ModuleInfo {
  std::string path;      // as the program saw it
  std::string build_id;  // lower-case hexadecimal
  uint64_t start, end, bias;
  uint16_t tag;
  bool unloaded;
  bool frees_elsewhere = false;  // its calls of free do not reach the library (sampler/stacks/free_calls.h)
  struct SegmentInfo {
    uint64_t start, end, file_offset;
  };
  std::vector<SegmentInfo> segments;  // executable ones
};

struct RowInfo {
  uint32_t stack;  // index into Snapshot::stacks
  ProfileKind profile;
  WaitKind wait;
  uint64_t class_bytes;  // upper edge of the size class, heap and map rows, 0 in [overflow]; of each stack, thread rows
  uint8_t mark = 0;      // map rows: a MappingKind; exception rows: ThrownBits
  uint16_t number = 0;   // LockInfo::number where samples are kept apart by lock; ThrownType::number; 0 = not
  std::array<double, kRowSums>
      sums;  // unscaled: objects, bytes, nanoseconds; meaning as in HeapSum, LockSum, ThreadSum, ExceptionSum
  uint32_t times = 0xffffffff;  // index into Snapshot::row_times, or kNoIndex
  Offset place = 0;             // in the table

  // Of threads whose stacks libc mapped: these are mappings, too.
  bool has_thread_stacks() const { return profile == ProfileKind::kThreads && class_bytes != 0; }
};

// How many waits or holds were how long: TimeBucket and count, where that is not 0. Of rows weighted, in kCountFractionBits.
struct TimesInfo {
  std::vector<std::pair<uint32_t, uint64_t>> counts;
  bool complete = true;  // false: there was no room for all of them
};

// Freed blocks of a stack, by age (AgeCell): estimates.
struct AgesInfo {
  uint32_t stack;  // index into Snapshot::stacks
  int bucket;      // AgeBucket
  FreedBy freed_by;
  double objects = 0, bytes = 0, ages_ns = 0, variance = 0;  // the latter of the objects
};
// Blocks that live, by their age so far.
struct AliveInfo {
  uint32_t stack;
  int bucket;
  uint64_t class_bytes;  // upper edge of their size class
  double bytes = 0, variance = 0;
};

// The labels of a thread (include/holdfast.h): key and value, by key. Valid UTF-8.
using LabelPairs = std::vector<std::pair<std::string, std::string>>;

struct StackInfo {
  std::vector<TaggedPc> frames;  // leaf first
  bool truncated;
  bool overflow;        // the stack table was full
  bool missing;         // no stack could be taken
  uint32_t labels = 0;  // index into Snapshot::label_sets
};

// No value of a profile is larger, nor the sum of a column (292 years): what would be stays there, and false says so.
inline constexpr uint64_t kMostValue = INT64_MAX;
inline bool AddUpToMost(uint64_t value, uint64_t* sum) {
  const bool fits = *sum <= kMostValue && value <= kMostValue - *sum;
  *sum = fits ? *sum + value : kMostValue;
  return fits;
}

inline constexpr uint32_t kNoStack = 0xffffffff;

struct LockInfo {  // one lock, by its address; exact
  uint64_t address;
  WaitKind kind;    // kRwlockWrite for readers and writers
  uint16_t number;  // RowInfo::lock
  uint64_t waits, wait_ns, longest_ns, holds, hold_ns;
  uint64_t held_ns = 0, longest_held_ns = 0, alone_ns = 0;  // see LockRecord
  TimesInfo wait_times = {}, hold_times = {};
  uint64_t waiting = 0, waiting_ns = 0, longest_waiting_ns = 0;  // threads that wait now, and for how long so far
  // The live heap sample that it lies in, if there is one; or the frame of a function, of 0 bytes (locks_on_stacks.cc).
  uint64_t block_bytes = 0, block_offset = 0;
  uint32_t block_stack =
      kNoStack;                // index into Snapshot::stacks: where it was allocated; of a frame, the function first
  uint64_t thread_offset = 0;  // a thread-local variable: how far it lies below the thread's own block; 0: none
};

struct LockPairInfo {       // see LockPairRecord in layout.h
  uint32_t lock;            // index into Snapshot::locks_known
  uint32_t holder, waiter;  // index into Snapshot::stacks, or kNoStack
  double contentions, delay_ns;
};

// A wait that went on when the snapshot was taken. See OngoingWait in layout.h; what `holder` and below say is
// LookAtWaits's (look_at_waits.h).
struct OngoingWaitInfo {
  uint32_t thread_id;  // as the process sees it; 0: it may not ask
  WaitKind kind;
  uint64_t lock, mutex;
  int64_t start_ns;               // of CLOCK_MONOTONIC, at most Snapshot::monotonic_ns
  int64_t since_ns = 0;           // when the first of the slices began in which the thread waits; at most start_ns
  uint32_t stack = kNoStack;      // index into Snapshot::stacks
  uint32_t noted_holder = 0;      // thread id that the lock named when the wait began or was last looked at
  uint64_t place = 0, owner = 0;  // of its slot in the table; turn and thread
  // Who holds it: index into Snapshot::threads, or kNoIndex.
  uint32_t holder = 0xffffffff;
  enum HolderSource : uint8_t {
    kNotKept,  // the lock does not say who holds it
    kFree,     // it says that nobody does
    kNow,      // it said so just now
    kAtStart,  // it said so when the wait began; now it could not be asked
    kLastGot,  // not kept: this one was the last to get it after a wait
    kReaders,  // so many readers, of whom it does not say who they are
  } source = kNotKept;
  bool owner_died = false;  // of a robust mutex
  uint32_t readers = 0;
};
inline constexpr uint32_t kNoIndex = 0xffffffff;  // no thread, no wait

// A thread that waits, or that holds what others wait for.
struct ThreadInfo {
  uint32_t id = 0;      // as the process sees it
  uint32_t number = 0;  // 1 for the oldest of those that live, which is main; 0: not known
  std::string name;
  uint32_t wait = kNoIndex;  // index into Snapshot::ongoing: its innermost one
  bool gone = false;         // it has ended, and holds all the same
  bool since_start = false;  // it has waited for what nobody holds since it was created
  // Of a holder that does not wait.
  std::string doing;          // "sleeping in clock_nanosleep (hrtimer_nanosleep)"
  uint32_t stack = kNoStack;  // index into Snapshot::stacks
};

// A thread that took a sample (NotedThread in sampler/contract/records.h), and what it is called.
struct NotedThreadInfo {
  uint32_t id;     // as the process sees it
  uint32_t stack;  // index into Snapshot::stacks: of a sample that it took
  int64_t when_ns;
  std::string name = {};  // "": not known, or the program's. By RunningProgram (report/export/running_program.h)
};

// A thread that had not said that it ended (LiveThread in sampler/contract/records.h).
struct LiveThreadInfo {
  uint32_t id;   // as the process sees it
  uint32_t row;  // index into Snapshot::rows: of kThreads
  int64_t when_ns;
  bool gone = false;  // there is no such thread any more. By RunningProgram (report/export/running_program.h)
};

// What libc has mapped for itself, all of a kind together. By ReadLibcMappings (report/memory/libc_mappings.h).
struct LibcMapping {
  const char* name = nullptr;  // of the frame that stands for a stack: "[glibc arenas]"
  MappingKind kind = MappingKind::kNone;
  uint64_t mappings = 0, bytes = 0;
  uint64_t most_mappings = 0, most_bytes = 0;  // that there ever were, as far as it was looked at
};

// Live blocks of a heap row, or mappings of a map row, and what of them is resident. Of blocks these are estimates. By ReadResidentRows
// (report/memory/resident_rows.h).
struct ResidentRow {
  Offset row = 0;              // RowInfo::place
  const char* libc = nullptr;  // instead: the frame that stands for what libc has mapped
  bool has_blocks = false;     // mappings in which live blocks lie: less what these have, so an estimate, too
  double objects = 0, bytes = 0, resident = 0, swapped = 0, huge = 0;
  double objects_variance = 0, bytes_variance = 0, resident_variance = 0, swapped_variance = 0, huge_variance = 0;
};

// Who got a lock last after a wait for it.
struct LastGotInfo {
  uint64_t lock;
  uint32_t thread_id;
  int64_t end_ns;
};

struct ProcessIdentity {
  std::string host, program, executable, command_line, out;
  uint32_t pid, parent_pid, uid;
  uint64_t pid_ns, start_ticks, image, stack_end, entry;
  bool forked;
  int64_t start_wall_ns, start_monotonic_ns;
};

struct Snapshot {
  ProcessIdentity process;
  int64_t wall_ns;     // when it was taken; of a process that has ended when that was, where it is known
  int64_t elapsed_ns;  // since the process began, by a clock that does not jump where that is known
  uint64_t snapshot_every_ns, max_disk_bytes, max_memory_bytes, seed;
  uint32_t keep, profiles;
  bool peak;                              // the state at the most that was in use is wanted
  std::vector<std::string> reasons = {};  // why it was taken besides those of each interval: "inuse>2GiB at 2.01GiB"
  // Exit handlers free what the program held. kAsked: main has returned or exit was called, and they have freed nothing yet.
  // kCopied, kMissed: they may have.
  ExitMoment exit_moment = ExitMoment::kNone;
  // The most that was in use, and when. Where every allocation is recorded no more than most_bytes was in use.
  double highest_bytes;
  int64_t highest_wall_ns;
  std::optional<double> most_bytes;
  // Blocks that count as freed, as their frees are not seen (report/table/frees_not_seen.h): by the path of the module that allocated them.
  struct FreesNotSeen {
    double objects = 0, bytes = 0;
  };
  std::map<std::string, FreesNotSeen> frees_not_seen = {};
  std::vector<IntervalChange> heap_intervals, lock_intervals;  // oldest first; never empty
  std::array<uint64_t, kLosses> losses;
  struct Totals {
    uint64_t alloc_calls, alloc_bytes, free_calls, free_bytes, sample_ns, table_steps, memory_probes;
  } totals;
  struct LockTotals {  // see LockCounters in layout.h
    uint64_t waits, acquired, wait_ns, holds, hold_ns, gap_ns;
  };
  std::array<LockTotals, kWaitKinds> locks;  // by WaitKind
  uint64_t wait_samples, hold_samples;
  uint64_t table_bytes;  // backed
  uint32_t exit_request, exported, snapshot_request, snapshot_done, exporter_beat_s;
  uint64_t records_hash = 0;  // of all records, once the program has said that it ends
  std::vector<ModuleInfo> modules;
  std::vector<LabelPairs> label_sets = {{}};  // the first is empty
  std::vector<StackInfo> stacks;
  std::vector<RowInfo> rows;
  std::vector<TimesInfo> row_times;
  Lifetimes lifetimes = Lifetimes::kNo;  // whether they are wanted
  std::vector<AgesInfo> ages;
  std::vector<AliveInfo> alive;
  bool ages_are_drawn = false;  // of small blocks, one in kAgedOneIn
  std::vector<LockInfo> locks_known;
  std::vector<LockPairInfo> lock_pairs;
  int64_t monotonic_ns = 0;  // when the waits that go on were looked at
  std::vector<OngoingWaitInfo> ongoing;
  std::vector<LastGotInfo> last_got;
  std::vector<ThreadInfo> threads;
  std::vector<NotedThreadInfo> noted_threads;
  std::vector<LibcMapping> libc_mappings;
  std::vector<LiveThreadInfo> live_threads;
  bool resident = false;               // a profile of it is wanted
  std::string resident_left_out = {};  // why it is not known; "": it is, or is not wanted
  std::vector<ResidentRow> resident_rows;
  std::string mappings_left_out = {};            // of resident_rows, and why; "": they are there
  uint64_t stacks_left_out = 0;                  // threads of whose stacks nothing is known there
  bool huge_known = false;                       // what of these lies on huge pages
  std::map<uint16_t, std::string> thrown_types;  // mangled, by RowInfo::number
  uint64_t resident_bytes = 0;                   // of the process, as the kernel says; 0: not known. By RunningProgram
  std::vector<std::vector<uint32_t>>
      deadlocks;             // threads, each of which waits for the next, and the last for the first
  std::string unseen_waits;  // threads that waited by other means than libc's functions: "3 in OpenMP, 1 in malloc"
  std::string cannot_look;   // why nobody could look into the process; "": somebody did, or it is gone
};

// `bytes`: a private copy of a table file, as much of it as is used, aligned to 64. Any thread. Fails with Unavailable
// while the table is being made, FailedPrecondition for another layout, DataLoss for what is corrupt. Memory: at most
// 1 GiB for frames, and a few times `size`. Modules that were recorded twice stand there once; stacks without rows not.
// `monotonic_ns`: by the clock of the program; none: not known, or of one that has ended.
absl::StatusOr<Snapshot> ReadSnapshot(const void* bytes, size_t size, int64_t wall_ns,
                                      std::optional<int64_t> monotonic_ns = std::nullopt);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_SNAPSHOT_H_
