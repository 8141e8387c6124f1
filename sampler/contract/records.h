// What lies in a table behind its header: see layout.h.
#ifndef HOLDFAST_SAMPLER_CONTRACT_RECORDS_H_
#define HOLDFAST_SAMPLER_CONTRACT_RECORDS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/contract/losses.h"

namespace holdfast {

using Offset = uint32_t;  // in units of kUnit bytes
inline constexpr uint32_t kUnit = 8;

// Weighted sums are fixed point, so that they add in any order to the same total, without a lock.
// Objects and contentions: 2^47 of them fill a row, bytes and nanoseconds 2^59 (0.6 EB; 18 years, a week of 1,000 threads);
// then another row of the same kind goes on (see Row). A weighted size is never below the interval, so 1/16 byte is an error
// of under 2^-4/R.
inline constexpr int kCountFractionBits = 16;
inline constexpr int kAmountFractionBits = 4;
// A row with a sum of that much takes no more samples. Where there is no room for another it does, up to kMostSum; what comes
// later is counted as kSumFull. So is what any other sum has no room for: none ever begins anew at 0.
inline constexpr uint64_t kFullSum = uint64_t{1} << 63;
inline constexpr uint64_t kMostSum = uint64_t{3} << 62;

enum class ProfileKind : uint8_t { kHeap = 0, kMutex = 1, kBlock = 2, kMap = 3, kThreads = 4, kExceptions = 5 };
inline constexpr int kProfileKinds = 6;
// As in file names, in the comment `kind`, and in HOLDFAST_PROFILES.
inline constexpr const char* kProfileKindNames[kProfileKinds] = {"heap", "mutex",   "block",
                                                                 "map",  "threads", "exceptions"};
inline constexpr char kProfileKindList[] = "heap, mutex, block, map, threads, exceptions";
inline constexpr uint32_t KindBit(ProfileKind kind) { return 1u << static_cast<int>(kind); }
// Whose rows are of waits or holds.
inline constexpr bool IsLockKind(ProfileKind kind) {
  return kind == ProfileKind::kMutex || kind == ProfileKind::kBlock;
}
inline constexpr uint32_t kAllKinds = (1u << kProfileKinds) - 1;

// What a thread waited for or held. The names are in `kWaitKindNames`, in this order.
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
  kCustom,  // a lock of the program's own that it tells of (include/holdfast.h)
};
inline constexpr int kWaitKinds = 12;
// Locks that do not say who holds them: who got them last after a wait, is known.
inline bool KeepsNoHolder(WaitKind kind) {
  return kind == WaitKind::kFutex || kind == WaitKind::kSpin || kind == WaitKind::kCustom;
}
inline bool IsRwlock(WaitKind kind) { return kind == WaitKind::kRwlockRead || kind == WaitKind::kRwlockWrite; }
inline constexpr const char* kWaitKindNames[kWaitKinds] = {"",          "mutex", "rwlock-read", "rwlock-write",
                                                           "condition", "spin",  "semaphore",   "barrier",
                                                           "once",      "join",  "futex",       "custom"};

// What a mapping is, in the order of `kMappingKindNames`.
enum class MappingKind : uint8_t { kNone = 0, kAnonymous, kFile, kStack, kArena, kBrk, kShm };
inline constexpr int kMappingKinds = 7;
inline constexpr const char* kMappingKindNames[kMappingKinds] = {"",      "anonymous", "file", "stack",
                                                                 "arena", "brk",       "shm"};

// How an exception came to be thrown: bits of Row::thrown.
enum ThrownBit : uint8_t {
  kRethrown = 1,  // what was caught goes on
  kRust = 2,      // a panic: its type has no name
  kForeign = 4,   // of another language's runtime
};
inline constexpr uint8_t kThrownBits = kRethrown | kRust | kForeign;

// Deepest stack that is kept, leaf first; what is above (towards main) is cut off and counted. Its labels are one frame more.
inline constexpr int kMaxDepth = 256;

// ---- Records ----

// A program counter in a stack: bits 0..47 the return address, bits 48..58 the tag of its module (0 unless another
// module lay at the same address before: see Module::tag; kNoModuleTag outside of all modules, and in those of which there is
// no record), other bits 0 (but see kIndexed).
using TaggedPc = uint64_t;
inline constexpr uint64_t kPcMask = (uint64_t{1} << 48) - 1;
inline constexpr int kPcTagShift = 48;
inline constexpr int kTagBits = 11;
inline constexpr uint16_t kNoModuleTag =
    255;  // a JIT compiler's code, which may lie where a module lies at another time
inline constexpr bool IsOutsideModules(uint64_t tagged) { return tagged >> kPcTagShift == kNoModuleTag; }

