#include "sampler/process/process.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "sampler/contract/poisson_sampler.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/recorder.h"
#include "sampler/spawn/spawn_exporter.h"
#include "sampler/stacks/little_stack.h"
#include "sampler/stacks/module_reading.h"
#include "sampler/stacks/module_table.h"
#include "sampler/stacks/scratch.h"
#include "sampler/tables/stack_table.h"
#include "sampler/tables/table_owner.h"

namespace holdfast {

constinit std::atomic<bool> no_system_calls{false};
constinit std::atomic<bool> no_clock{false};
HOLDFAST_HOT_DATA constinit SampledFilter sampled_filter{};
constinit Process process{};
HOLDFAST_HOT_DATA constinit intptr_t countdown_offset = kUnusedWord;
__thread ThreadState thread_state __attribute__((tls_model("initial-exec"))) = {};

namespace {

// A page that the kernel empties in every child of fork, also of _Fork and raw clone: how a child knows itself, without
// a system call on the way. kOurs: the state belongs to this process. Null: the kernel cannot (before 4.14).
enum Ownership : uint32_t { kEmptied = 0, kOurs = 1, kBecomingOurs = 2 };
constinit std::atomic<uint32_t>* ownership = nullptr;

enum TableState : uint32_t { kNone, kBeingMade, kMade, kImpossible };
constinit std::atomic<uint32_t> table_state{kNone};
// Where the table is mapped, and how much of that is ours; a forked child maps its own over it.
constinit Table* table_address = nullptr;
constinit uint64_t table_bytes = 0;
constinit std::atomic<bool> clock_forbidden{false};  // by PR_SET_TSC

int64_t KernelNs() {
  timespec now{};
  RawSyscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// The kernel maps the time into the program only from some sources of it.
bool ClockIsNoSystemCall() {
  char source[64];
  if (ReadSmallFile("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source) <= 0)
    return false;
  return TextStartsWith(source, "tsc") || TextStartsWith(source, "kvm-clock") ||
         TextStartsWith(source, "hyperv_clocksource_tsc_page");
}

void MakeOwnershipPage() {
  void* page = MapAnonymous(4096);
  if (page == nullptr) return;
  if (SyscallFailed(RawSyscall(SYS_madvise, page, 4096, MADV_WIPEONFORK))) {
    RawSyscall(SYS_munmap, page, 4096);
    return;
  }
  ownership = static_cast<std::atomic<uint32_t>*>(page);
  ownership->store(kOurs, std::memory_order_relaxed);
}

uint64_t NewestInterval(const IntervalChange* intervals, const std::atomic<uint32_t>& count) {
  return intervals[NewestIndex(count.load(std::memory_order_acquire))].interval;
}

void DrawSeed() {
  process.seed = process.options.seed;
  if (process.seed == 0 &&
      RawSyscall(SYS_getrandom, &process.seed, sizeof process.seed, 1 /*GRND_NONBLOCK*/) != sizeof process.seed) {
    process.seed = static_cast<uint64_t>(KernelNs()) * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(process.pid);
  }
}

// The program is the same, but all that was recorded belongs to the parent. Nothing to wait for: other threads of the
// parent are not here, whatever they were doing.
void BeginChild() {
  Table* old = current_table.load(std::memory_order_relaxed);
  current_table.store(nullptr, std::memory_order_relaxed);
  ForgetLockSlots();
  if (no_system_calls.load(std::memory_order_relaxed)) {
    // Behind a seccomp filter nothing can be made anew: the child runs on unrecorded. What it inherited stays mapped,
    // and is not touched any more.
    process.recording.store(false, std::memory_order_relaxed);
    return;
  }
  if (old != nullptr) {
    // What `holdfast set` made of the parent's intervals holds in its children, too.
    const TableHeader& head = *old->header();
    process.options.heap_interval = NewestInterval(head.heap_intervals, head.heap_interval_count);
    process.options.lock_interval_ns = NewestInterval(head.lock_intervals, head.lock_interval_count);
    // Not the parent's file any more. Left readable and writable: a handler that interrupted a sample in the parent may
    // return into it here.
    RawSyscall(SYS_mmap, old, old->header()->cap_bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  }
  // Where early blocks are to be known, their counters may not be 0 for a moment, as another thread may be freeing one. The
  // parent's counters are right in the child as well: "perhaps" where nothing is.
  uint8_t* counters = sampled_filter.counters.load(std::memory_order_relaxed);
  if (counters != nullptr && sampled_filter.always_ask[0].bytes + sampled_filter.always_ask[1].bytes == 0) {
    RawSyscall(SYS_madvise, counters, kFilterBytes, MADV_DONTNEED);
  }
  ResetScratch();
  ForgetModules();
  process.pid = static_cast<int>(RawSyscall(SYS_getpid));
  process.forked = true;
  process.before_table.alloc_bytes = 0;
  process.before_table.lost_samples = 0;
  process.location = {};
  process.out_id = {};
  // With a seed given, a child's samples are reproducible too, and not those of its parent or its siblings (see BeforeFork).
  uint64_t seed =
      process.seed + process.forks.load(std::memory_order_relaxed) * 0x632be59bd9b4e019 + thread_state.random;
  process.seed = process.options.seed == 0 ? 0 : NextRandom(&seed);
  if (process.seed == 0) DrawSeed();
  process.threads = 0;
  if (!process.options.children) process.recording = false;
  table_state.store(kNone, std::memory_order_relaxed);
  process.epoch.fetch_add(1, std::memory_order_release);
}

bool OwnedByUs() {
  if (ownership == nullptr || LIKELY(ownership->load(std::memory_order_acquire) == kOurs)) return true;
  uint32_t emptied = kEmptied;
  // A second thread of the child that comes here meanwhile just does not record.
  if (!ownership->compare_exchange_strong(emptied, kBecomingOurs, std::memory_order_acquire)) return false;
  BeginChild();
  ownership->store(kOurs, std::memory_order_release);
  return true;
}

// With HOLDFAST_VERBOSE: one line when recording begins.
void TellStart() {
  TextBuffer<2048> line;
  line.Add("holdfast: process ").AddNumber(static_cast<uint64_t>(process.pid)).Add(": a heap sample every ");
  line.AddNumber(process.options.heap_interval)
      .Add(" bytes, a lock sample every ")
      .AddNumber(process.options.lock_interval_ns);
  line.Add(" ns of waiting, profiles go to ").Add(process.options.out).Add("\n");
  RawSyscall(SYS_write, 2, line.text(), line.length());
}

// Moves what was counted without a table into it.
void MoveBeforeTable(Table* made) {
  CounterShard& counters = made->header()->counters[0];
  BeforeTable& before = process.before_table;
  counters.alloc_bytes.fetch_add(before.alloc_bytes.exchange(0), std::memory_order_relaxed);
  made->header()->losses[static_cast<int>(Loss::kTableUnavailable)].fetch_add(before.lost_samples.exchange(0),
                                                                              std::memory_order_relaxed);
}

// Waits, at most 100 ms or so, while another thread makes the table: until `done` says that it has got far enough.
template <typename Done>
void AwaitTable(Done done) {
  const timespec pause = {0, 100'000};
  for (int i = 0; i < 1000 && !done(); ++i) {
    if (!no_system_calls.load(std::memory_order_relaxed)) RawSyscall(SYS_nanosleep, &pause, 0);
  }
}

// The table and its exporter; signals are blocked.
Table* MakeTableNow() {
  if (sampled_filter.counters.load(std::memory_order_relaxed) == nullptr) {
    auto* counters = static_cast<uint8_t*>(MapLazily(kFilterBytes));
    if (counters != nullptr) MarkAlwaysAsk(counters);
    sampled_filter.counters.store(counters, std::memory_order_release);
  }
  Table* made = nullptr;
  if (sampled_filter.counters.load(std::memory_order_relaxed) != nullptr) {
    process.out_id = OutFolderId(process.options.out, process.exporter[0] != '\0');
    made = MakeTable(process.options, table_address, table_bytes, process.forked, process.out_id, &process.location);
  }
  if (made == nullptr || !MakeSpecialStacks(made)) {
    // No place to keep anything: step aside for good, the program runs on as if we were not there.
    process.recording.store(false, std::memory_order_relaxed);
    table_state.store(kImpossible, std::memory_order_release);
    if (process.options.verbose > 0) {
      constexpr char kLine[] =
          "holdfast: no table file could be made (no space in memory, or no folder): nothing is recorded.\n";
      RawSyscall(SYS_write, 2, kLine, sizeof kLine - 1);
    }
    return nullptr;
  }
  table_address = made;
  table_bytes = made->header()->cap_bytes;
  // Published before the exporter is started: that takes a millisecond or two, and on a busy machine many more, in
  // which other threads record already. This thread records its own sample only afterwards.
  current_table.store(made);
  MoveBeforeTable(made);
  BeginBeat();
  StartExporter();
  if (process.options.verbose > 0) {
    TellStart();
    TellUnwritable();
  }
  table_state.store(kMade, std::memory_order_release);
  return made;
}

Table* MakeTableSlow() {
  if (table_state.load(std::memory_order_acquire) == kNone) {
    if (no_system_calls.load(std::memory_order_relaxed) || InBorrowedMemory()) return nullptr;
    // No handler of the program's from before the first word of it to after the last: it might jump out, and there would
    // never be a table.
    const SignalsBlocked blocked;
    uint32_t none = kNone;
    if (table_state.compare_exchange_strong(none, kBeingMade, std::memory_order_acquire)) return MakeTableNow();
  }
  // Another thread is at it: a fraction of a millisecond. A bounded wait, so that no sample of a start-up is lost.
  uint32_t state = kNone;
  AwaitTable([&state] {
    state = table_state.load(std::memory_order_acquire);
    return state != kBeingMade || table() != nullptr;
  });
  Table* made = table();
  // Whoever was at it is not coming back to it: do not wait again. (If it does after all, the table is used.)
  if (made == nullptr && state == kBeingMade) table_state.compare_exchange_strong(state, kImpossible);
  return made;
}

}  // namespace

bool OwnState() { return OwnedByUs(); }

void CountBeforeTable(std::atomic<uint64_t> BeforeTable::*counter, uint64_t amount) {
  // All of these in one total order: either the thread that publishes the table finds this amount, or it is found here
  // that the table is there.
  (process.before_table.*counter).fetch_add(amount);
  if (Table* made = current_table.load()) MoveBeforeTable(made);
}

bool InBorrowedMemory() { return RawSyscall(SYS_getpid) != process.pid; }

namespace {

// A handler of the program's may jump out of a sample of ours (siglongjmp), and leave the thread muted. Then a later call
// stands where the muted one stood, or above; a handler that runs inside of it stands below, by a signal frame at least
// (1 KiB), or on another stack, far away.
bool LeftByJump(const ThreadState& thread, uintptr_t here) {
  constexpr uintptr_t kFrames = 512, kSameStack = 256 << 10;
  if (thread.in_operator || here + kFrames < thread.entered_at || here + kFrames - thread.entered_at >= kSameStack)
    return false;
  // A signal stack may lie above, within the thread's own.
  stack_t current{};
  return no_system_calls.load(std::memory_order_relaxed) || SyscallFailed(RawSyscall(SYS_sigaltstack, 0, &current)) ||
         (current.ss_flags & SS_ONSTACK) == 0;
}

}  // namespace

bool EnterSlow(ThreadState& thread) {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (UNLIKELY(thread.muted)) {
    if (!LeftByJump(thread, here)) return false;
    Unmute(thread);
    ReturnScratch(thread);
  }
  thread.entered_at = here;
  if (!OwnedByUs() || !process.recording.load(std::memory_order_relaxed)) return false;
  const uint32_t epoch = process.epoch.load(std::memory_order_acquire);
  if (UNLIKELY(thread.epoch != epoch)) {
    const uint32_t ordinal = process.threads.fetch_add(1, std::memory_order_relaxed);
    uint64_t seed = process.seed + ordinal * 0xd1342543de82ef95;
    thread.random = NextRandom(&seed);
    thread.shard = static_cast<uint16_t>(ordinal % kCounterShards);
    thread.heap_gap = thread.heap_countdown;  // of what was allocated since, the parent's part is not known
    thread.lock_countdown = 0;
    thread.hold_countdown = 0;
    thread.current_wait = {};
    thread.ended_wait = {};
    thread.preparing = 0;
    thread.tended = static_cast<uint16_t>(thread.random);
    thread.thread_id = 0;
    thread.samples = static_cast<uint32_t>(thread.random >> 32);
    thread.interval_index = thread.lock_index = thread.hold_index =
        0;  // a child's own table begins with the interval that was in force
    thread.epoch = epoch;
  }
  return true;
}

Table* GetTableMuted(ThreadState& thread) {
  Mute(thread);
  Table* found = GetTable();
  Unmute(thread);
  return found;
}

Table* GetTable() {
  Table* found = table();
  if (LIKELY(found != nullptr)) return found;
  return LittleStackLeft(kStackForCapture) ? nullptr : MakeTableSlow();
}

namespace {

// Out of the environment, which a program may write over: nginx does, with its title.
template <size_t kCapacity>
const char* Kept(const char* text, char (&copy)[kCapacity]) {
  if (text != nullptr) CopyText(copy, kCapacity, text);
  return text != nullptr ? copy : nullptr;
}
constinit char kept_tables[sizeof TableLocation::folder] = {};
constinit char kept_runtime_dir[sizeof TableLocation::folder] = {};

}  // namespace

void StartRecording(const char* const* environment, const char* library_path, bool dormant) {
  ReadOptions(environment, &process.options);
  Options& options = process.options;
  options.tables = Kept(options.tables, kept_tables);
  options.runtime_dir = Kept(options.runtime_dir, kept_runtime_dir);
  process.pid = static_cast<int>(RawSyscall(SYS_getpid));
  const bool wanted = options.root_pid == 0 || options.children || options.root_pid == process.pid;
  if (dormant || !options.enable || !wanted) return;
  if ((options.profiles & (1u << static_cast<int>(ProfileKind::kHeap))) == 0) options.heap_interval = 0;
  if ((options.profiles &
       ((1u << static_cast<int>(ProfileKind::kMutex)) | (1u << static_cast<int>(ProfileKind::kBlock)))) == 0) {
    options.lock_interval_ns = 0;
  }
  if (options.exporter) {
    // PREFIX/lib/holdfast/libholdfast.so → PREFIX/bin/holdfast
    char library[sizeof process.exporter];
    CopyAbsolutePath(library, sizeof library, library_path);
    int slashes = 0;
    size_t end = TextLength(library);
    while (end > 0 && slashes < 3) slashes += library[--end] == '/';
    library[end] = '\0';
    TextBuffer<sizeof process.exporter> path;
    CopyText(process.exporter, sizeof process.exporter, path.Add(library).Add("/bin/holdfast").text());
    // `run` names the same one: what is as good as the library that we are needs no proof.
    if (options.exporter_path != nullptr && !TextEquals(options.exporter_path, process.exporter)) {
      process.exporter_is_named = true;
      CopyAbsolutePath(process.exporter, sizeof process.exporter, options.exporter_path);
    }
  }
  MakeOwnershipPage();
  NoteLastingModules();
  DrawSeed();
  process.recording.store(true, std::memory_order_release);
}

void AllowTag(bool allocator_can_align) {
  const uint64_t interval = process.options.heap_interval;
  const bool rare = interval == 0 || interval >= kSmallestTagged;
  if (!process.recording || (allocator_can_align && rare))
    sampled_filter.tag_mask.store(kTagMask, std::memory_order_relaxed);
}

int SnapshotSignal() { return process.recording.load(std::memory_order_relaxed) ? process.options.signal : 0; }

void RequestSnapshot() {
  if (!OwnedByUs()) return;
  Table* recorded = table();
  if (recorded == nullptr) return;
  recorded->header()->snapshot_request.fetch_add(1, std::memory_order_release);
  RingBell(process.location);
}

void AwaitLastProfile() {
  if (!OwnedByUs()) return;
  Table* recorded = table();
  if (recorded == nullptr) return;
  const bool silent = no_system_calls.load(std::memory_order_relaxed);
  if (!silent && InBorrowedMemory()) return;
  TableHeader& head = *recorded->header();
  if (head.exported.load(std::memory_order_acquire) != 0) return;  // at_quick_exit and then _exit
  SettleLocks();                                                   // also for who reads the table afterwards
  // Whoever stopped the program's whole group of processes may have stopped the exporter, too.
  if (silent || !StartExporter()) return;
  head.exit_request.store(1, std::memory_order_release);
  RingBell(process.location);
  const int64_t start_ns = KernelNs();
  const auto waited_ns = [start_ns] { return KernelNs() - start_ns; };
  while (head.exported.load(std::memory_order_acquire) == 0 && waited_ns() < 2'000'000'000) {
    const timespec pause = {0, 100'000'000};
    RawSyscall(SYS_futex, &head.exported, FUTEX_WAIT, 0, &pause, 0, 0);
    // Nobody there who could answer: it could not start, or died. The table stays for `holdfast collect`.
    if (waited_ns() > 500'000'000 && !ExporterServes(process.location.folder, process.options.out, process.out_id))
      return;
  }
}

void BeforeSeccomp(bool strict) {
  // In a vfork child the filter is its own, the memory its parent's. (A forked child finds out here that it is one.)
  OwnedByUs();
  if (InBorrowedMemory()) return;
  ThreadState& thread = thread_state;
  if (EnterSlow(thread)) {
    Mute(thread);
    // Enough for some thousand further stacks; then growth stops, and is counted.
    if (Table* made = GetTable()) made->Back(2 << 20);
    // Another thread may still be starting the exporter.
    AwaitTable([] { return table_state.load(std::memory_order_acquire) != kBeingMade; });
    Unmute(thread);
  }
  if (strict || !ClockIsNoSystemCall()) no_clock.store(true, std::memory_order_release);
  no_system_calls.store(true, std::memory_order_release);
}

void AfterFailedSeccomp() {
  no_system_calls.store(false, std::memory_order_release);
  no_clock.store(clock_forbidden.load(std::memory_order_relaxed), std::memory_order_release);
}

void ForbidClock(bool forbidden) {
  clock_forbidden.store(forbidden, std::memory_order_relaxed);
  if (forbidden || !no_system_calls.load(std::memory_order_relaxed))
    no_clock.store(forbidden, std::memory_order_release);
}

void BeforeNewNamespace() {
  ThreadState& thread = thread_state;
  if (table() == nullptr && EnterSlow(thread)) GetTableMuted(thread);
}

namespace {

constinit std::atomic<bool> gave_up_root{false};

// With the thread muted: the table, once it is made to the end.
Table* FinishedTable() {
  Table* made = GetTable();
  // Another thread may still be starting the exporter.
  AwaitTable([] { return table_state.load(std::memory_order_acquire) != kBeingMade; });
  return made;
}

}  // namespace

void BeforeUserChange(uint32_t real, uint32_t effective, uint32_t saved) {
  gave_up_root.store(false, std::memory_order_relaxed);
  if (no_system_calls.load(std::memory_order_relaxed) || !process.recording.load(std::memory_order_relaxed)) return;
  if (RawSyscall(SYS_geteuid) != 0) return;
  uint32_t now_real = 0, now_effective = 0, now_saved = 0;
  RawSyscall(SYS_getresuid, &now_real, &now_effective, &now_saved);
  if (real == kSameUser) real = now_real;
  if (effective == kSameUser) effective = now_effective;
  if (saved == kSameUser) saved = now_saved;
  if (effective == 0) return;
  const bool for_good = real != 0 && saved != 0;
  OwnedByUs();  // a forked child finds out that it is one
  if (InBorrowedMemory()) {
    // A vfork child: it is about to execute what will have a table of its own.
    if (for_good && process.location.folder[0] != '\0')
      MarkUser(process.location.folder, process.options.out, effective);
    return;
  }
  ThreadState& thread = thread_state;
  if (!EnterSlow(thread)) return;
  Mute(thread);
  Table* made = FinishedTable();
  if (made != nullptr && for_good && made->header()->uid == 0) {
    const SignalsBlocked blocked;
    // The mark first: the exporter sees the new name at once, and must find whose tables it may take.
    MarkUser(process.location.folder, process.options.out, effective);
    GiveTableTo(effective, made, &process.location);
    gave_up_root.store(true, std::memory_order_relaxed);
  }
  Unmute(thread);
}

// Where the folder is the user's own, root's exporter leaves it to that user's.
void AfterUserChange() {
  if (!gave_up_root.exchange(false, std::memory_order_relaxed)) return;
  ThreadState& thread = thread_state;
  if (!EnterSlow(thread)) return;
  Mute(thread);
  {
    const SignalsBlocked blocked;
    StartExporter();
  }
  Unmute(thread);
}

void BeforeNewRoot() {
  if (no_system_calls.load(std::memory_order_relaxed) || !process.recording.load(std::memory_order_relaxed)) return;
  OwnedByUs();
  ThreadState& thread = thread_state;
  if (InBorrowedMemory() || RawSyscall(SYS_geteuid) != 0 || !EnterSlow(thread)) return;
  Mute(thread);
  Table* made = FinishedTable();
  if (made != nullptr && made->header()->uid == 0) MarkOutOfReach(made, process.location);
  Unmute(thread);
}

void BeforeUnload() {
  OwnState();  // a child's: who read a module in its parent is not here
  BeginUnload();
}

void AfterUnload() {
  ThreadState& thread = thread_state;
  if (table() != nullptr && EnterSlow(thread)) {
    Mute(thread);
    MarkUnloadedModules();
    Unmute(thread);
  }
  EndUnload();
}

}  // namespace holdfast
