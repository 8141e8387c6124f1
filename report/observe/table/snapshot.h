// Reads table files: turns untrusted bytes into a TableSnapshot. This is the only reader; it is linked into the tool, never
// into the shim.
//
// The process that writes a table may be alive, dead, compromised or of another version. The caller copies the table
// once (report/observe/table/table_folder.h). Every offset, count and string of the copy is checked before use. Invalid data is
// an error that names what and where; it never causes a crash or an endless walk.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_SNAPSHOT_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_SNAPSHOT_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "report/observe/table/heap_in_use.h"
#include "sampler/contract/layout.h"

namespace holdfast {

struct ModuleInfo {
  std::string path;      // as the program saw it
  std::string build_id;  // lower-case hexadecimal
  uint64_t start, end, bias;
  uint16_t tag;
  bool unloaded;
  uint32_t flags = 0;            // all of them: sampler/contract/module_flags.h
  bool frees_elsewhere = false;  // its frees do not reach the library (sampler/capture/free_calls.h)
  struct SegmentInfo {
    uint64_t start, end, file_offset;
  };
  std::vector<SegmentInfo> segments;  // executable segments
};

struct RowInfo {
  uint32_t stack;  // index into TableSnapshot::stacks
  ProfileKind profile;
  WaitKind wait;
  // Heap and map rows: upper edge of the size class, 0 in [overflow]; thread rows: size of each stack.
  uint64_t class_bytes;
  uint8_t mark = 0;     // map rows: a MappingKind; exception rows: ThrownBits
  uint16_t number = 0;  // LockInfo::number if samples are separate for each lock; ThrownType::number; 0 = none
  std::array<double, kRowSums>
      sums;  // unscaled: objects, bytes, nanoseconds; as in HeapSum, LockSum, ThreadSum, ExceptionSum, CpuSum
  uint32_t times = 0xffffffff;  // index into TableSnapshot::row_times, or kNoIndex
  Offset place = 0;             // place in the table