// The labels of the thread that took a sample (include/holdfast.h) stand in its stack as the innermost frame, where no code can be:
// this bit, and the offset of a LabelSet; 0: there was no room for one. So stacks of different labels are different stacks that
// share all nodes but the innermost.
inline constexpr TaggedPc kLabelMark = TaggedPc{1} << 47;
inline constexpr bool IsLabels(TaggedPc frame) { return (frame & kPcMask) >> 47 != 0; }

// `key` 0 `value` 0, for each label, by key in ascending order; no key twice.
struct LabelSet {
  uint16_t bytes;
  char text[];
};
inline constexpr uint32_t kMostLabelSets = 4096;
// The key of the thread's name (sampler/tables/name_labels.h), which no program can set; `thread` in profiles.
inline constexpr char kThreadNameKey[] = "\x01thread";
inline constexpr uint32_t kMostLabelKey = 64, kMostLabelValue = 128;  // bytes; longer ones are cut
inline constexpr uint32_t kMostLabelBytes = 512;                      // of a set, zeros included
inline constexpr char kLabelOverflow[] = "[overflow]";                // a value, or a set, that there was no room for

// Some frames in a tree of calls: stacks that share their outer frames share those nodes. A stack is cut into pieces of
// kNodeFrames from its outermost frame on; the innermost piece, of one to kNodeFrames, stands in the Stack itself. 30 frames that
// differ in the leaf alone cost one stack of at most 56 bytes. One frame a node would need no less memory, and four look-ups for one;
// six frames a node would need a tenth more (100,000 stacks that branch as a program's do, and all of g++'s).
//
//     main … parse ◄── read … make_string ◄── Stack         `parent` points towards main
//                  ◄── write … reply      ◄── Stack
//
// The program finds what a node leads to by its lists: `nodes` and `stacks` are the heads, of up to kListedCalls each; where there are
// more, the newest has kIndexed, and what is in no list stands in an index of the program's own.
inline constexpr int kNodeFrames = 4, kListedCalls = 16;
inline constexpr TaggedPc kIndexed = TaggedPc{1} << 63;  // in frames[0]
struct Node {
  Offset parent;  // 0: the outermost node
  Offset older;   // the one before, of the same parent
  std::atomic<Offset> nodes, stacks;
  TaggedPc frames[kNodeFrames];  // innermost first
};
static_assert(sizeof(Node) == 48);
inline constexpr TaggedPc kTaggedPcMask = (TaggedPc{1} << (kPcTagShift + kTagBits)) - 1;  // what a frame may have

// One distinct call path.
struct Stack {
  uint32_t hash;             // lower half: the upper one stands in the index
  Offset next;               // an older one, of the same list of TableHeader::stack_lists
  Offset parent;             // Node; 0: none
  Offset older;              // the one before, of the same parent
  std::atomic<Offset> rows;  // newest Row
  uint16_t depth;            // of all frames
  uint8_t count;             // of those below; 0 for the overflow stack and for samples without a stack
  bool truncated : 1;        // outer frames are missing
  bool indexed : 1;          // as kIndexed
  TaggedPc frames[];         // innermost first
};
static_assert(sizeof(Stack) == 24);

// Which sums of a Row mean what. Heap rows use the first group, lock rows (mutex, block) the second. Map rows use the first four of
// the first, exact: a mapping is an object.
// k…Variance: Σ (1−p)/p² and Σ x²(1−p)/p², the bits of a double.
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
// kTimes: the offset of a TimeHistogram of weighted counts, of waits (block) or of holds (mutex); kNoRoom, or 0.
// kAlone: of kDelay, for as much of the hold as its reader was the only one.
enum LockSum { kContentions, kDelay, kContentionsVariance, kDelayVariance, kLongest, kLockSamples, kTimes, kAlone };
// Exact, whole threads in kCountFractionBits. Ended: as far as they said so; of others their LiveThread tells (below).
enum ThreadSum { kThreadsCreated, kThreadsEnded };
enum ExceptionSum { kThrown, kThrownVariance };
inline constexpr int kRowSums = 8;
inline constexpr int kListedRows = 4;

// One stack × size class (heap) or stack × kind of wait (locks), and its sums. In-use = alloc − free. A stack may have several
// that are alike: once one is full (kFullSum), the next takes over, and the older ones only see frees of their own blocks.
//
// Where every allocation is recorded a heap row may belong to one thread (Row::owner), which adds to it without a lock prefix: a
// quarter of what a recorded malloc and free take. What others free of its blocks stands in the last two words.
struct Row {
  Offset next;  // next row of the same stack
  ProfileKind profile : 7;
  bool indexed : 1;  // as kIndexed: its stack has more than kListedRows, which the program finds by an index
  union {
    WaitKind wait;        // lock rows
    uint8_t owner;        // heap rows: ThreadState::owner, 0 = every thread's
    MappingKind mapping;  // map rows
    uint8_t thrown;       // exception rows: ThrownBits
  };
  uint16_t
      size_class;  // SizeClass(bytes) in heap rows (sampler/contract/weight.h; kNoSizeClass: all sizes); in lock rows 0, or the number of
  // the lock if they are kept apart (LockRecord::number); in exception rows ThrownType::number; in thread rows StackNumber
  Offset older;  // heap rows: the one that was made before, of any stack (RecordShard::newest_row)
  // Heap rows: the newest AgeCell; of a row that belongs to a thread, the row beside it (kAgedOwner), which has them. 0: none.
  std::atomic<Offset> ages;
  std::atomic<uint64_t> sums[kRowSums];
};
static_assert(sizeof(Row) == 80);

