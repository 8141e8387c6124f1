#include <sys/auxv.h>

#include "sampler/capture/free_calls.h"
#include "sampler/capture/lasting_modules.h"
#include "sampler/capture/module_reading.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/cpu_timers.h"
#include "sampler/process/enter.h"
#include "sampler/process/own_table.h"
#include "sampler/process/process.h"
#include "sampler/record/cpu.h"
#include "sampler/table/name_labels.h"

// The linker's: the library's zero-initialized variables.
extern "C" HOLDFAST_HIDDEN const char __bss_start[], _end[];

namespace holdfast {

namespace {

// Most of them stay untouched.
void UseSmallPagesForVariables() {
  const uintptr_t page = PageBytes();
  const uintptr_t start = (reinterpret_cast<uintptr_t>(__bss_start) + page - 1) & ~(page - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(_end) + page - 1) & ~(page - 1);
  UseSmallPages(reinterpret_cast<const void*>(start), end - start);
}

// Out of the environment, which a program may write over: nginx does, with its title.
template <size_t kCapacity>
const char* Kept(const char* text, char (&copy)[kCapacity]) {
  if (text != nullptr) CopyText(copy, kCapacity, text);
  return text != nullptr ? copy : nullptr;
}
constinit char kept_tables[sizeof TableLocation::folder] = {};
constinit char kept_runtime_dir[sizeof TableLocation::folder] = {};
constinit char kept_snapshot_when[kTriggerTextBytes] = {};
constinit char kept_on_snapshot[sizeof "HOLDFAST_ON_SNAPSHOT=" + kOnSnapshotBytes] = {};

void TakeOptions(const char* const* environment) {
  ReadOptions(environment, &process.options);
  Options& options = process.options;
  options.tables = Kept(options.tables, kept_tables);
  options.runtime_dir = Kept(options.runtime_dir, kept_runtime_dir);
  options.snapshot_when = Kept(options.snapshot_when, kept_snapshot_when);
  options.on_snapshot = Kept(options.on_snapshot, kept_on_snapshot);
  thread_label = options.thread_label;
}

void SettleKinds() {
  Options& options = process.options;
  constexpr uint32_t kLocks = KindBit(ProfileKind::kMutex) | KindBit(ProfileKind::kBlock);
  // If both intervals are off, kinds without an interval are off as well.
  if (options.heap_interval == 0 && options.lock_interval_ns == 0)
    options.profiles &= KindBit(ProfileKind::kHeap) | kLocks;
  if ((options.profiles & KindBit(ProfileKind::kHeap)) == 0) options.heap_interval = 0;
  if ((options.profiles & kLocks) == 0) options.lock_interval_ns = 0;
}

// What is as good as the library that we are needs no proof: `run` names the exporter beside it.
void TakeExporterPath() {
  const char* path = process.options.exporter_path;
  if (path == nullptr || TextEquals(path, process.exporter)) return;
  process.exporter_is_named = true;
  CopyAbsolutePath(process.exporter, sizeof process.exporter, path);
}

}  // namespace

bool StartRecording(const char* const* environment, const char* library_path, bool dormant, bool modules_stay) {
  TakeOptions(environment);
  Options& options = process.options;
  process.pid = static_cast<int>(RawSyscall(SYS_getpid));
  process.reads_thread_pointer = MayReadThreadPointer();
  const bool wanted = options.root_pid == 0 || options.children || options.root_pid == process.pid;
  if (dormant || !options.enable || !wanted) {
    // Nothing that a wrapper comes to on its way to the real function asks the kernel for anything, either.
    no_system_calls.store(true, std::memory_order_relaxed);
    no_clock.store(true, std::memory_order_relaxed);
    return false;
  }
  UseSmallPagesForVariables();
  FindMappedClock(reinterpret_cast<const void*>(getauxval(AT_SYSINFO_EHDR)));
  SettleKinds();
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
    TakeExporterPath();
  }
  if (options.cpu_interval_ns != 0) options.profiles |= KindBit(ProfileKind::kCpu);
  MakeOwnershipPage();
  if (modules_stay) NoteLastingModules();
  DrawSeed();
  process.recording.store(true, std::memory_order_release);
  return true;
}

bool IsRecording() { return OwnState() && process.recording.load(std::memory_order_relaxed); }

bool StartAgain(const char* const* environment) {
  if (IsRecording()) return true;
  // With a filter nothing can be made anew.
  if (no_system_calls.load(std::memory_order_relaxed) || !OwnState()) return false;
  process.options = Options();
  TakeOptions(environment);
  SettleKinds();
  if (process.options.exporter) {
    TakeExporterPath();
  } else {
    process.exporter[0] = '\0';
  }
  AllowNewTable();
  process.recording.store(true, std::memory_order_release);
  return true;
}

void BeginCpuSamples() { BeginCpuTimers(RecordCpu); }

void BeginLooks() {
  if (process.recording.load(std::memory_order_relaxed) && process.options.wall) GetTableMuted(thread_state);
}

void AllowTag(bool allocator_can_align) {
  const uint64_t interval = process.options.heap_interval;
  const bool rare = interval == 0 || interval >= kSmallestTagged;
  if (!process.recording || (allocator_can_align && rare))
    sampled_filter.tag_mask.store(kTagMask, std::memory_order_relaxed);
}

void WatchFreeCalls(const char* start, const char* end) {
  SetOwnCode({reinterpret_cast<uintptr_t>(start), reinterpret_cast<uintptr_t>(end)});
}

}  // namespace holdfast
