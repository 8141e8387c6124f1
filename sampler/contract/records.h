// The records in a table, after its header: see layout.h.
#ifndef HOLDFAST_SAMPLER_CONTRACT_RECORDS_H_
#define HOLDFAST_SAMPLER_CONTRACT_RECORDS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/contract/losses.h"

namespace holdfast {

using Offset = uint32_t;  // in units of kUnit bytes
inline constexpr uint32_t kUnit = 8;

// Weighted sums are fixed point, so that they add to the same total in any order, without a lock. A row is full at 2^47
// objects or contentions, or 2^59 bytes or nanoseconds (0.6 EB; 18 years, a week of 1,000 threads); another row of the
// same kind then takes over (see Row). A weighted size is never below the interval, so 1/16 byte is an error of less
// than 2^-4/R.
inline constexpr int kCountFractionBits = 16;
inline constexpr int kAmountFractionBits = 4;
// A row with a sum this large takes no more samples. If there is no room for another row, it counts up to kMaxSum.
// Samples beyond that are counted as kSumFull, as for every other sum: no sum ever wraps to 0.
inline constexpr uint64_t kFullSum = uint64_t{1} << 63;
inline constexpr uint64_t kMaxSum = uint64_t{3} << 62;

enum class ProfileKind : uint8_t {
  kHeap = 0,
  kMutex = 1,
  kBlock = 2,
  kMap = 3,
  kThreads = 4,
  kExceptions = 5,
  kCpu = 6
};
inline constexpr int kProfileKinds = 7;
// As in file names and in the comment `kind`.
inline constexpr const char* kProfileKindNames[kProfileKinds] = {"heap",    "mutex",      "block", "map",
                                                                 "threads", "exceptions", "cpu"};
// HOLDFAST_PROFILES lists the first ones, which are all on by default. HOLDFAST_CPU switches the CPU profile on.
inline constexpr int kListedKinds = 6;
inline constexpr char kProfileKindList[] = "heap, mutex, block, map, threads, exceptions";
inline constexpr uint32_t KindBit(ProfileKind kind) { return 1u << static_cast<int>(kind); }
// Kinds with rows of waits or holds.
inline constexpr bool IsLockKind(ProfileKind kind) {
  return kind == ProfileKind::kMutex || kind == ProfileKind::kBlock;
}
inline constexpr uint32_t kAllKinds = (1u << kListedKinds) - 1;

// The kind of lock or event. The names are in `kWaitKindNames`, in this order.
enum class WaitKind : uint8_t {
  kNone = 0,
  kMutex,
  kRwlockRead,
  kRwlockWrite,
  kCondition,
  kSpin,
  kSemaphore,
  kBarrier,
  kOnce,
  kJoin,
  kFutex,
  kCustom,  // the program's own lock, reported through include/holdfast.h
};
inline constexpr int kWaitKinds = 12;
// Locks that do not name their holder. Only the last thread that got the lock after a wait is known.
inline bool KeepsNoHolder(WaitKind kind) {
  return kind == WaitKind::kFutex || kind == WaitKind::kSpin || kind == WaitKind::kCustom;
}
inline bool IsRwlock(WaitKind kind) { return kind == WaitKind::kRwlockRead || kind == WaitKind::kRwlockWrite; }
inline constexpr const char* kWaitKindNames[kWaitKinds] = {"",          "mutex", "rwlock-read", "rwlock-write",
                                                           "condition", "spin",  "semaphore",   "barrier",
                                                           "once",      "join",  "futex",       "custom"};

// The kind of a mapping, in the order of `kMappingKindNames`.
enum class MappingKind : uint8_t { kNone = 0, kAnonymous, kFile, kStack, kArena, kBrk, kShm };
inline constexpr int kMappingKinds = 7;
inline constexpr const char* kMappingKindNames[kMappingKinds] = {"",      "anonymous", "file", "stack",
                                                                 "arena", "brk",       "shm"};

// How an exception was thrown: bits of Row::thrown.
enum ThrownBit : uint8_t {
  kRethrown = 1,  // a caught exception is thrown on
  kRust = 2,      // a panic: its type has no name
  kForeign = 4,   // of another language's runtime
};
inline constexpr uint8_t kThrownBits = kRethrown | kRust | kForeign;

// Deepest stack that is kept, leaf first. Frames beyond it (towards main) are cut off and counted. Labels are one more
// frame.
inline constexpr int kMaxDepth = 256;

// ---- Records ----

// A program counter in a stack. Bits 0..47: the return address. Bits 48..58: the tag of its module (0 unless another
// module was at the same address before, see Module::tag; kNoModuleTag outside of all modules, and in modules without a
// record). Other bits: 0 (but see kLabelMark and kIndexed).
using TaggedPc = uint64_t;
inline constexpr uint64_t kPcMask = (uint64_t{1} << 48) - 1;
inline constexpr int kPcTagShift = 48;
inline constexpr int kTagBits = 11;
inline constexpr uint16_t kNoModuleTag =
    255;  // code of a JIT compiler, at addresses where a module may be at another time
inline constexpr bool IsOutsideModules(uint64_t tagged) { return tagged >> kPcTagShift == kNoModuleTag; }

// The labels of the thread that took a sample (include/holdfast.h) are the innermost frame of its stack: this bit, which
// no address and no tag has, and the offset of a LabelSet (0: there was no room for one). So stacks with different labels
// are different stacks that share all nodes but the innermost.
inline constexpr TaggedPc kLabelMark = TaggedPc{1} << 62;
inline constexpr bool IsLabels(TaggedPc frame) { return (frame & kLabelMark) != 0; }

// `key` 0 `value` 0, for each label, by key in ascending order; no key twice.
struct LabelSet {
  uint16_t bytes;
  char text[];
};
inline constexpr uint32_t kMaxLabelSets = 4096;
// The key of the thread's name (sampler/table/name_labels.h), which no program can set; `thread` in profiles.
inline constexpr char kThreadNameKey[] = "\x01thread";
inline constexpr uint32_t kMaxLabelKey = 64, kMaxLabelValue = 128;  // bytes; longer ones are cut
inline constexpr uint32_t kMaxLabelBytes = 512;                     // of a set, zeros included
inline constexpr char kLabelOverflow[] = "[overflow]";              // replaces a value or a set when there is no room

// A few frames in the tree of calls. Stacks share the nodes of their outer frames. A stack is cut into pieces of
// kNodeFrames, from its outermost frame on; the innermost piece, one to kNodeFrames frames, is in the Stack itself. 30
// frames that differ only in the leaf cost one stack of at most 56 bytes. One frame a node would need no less memory
// and four times the look-ups. Six frames a node would need a tenth more memory (100,000 stacks that branch as a
// program's do, and all of g++'s).
//
//     main … parse ◄── read … make_string ◄── Stack         `parent` points towards main
//                  ◄── write … reply      ◄── Stack
//
// The program finds the children of a node by two lists, `nodes` and `stacks`, of up to kListedCalls each. If there are
// more, the newest has kIndexed, and the rest are in an index in the program's private memory.
inline constexpr int kNodeFrames = 4, kListedCalls = 16;
inline constexpr TaggedPc kIndexed = TaggedPc{1} << 63;  // in frames[0]
struct Node {
  Offset parent;  // 0: the outermost node
  Offset older;   // the previous one with the same parent
  std::atomic<Offset> nodes, stacks;
  TaggedPc frames[kNodeFrames];  // innermost first
};
static_assert(sizeof(Node) == 48);
inline constexpr TaggedPc kTaggedPcMask = (TaggedPc{1} << (kPcTagShift + kTagBits)) - 1;  // bits of a frame with code
static_assert((kTaggedPcMask & (kLabelMark | kIndexed)) == 0 && kLabelMark != kIndexed);

// One distinct call path.
struct Stack {
  uint32_t hash;             // lower half; the upper half is in the index
  Offset next;               // an older one in the same list of TableHeader::stack_lists
  Offset parent;             // Node; 0: none
  Offset older;              // the previous one with the same parent
  std::atomic<Offset> rows;  // newest Row
  uint16_t depth;            // number of all frames
  uint8_t count;             // number of `frames`; 0 for the overflow stack and for samples without a stack
  bool truncated : 1;        // outer frames are missing
  bool indexed : 1;          // see kIndexed
  TaggedPc frames[];         // innermost first
};
static_assert(sizeof(Stack) == 24);

// The meaning of a Row's sums. Heap rows use the first group, lock rows (mutex, block) the second. Map rows use the
// first four of the first group, exact: a mapping is an object. k…Variance: Σ (1−p)/p² and Σ x²(1−p)/p², the bits of a
// double.
enum HeapSum {
  kAllocObjects,
  kAllocSpace,
  kFreeObjects,
  kFreeSpace,
  kAllocObjectsVariance,
  kAllocSpaceVariance,
  kFreeObjectsVariance,
  kFreeSpaceVariance,
  // In rows of one thread, which have no variance: what other threads freed.
  kFreeObjectsByOthers = kFreeObjectsVariance,
  kFreeSpaceByOthers = kFreeSpaceVariance
};
// kTimes: the offset of a TimeHistogram of weighted counts of waits (block) or holds (mutex); kNoRoom, or 0. kAlone:
// the part of kDelay during which the reader was the only holder.
enum LockSum { kContentions, kDelay, kContentionsVariance, kDelayVariance, kLongest, kLockSamples, kTimes, kAlone };
// Exact, whole threads in kCountFractionBits. kThreadsEnded counts threads that reported their end; LiveThread (below)
// covers others.
enum ThreadSum { kThreadsCreated, kThreadsEnded };
enum ExceptionSum { kThrown, kThrownVariance };
// kCpuTime: each sample adds the interval of its timer. kCpuVariance: the sum of the squared intervals.
enum CpuSum { kCpuSamples, kCpuTime, kCpuVariance };
inline constexpr int kRowSums = 8;
inline constexpr int kListedRows = 4;

// The sums of one stack × size class (heap) or stack × kind of wait (locks). In use = alloc − free. A stack may have
// several equal rows: once one is full (kFullSum), the next takes over, and the older one only counts frees of its own
// blocks.
//
// When every allocation is recorded, a heap row may belong to one thread (Row::owner), which adds to it without a lock
// prefix. That saves a quarter of a recorded malloc and free. The last two words count frees by other threads.
struct Row {
  Offset next;  // next row of the same stack
  ProfileKind profile : 7;
  bool indexed : 1;  // see kIndexed: its stack has more than kListedRows rows, which the program finds by an index
  union {
    WaitKind wait;        // lock rows
    uint8_t owner;        // heap rows: ThreadState::owner, 0 = all threads
    MappingKind mapping;  // map rows
    uint8_t thrown;       // exception rows: ThrownBits
  };
  uint16_t
      size_class;  // SizeClass(bytes) in heap rows (sampler/contract/weight.h; kNoSizeClass: all sizes); in lock rows 0, or the number of
  // the lock if locks are kept apart (LockRecord::number); in exception rows ThrownType::number; in thread rows
  // StackNumber
  Offset older;  // heap rows: the row made before, of any stack (RecordShard::newest_row)
  // Heap rows: the newest AgeCell. A row of one thread has the row beside it here (kAgedOwner), which has the cells. 0:
  // none.
  std::atomic<Offset> ages;
  std::atomic<uint64_t> sums[kRowSums];
};
static_assert(sizeof(Row) == 80);

// Threads that may own rows; later threads share rows.
inline constexpr uint32_t kMaxOwners = 32;
// Owner of the row beside a thread's own, for blocks with a known age. A free recognizes such a block by its row, and
// other frees pay nothing. The thread adds allocations as owner; all frees count as "by others". The row is in no
// stack's list.
inline constexpr uint8_t kAgedOwner = 255;

// An executable, shared library or the vdso, recorded when a stack first passes through it. Followed by `segments`
// ModuleSegment records, `build_id_bytes` bytes of build id, and `path_bytes` bytes of path (no terminating zero).
struct Module {
  Offset next;   // next module, newest first
  uint16_t tag;  // no two modules at the same addresses share a tag
  uint16_t segments;
  uint64_t start, end;             // runtime addresses of the whole object
  uint64_t bias;                   // runtime address − ELF address
  std::atomic<uint32_t> unloaded;  // 1 after dlclose; see module_flags.h
  uint16_t build_id_bytes;
  uint16_t path_bytes;
};
static_assert(sizeof(Module) == 40);

struct ModuleSegment {  // one executable PT_LOAD, page-aligned as it is mapped
  uint64_t start, end;  // runtime addresses
  uint64_t file_offset;
};

// Live samples: a slot for each sampled block that is not yet freed. Levels 0, 1 and 2 have one segment each, later levels
// 2, 4, 8 … segments, which are made one by one. Level 0 is small because most processes have few live samples, and each
// reader reads all its slots. An address may only occupy the kLiveWindow slots after its hash, in any level. So a look-up
// reads a fixed number of slots, a removal leaves nothing in its slot, and neither ever waits.
inline constexpr int kLiveLevels = 12;
inline constexpr uint32_t kLiveWindow = 16;
inline constexpr uint32_t kLiveSegments = 2 + (1 << (kLiveLevels - 2)) - 1;
// Slots of the segment with this index in TableHeader::live_segments.
inline constexpr uint32_t LiveSlotsIn(uint32_t segment) { return segment == 0 ? 256 : segment == 1 ? 2048 : 8192; }

struct LiveSample {
  uint64_t size : 48;    // requested bytes: no allocator has a larger block
  uint64_t moment : 16;  // ThreadState::samples right after this sample
  Offset row;
  uint32_t interval_index : 5;  // index in TableHeader::heap_intervals of the R for this sample
  uint32_t beside_shadow : 1;   // the block is in the shadow map too: only its age is here
  uint32_t thread : 26;         // id of the thread that allocated it; 0: not known
  int64_t born_ns;              // CLOCK_MONOTONIC; 0: not known
};
static_assert(sizeof(LiveSample) == 24);

// A segment is `slots` keys (atomic addresses, 0 = free, lowest bit = being changed) and then `slots` LiveSamples.

// The ages of a row's freed blocks: a cell for each AgeBucket (age_buckets.h) and kind of free that occurred.
//
//     Row ──ages──► AgeCell (1 ms, same thread) ──next──► AgeCell (2 µs, temporary)
//
// Estimates, unbiased: each block with a known age adds 1/p, where p is the chance that the block was sampled and its
// age taken. When every allocation is recorded (interval 1), one small block in kAgedOneIn, chosen at random, has an
// age; every large one has. After a race a list may have two equal cells; both count.
enum class FreedBy : uint8_t {
  kSameThread = 0,
  kOtherThread,
  kTemporary,  // by the same thread, before it allocated anything else
};
inline constexpr int kFreedBys = 3;
struct AgeCell {
  Offset next;
  uint8_t bucket;
  FreedBy freed_by;
  uint16_t none;
  std::atomic<uint64_t> objects, bytes;     // fixed point, as in rows
  std::atomic<uint64_t> ages_ns, variance;  // bits of a double: Σ age/p; of the objects Σ (1−p)/p²
};
static_assert(sizeof(AgeCell) == 40);
inline constexpr uint32_t kAgedOneIn = 384;

// Live small blocks sampled at interval 1: a word for each 32 bytes of address space that contains such blocks, found
// by the address alone. Blocks that do not fit (kLargestShadowed, another alignment than 16, no room) are ordinary live
// samples.
//
//     address ── bits 19 … ──► ShadowDirectory ──► ShadowChunk ── bits 5 … 18 ──► word      bits 0 … 2
//                                                                              0                0: none
//                                                                              row × 8          1: a block begins here; 5: in the upper half
//                                                                              size × 8         2: of a block that begins in the word before
//                                                                              ShadowTinies × 8 6: tiny blocks begin here
//
// The row's size class is the size of a block of up to kLargestOwnClass bytes. A larger one covers the next 32 bytes,
// so its size is in their word. A size remains when its block is gone, and means the same as 0. An entry of the
// directory is (address >> kShadowShift) << 32 | offset of the chunk; 0: none. If two address ranges share an entry, the
// first one has it.
//
// Blocks of glibc begin at least 32 bytes apart. Other allocators put several blocks of up to kLargestTiny bytes into
// 32, at multiples of 8, in pages that have no other blocks. These blocks have a word for each 8 bytes, in ShadowTinies.
inline constexpr int kShadowShift = 19, kShadowGrain = 32, kShadowAlignment = 16;
inline constexpr uint32_t kShadowSlots = (1 << kShadowShift) / kShadowGrain;
inline constexpr uint32_t kShadowChunks = 4096;
inline constexpr uint32_t kTinyGrain = 8, kTinyPage = 4096, kTinyPages = (1 << kShadowShift) / kTinyPage;
inline constexpr uint64_t kLargestTiny = 16;
// A block larger than kMakesChunk never makes a chunk: such blocks are few. It uses a chunk that smaller blocks have
// made.
inline constexpr uint64_t kMakesChunk = 1024, kLargestShadowed = 16 << 10;
struct ShadowTinies {
  std::atomic<uint32_t> slots[kTinyPage / kTinyGrain];
  uint64_t none;  // a larger block would have its size here
};
struct ShadowChunk {
  std::atomic<uint32_t> slots[kShadowSlots + 1];  // the last is for the size of a block that begins in the one before
  std::atomic<Offset> tinies[kTinyPages];         // 0: none
};
struct ShadowDirectory {
  std::atomic<uint64_t> chunks[kShadowChunks];
};
static_assert(sizeof(ShadowChunk) == (64 << 10) + 4 + 512 && sizeof(ShadowTinies) == 2048 + 8);

// Histogram of waits or holds by length, see TimeBucket (time_buckets.h). A part is made for the first length in its
// two octaves. Most locks need three to five parts, a third of a KiB.
//
//     LockRecord ──► TimeHistogram ──► parts[0]                     0: none that short
//                                      parts[5] ──► TimePart        65 µs … 262 µs: eight counts
inline constexpr int kBucketsInPart = 8, kTimeParts = 20;
inline constexpr uint32_t kTimeBuckets = kBucketsInPart * kTimeParts;
struct TimeHistogram {
  std::atomic<Offset> parts[kTimeParts];
};
struct TimePart {
  std::atomic<uint64_t> counts[kBucketsInPart];
};
static_assert(sizeof(TimeHistogram) == 80 && sizeof(TimePart) == 64);
// Marks a missing histogram or part, for good: there was no room for it, so counts are missing.
inline constexpr Offset kNoRoom = 1;

// One lock that a thread waited for, by its address and kind (readers and writers of one lock are of one kind,
// rwlock-write). Every wait and hold is counted. A new lock at the same address counts as the same lock.
struct LockRecord {
  uint64_t lock;
  Offset next;  // next record of the same hash head
  WaitKind kind;
  uint16_t number;  // from 1
  std::atomic<uint64_t> waits, wait_ns, longest_ns;
  std::atomic<uint64_t> holds, hold_ns;  // hold_ns: waiting of all threads during these holds
  // The lengths of holds with a waiter: see LockHold::held_ns in sampler/record/holds.h.
  std::atomic<uint64_t> held_ns, longest_held_ns;
  std::atomic<uint64_t> alone_ns;              // part of held_ns with a single reader
  std::atomic<Offset> wait_times, hold_times;  // TimeHistogram; kNoRoom; 0: none yet
};
static_assert(sizeof(LockRecord) == 88);

// Which holder kept which waiter waiting, for which lock: sums of samples, weighted as in Rows (fixed point).
//   holder and waiter   a sampled hold and its waiters: divided among the known ones
//   holder alone        a sampled hold without a captured waiter
//   waiter alone        a sampled wait, for any holder: pairs with holders contain its delay as well
struct LockPairRecord {
  Offset next;            // next pair of the same hash head
  Offset holder, waiter;  // Row; 0 = not known
  Offset lock;            // LockRecord
  std::atomic<uint64_t> contentions, delay;
};
static_assert(sizeof(LockPairRecord) == 32);
// A thread that took a sample, so that readers can name it: the latest of the threads with the same last bits of their ids.
// `when_ns`: CLOCK_MONOTONIC. A thread of this id that began later is another thread with a reused id.
struct NotedThread {
  std::atomic<uint64_t> who;  // its id, and from bit 32 on the Row of its sample; 0: none, or being written
  std::atomic<int64_t> when_ns;
};
static_assert(sizeof(NotedThread) == 16);
inline constexpr uint32_t kNotedThreads = 512;
inline constexpr int kNotedRowShift = 32;

// A live thread, created at `row` of kThreads. A thread that returns or calls pthread_exit frees the entry and counts
// as ended. Other threads (cancelled; ended by a system call) leave it: a reader checks whether a thread of that id
// exists and began no later than `when_ns`.
struct LiveThread {
  std::atomic<uint64_t> who;     // its id, and from bit 32 on the Row; 0: free
  std::atomic<int64_t> when_ns;  // CLOCK_MONOTONIC, soon after its start; 0: about to be written
};
static_assert(sizeof(LiveThread) == 16);
// Segments of 256, 512, 1,024 … entries, made when needed.
inline constexpr int kThreadSegments = 6;
inline constexpr uint32_t kThreadSlots0 = 256;

// The type of an exception, mangled, as its runtime names it. Rows contain `number`; 0 is none.
struct ThrownType {
  Offset next;  // next record of the same hash head
  uint16_t number;
  uint16_t bytes;
  char text[];
};
inline constexpr uint32_t kTypeHeads = 64;
inline constexpr uint32_t kMaxTypes = 1024, kMaxTypeBytes = 1024;
inline constexpr uint16_t kTypeOverflow = 0xffff;  // instead of a number: there was no room

inline constexpr uint32_t kLockHeads = 256;
inline constexpr uint32_t kPairHeads = 1024;
inline constexpr uint32_t kMaxLocks = 4096;
inline constexpr uint32_t kMaxPairs = 8192;

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_RECORDS_H_