// Threads that may own rows; later ones share.
inline constexpr uint32_t kMostOwners = 32;
// Owner of the row beside a thread's own: of the blocks of that whose age is known. So a free finds by the row that it has to ask,
// and all others pay nothing. It adds its allocations as owner; all frees are "of others". In no stack's list.
inline constexpr uint8_t kAgedOwner = 255;

// An executable, shared library or the vdso, recorded when a stack first passes through it. Followed by `segments`
// ModuleSegment records, `build_id_bytes` bytes of build id, and `path_bytes` bytes of path (no terminating zero).
struct Module {
  Offset next;   // next module, newest first
  uint16_t tag;  // no two modules at the same addresses have the same
  uint16_t segments;
  uint64_t start, end;             // runtime addresses of the whole object
  uint64_t bias;                   // runtime address − ELF address
  std::atomic<uint32_t> unloaded;  // 1 once dlclose took it away
  uint16_t build_id_bytes;
  uint16_t path_bytes;
};
static_assert(sizeof(Module) == 40);

struct ModuleSegment {  // one executable PT_LOAD, page-aligned as it is mapped
  uint64_t start, end;  // runtime addresses
  uint64_t file_offset;
};

// Live samples: a slot for each sampled block that has not been freed. Level 0 has kLiveSlots0 slots and each further
// level twice as many, in segments of at most kLiveSegmentSlots (192 KiB) that are made one by one; an address may only
// lie in the kLiveWindow slots after its hash, in any level. So a look-up reads a fixed number of slots, a removal leaves
// nothing behind, and neither ever waits.
inline constexpr int kLiveLevels = 12;
inline constexpr uint32_t kLiveSlots0 = 2048;
inline constexpr uint32_t kLiveSegmentSlots = 8192;
inline constexpr uint32_t kLiveWindow = 16;
// Levels of one segment: 0, 1, 2; then 2, 4, 8 … of them.
inline constexpr uint32_t kLiveSegments = 2 + (1 << (kLiveLevels - 2)) - 1;

struct LiveSample {
  uint64_t size : 48;    // requested bytes: no larger block can be had
  uint64_t moment : 16;  // ThreadState::samples, right after it was sampled
  Offset row;
  uint32_t interval_index : 5;  // TableHeader::heap_intervals: the R under which it was sampled
  uint32_t beside_shadow : 1;   // it stands in the shadow map as well: only its age is here
  uint32_t thread : 26;         // id of the thread that allocated it; 0: not known
  int64_t born_ns;              // of CLOCK_MONOTONIC; 0: not known
};
static_assert(sizeof(LiveSample) == 24);

// A segment is `slots` keys (atomic addresses, 0 = free, lowest bit = being changed) and then `slots` LiveSamples.