  // For rows of threads with stacks that libc mapped: these are mappings, too.
  bool has_thread_stacks() const { return profile == ProfileKind::kThreads && class_bytes != 0; }
};

// A histogram of waits or holds by duration: TimeBucket and nonzero count. For rows the counts are weighted, in units
// of kCountFractionBits.
struct TimesInfo {
  std::vector<std::pair<uint32_t, uint64_t>> counts;
  bool complete = true;  // false: some did not fit
};

// Estimates for the freed blocks of a stack, by age (AgeCell).
struct AgesInfo {
  uint32_t stack;  // index into TableSnapshot::stacks
  int bucket;      // AgeBucket
  FreedBy freed_by;
  double objects = 0, bytes = 0, ages_ns = 0, variance = 0;  // variance: of the objects
};
// Live blocks, by their age so far.
struct AliveInfo {
  uint32_t stack;
  int bucket;
  uint64_t class_bytes;  // upper edge of their size class
  double bytes = 0, variance = 0;
};

// The labels of a thread (include/holdfast.h): keys and values, ordered by key. Valid UTF-8.
using LabelPairs = std::vector<std::pair<std::string, std::string>>;

struct StackInfo {
  std::vector<TaggedPc> frames;  // leaf first
  bool truncated;
  bool overflow;        // the stack table was full
  bool missing;         // no stack could be captured
  uint32_t labels = 0;  // index into TableSnapshot::label_sets
};

// The largest value of a profile, and of the sum of a column (292 years). AddSaturating saturates there and returns
// false.
inline constexpr uint64_t kMaxValue = INT64_MAX;
inline bool AddSaturating(uint64_t value, uint64_t* sum) {
  const bool fits = *sum <= kMaxValue && value <= kMaxValue - *sum;
  *sum = fits ? *sum + value : kMaxValue;
  return fits;
}

inline constexpr uint32_t kNoStack = 0xffffffff;

struct LockInfo {  // one lock by address; exact counts
  uint64_t address;
  WaitKind kind;    // kRwlockWrite for readers and writers
  uint16_t number;  // as in RowInfo::number
  uint64_t waits, wait_ns, longest_ns, holds, hold_ns;
  uint64_t held_ns = 0, longest_held_ns = 0, alone_ns = 0;  // see LockRecord
  TimesInfo wait_times = {}, hold_times = {};
  // Threads that are waiting now, and for how long so far.
  uint64_t waiting = 0, waiting_ns = 0, longest_waiting_ns = 0;
  // The live heap sample that contains the lock, if any; or the frame of a function, with 0 bytes (locks_on_stacks.cc).
  uint64_t block_bytes = 0, block_offset = 0;
  // Index into TableSnapshot::stacks: where the block was allocated; or for a frame, a stack that begins with its function.
  uint32_t block_stack = kNoStack;
  uint64_t thread_offset = 0;  // for a thread-local variable: its distance below the thread's control block; 0: none
};

struct LockPairInfo {       // see LockPairRecord in layout.h
  uint32_t lock;            // index into TableSnapshot::locks_known
  uint32_t holder, waiter;  // index into TableSnapshot::stacks, or kNoStack
  double contentions, delay_ns;
};

// A wait that was ongoing when the snapshot was taken. See OngoingWait in layout.h. LookAtWaits (look_at_waits.h) sets
// `holder` and the members after it.
struct OngoingWaitInfo {
  uint32_t thread_id;  // as the process sees it; 0: a filter forbids the thread to ask for its id
  WaitKind kind;
  uint64_t lock, mutex;
  int64_t start_ns;               // CLOCK_MONOTONIC, at most TableSnapshot::monotonic_ns
  int64_t since_ns = 0;           // when the thread's sequence of wait slices began; at most start_ns
  uint32_t stack = kNoStack;      // index into TableSnapshot::stacks
  uint32_t noted_holder = 0;      // thread id in the lock when the wait began or was last checked
  uint64_t place = 0, owner = 0;  // of its slot in the table; turn and thread
  // The holder: index into TableSnapshot::threads, or kNoIndex.
  uint32_t holder = 0xffffffff;
  enum HolderSource : uint8_t {
    kNotKept,  // the lock does not name its holder
    kFree,     // the lock is free
    kNow,      // the lock names the holder now
    kAtStart,  // the lock named the holder when the wait began; now it cannot be read
    kLastGot,  // not kept: this thread was the last to get the lock after a wait
    kReaders,  // `readers` readers hold it; the lock does not name them
  } source = kNotKept;
  bool owner_died = false;  // for a robust mutex
  uint32_t readers = 0;
};
inline constexpr uint32_t kNoIndex = 0xffffffff;  // no thread or no wait

// A thread that took a sample (NotedThread in sampler/contract/records.h), and its name.
struct NotedThreadInfo {
  uint32_t id;     // as the process sees it
  uint32_t stack;  // index into TableSnapshot::stacks: a sample that the thread took
  int64_t when_ns;
};

// A thread that had not reported its end (LiveThread in sampler/contract/records.h).
struct LiveThreadInfo {
  uint32_t id;   // as the process sees it
  uint32_t row;  // index into TableSnapshot::rows: a row of kThreads
  int64_t when_ns;
};

// The last thread that got a lock after a wait.
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

// The contents of a table at one moment. Const once it is read: report/observe/process_state.h has the data from elsewhere.
struct TableSnapshot {
  ProcessIdentity process;
  int64_t wall_ns;     // when it was taken; for an ended process: when it ended, if known
  int64_t elapsed_ns;  // since the process began, by a monotonic clock if known
  uint64_t snapshot_every_ns, max_disk_bytes, max_memory_bytes, seed;
  uint32_t keep, profiles;
  bool peak;  // the state at peak use is requested
  // Exit handlers free what the program held. kAsked: main has returned or exit was called, and the handlers have not
  // run yet. kCopied, kMissed: they may have run.
  ExitMoment exit_moment = ExitMoment::kNone;
  // The peak use, and when it was reached. If every allocation is recorded, at most most_bytes was in use.
  double highest_bytes;
  int64_t highest_wall_ns;
  std::optional<double> most_bytes;
  // Blocks that count as freed because their frees are not seen (report/observe/table/frees_not_seen.h), by the path of the
  // allocating module.
  struct FreesNotSeen {
    double objects = 0, bytes = 0;
  };
  std::map<std::string, FreesNotSeen> frees_not_seen = {};
  std::vector<IntervalChange> heap_intervals, lock_intervals;  // oldest first; never empty
  std::vector<IntervalChange> cpu_intervals;
  CpuState cpu_state = CpuState::kOff;
  uint32_t cpu_timers = 0;
  bool cpu_is_pending = false;  // the process has not applied the newest interval yet
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
  uint64_t records_hash = 0;  // hash of all records, once the program has announced its end
  std::vector<ModuleInfo> modules;
  std::vector<LabelPairs> label_sets = {{}};  // the first is empty
  std::vector<StackInfo> stacks;
  std::vector<RowInfo> rows;
  std::vector<TimesInfo> row_times;
  Lifetimes lifetimes = Lifetimes::kNo;  // whether lifetimes are requested
  std::vector<AgesInfo> ages;
  std::vector<AliveInfo> alive;
  bool ages_are_drawn = false;  // small blocks are sampled, one in kAgedOneIn
  std::vector<LockInfo> locks_known;
  std::vector<LockPairInfo> lock_pairs;
  int64_t monotonic_ns = 0;  // when the ongoing waits were read
  std::vector<OngoingWaitInfo> ongoing;
  std::vector<LastGotInfo> last_got;
  std::vector<NotedThreadInfo> noted_threads;
  std::vector<LiveThreadInfo> live_threads;
  bool resident = false;                         // a profile of resident memory is requested
  std::map<uint16_t, std::string> thrown_types;  // mangled, by RowInfo::number
};

// `bytes`: a private copy of the used part of a table file, aligned to 64 bytes. Any thread. Errors: Unavailable while
// the table is being made, FailedPrecondition for another layout, DataLoss for corrupt data. Memory: at most 1 GiB for
// frames, and a few times `size`. Duplicate modules are merged; stacks without rows are dropped. `monotonic_ns`: time
// by the program's clock; none: unknown, or the process has ended.
absl::StatusOr<TableSnapshot> ReadSnapshot(const void* bytes, size_t size, int64_t wall_ns,
                                           std::optional<int64_t> monotonic_ns = std::nullopt);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_SNAPSHOT_H_