// How old the freed blocks of a row were: a cell for each AgeBucket (age_buckets.h) and way of being freed that occurred.
//
//     Row ──ages──► AgeCell (1 ms, same thread) ──next──► AgeCell (2 µs, temporary)
//
// Estimates, unbiased: each block whose age is known adds 1/p, p being the chance that it was sampled and its age taken. Where every
// allocation is recorded (interval 1), that of one small block in kAgedOneIn is taken, chosen at random; of others each.
// Of a race two that are alike may be in a list: both count.
enum class FreedBy : uint8_t {
  kSameThread = 0,
  kOtherThread,
  kTemporary,  // the same thread, before it allocated anything else
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

// Live small blocks that were sampled at interval 1: a word for each 16 bytes of address space in which such blocks lie, found
// by the address alone. What does not fit (kLargestShadowed, another alignment, no room) is a live sample like any other.
//
//     address ── bits 19 … ──► ShadowDirectory ──► ShadowChunk ── bits 4 … 18 ──► row                    0: no such block
//                                                                      the next ► kShadowSize + bytes    where they are more than 16
//
// Of a block of up to 16 bytes the row says the size (SizeClass); in the second 16 bytes of a larger one no other block begins. A
// size stays there when its block is gone: it is as good as 0.
// An entry of the directory is (address >> kShadowShift) << 32 | offset of the chunk; 0: none. Addresses that share an entry:
// who comes first has it.
inline constexpr int kShadowShift = 19, kShadowGrain = 16;
inline constexpr uint32_t kShadowSlots = (1 << kShadowShift) / kShadowGrain;
inline constexpr uint32_t kShadowSize = uint32_t{1}
                                        << 31;  // in a word that is a size; Offsets of rows are smaller: BeginShadow
inline constexpr uint32_t kShadowChunks = 4096;
// Of larger blocks than kMakesChunk there are too few for a chunk of their own: those have a word where others lie as well.
inline constexpr uint64_t kMakesChunk = 1024, kLargestShadowed = 16 << 10;
struct ShadowChunk {
  std::atomic<uint32_t> slots[kShadowSlots + 1];  // the last for the size of a block that begins in the one before
};
struct ShadowDirectory {
  std::atomic<uint64_t> chunks[kShadowChunks];
};
static_assert(sizeof(ShadowChunk) == (128 << 10) + 4);

// How many waits or holds were how long, by TimeBucket (time_buckets.h). A part is made when the first length of its two octaves
// comes: most locks need three to five of them, a third of a KiB.
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
// For good, in the place of a histogram or of a part: there was no room for it, so counts are missing.
inline constexpr Offset kNoRoom = 1;

// One lock that was waited for, by its address and kind (readers and writers of one lock are of one kind, rwlock-write).
// Every wait and hold is counted. Another lock that comes to lie at the same address is taken for the same.
struct LockRecord {
  uint64_t lock;
  Offset next;  // next record of the same hash head
  WaitKind kind;
  uint16_t number;  // from 1
  std::atomic<uint64_t> waits, wait_ns, longest_ns;
  std::atomic<uint64_t> holds, hold_ns;  // hold_ns: how long others waited during them, all together
  // How long each hold was, as far as somebody waited during it: see LockHold::held_ns in sampler/locks/holds.h.
  std::atomic<uint64_t> held_ns, longest_held_ns;
  std::atomic<uint64_t> alone_ns;              // of held_ns: there was one reader
  std::atomic<Offset> wait_times, hold_times;  // TimeHistogram; kNoRoom; 0: none yet
};
static_assert(sizeof(LockRecord) == 88);

// Who kept whom waiting, for which lock: sums of samples, weighted as in Rows (fixed point).
//   holder and waiter   a sampled hold, and who waited during it: divided among those that are known
//   holder alone        a sampled hold of whose waiters none was captured
//   waiter alone        a sampled wait, whoever held: its delay stands in pairs with holders as well
struct LockPairRecord {
  Offset next;            // next pair of the same hash head
  Offset holder, waiter;  // Row; 0 = not known
  Offset lock;            // LockRecord
  std::atomic<uint64_t> contentions, delay;
};
static_assert(sizeof(LockPairRecord) == 32);
// A thread that took a sample, so that who looks from outside can call it by its name: the latest of those whose ids are
// equal in their last bits. `when_ns`: of CLOCK_MONOTONIC; a thread that began later has got the id of one that had ended.
struct NotedThread {
  std::atomic<uint64_t> who;  // its id, and from bit 32 on the Row of its sample; 0: nobody, or being written
  std::atomic<int64_t> when_ns;
};
static_assert(sizeof(NotedThread) == 16);
inline constexpr uint32_t kNotedThreads = 512;
inline constexpr int kNotedRowShift = 32;

// A thread that lives, and was created where `row` of kThreads says. Who ends by returning or by pthread_exit gives it back, and
// counts as ended. Others (cancelled; exit by system call) leave it behind: who reads it looks whether there is a thread of that id
// which began no later than `when_ns`.
struct LiveThread {
  std::atomic<uint64_t> who;     // its id, and from bit 32 on the Row; 0: free
  std::atomic<int64_t> when_ns;  // of CLOCK_MONOTONIC, soon after it began; 0: about to be written
};
static_assert(sizeof(LiveThread) == 16);
// Segments of 256, 512, 1,024 … of them, made when they are needed.
inline constexpr int kThreadSegments = 6;
inline constexpr uint32_t kThreadSlots0 = 256;

// The type of an exception, as its runtime calls it: mangled. `number` stands in rows; 0 is none.
struct ThrownType {
  Offset next;  // of the same head
  uint16_t number;
  uint16_t bytes;
  char text[];
};
inline constexpr uint32_t kTypeHeads = 64;
inline constexpr uint32_t kMostTypes = 1024, kMostTypeBytes = 1024;
inline constexpr uint16_t kTypeOverflow = 0xffff;  // in the place of a number: there was no room for it

inline constexpr uint32_t kLockHeads = 256;
inline constexpr uint32_t kPairHeads = 1024;
inline constexpr uint32_t kMostLocks = 4096;
inline constexpr uint32_t kMostPairs = 8192;

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_RECORDS_H_
