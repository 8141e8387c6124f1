#include "sampler/process/exporter_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "sampler/contract/clock.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/orphan_reaper.h"
#include "sampler/contract/spawn_exporter.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/process/process.h"

namespace holdfast {
namespace {

// The exporter's last seen beat, and when it was first seen.
constinit std::atomic<uint32_t> beat_seen{0};
constinit std::atomic<int64_t> beat_seen_ns{0};
constinit std::atomic<bool> looking_for_exporter{false};

// Only one thread at a time starts an exporter.
constinit std::atomic<bool> spawning{false};
// When this process, PID 1 or a subreaper, started its exporter; 0: it did not.
constinit std::atomic<int64_t> exporter_started_ns{0};
constexpr int64_t kBeginsWithinNs = 500'000'000;     // until it holds its lock; a guess, for a busy machine
constexpr int64_t kFindsMarkWithinNs = 100'000'000;  // how long root's exporter may take to see a mark; a guess
constexpr int kAwaitAnotherStart = 20'000;           // sleeps: 1 s or more

}  // namespace

void BeginBeat() {
  beat_seen.store(0, std::memory_order_relaxed);
  beat_seen_ns.store(MonotonicNs(), std::memory_order_relaxed);
  looking_for_exporter.store(false, std::memory_order_relaxed);
  spawning.store(false, std::memory_order_relaxed);
  exporter_started_ns.store(0, std::memory_order_relaxed);
}

namespace {

// The program runs in a process that takes orphans and is profiled itself, or a parent is one.
bool AncestorTakesOrphans() {
  if (process.child_of_subreaper) return true;
  Ancestor who;
  return WhereOrphansGo("self", &who) == Orphans::kNoticed;
}

Spawned Spawn() {
  // The program wants its own next child to be the first process of a new namespace. If a child of ours came first, its
  // end would be the end of that namespace. That child, or a later one, starts an exporter.
  if (ChildrenGoElsewhere()) return Spawned::kLate;
  if (AncestorTakesOrphans()) return Spawned::kNoticed;
  TextBuffer<48> id;
  id.AddNumber(process.out_id.device).Add(":").AddNumber(process.out_id.inode);
  TextBuffer<24> max_disk;
  max_disk.AddNumber(process.options.max_disk_bytes);
  const char* arguments[] = {
      process.exporter, "exporter", "--out",      process.options.out, "--tables", process.location.folder,
      "--out-id",       id.text(),  "--max-disk", max_disk.text(),     nullptr};
  return SpawnExporter(process.exporter, arguments, nullptr, process.exporter_is_named, process.options.on_snapshot,
                       process.subreaper.load() ? Orphan::kMayComeBack : Orphan::kGoesAway);
}

}  // namespace

bool StartExporter() {
  if (process.exporter[0] == '\0' || no_system_calls.load(std::memory_order_relaxed)) return false;
  switch (ServiceOf(process.location.folder, process.options.out, process.out_id)) {
    case Service::kServed:
    case Service::kByRoot:  // it works in a moment, or is gone: nobody else may write there
      return true;
    case Service::kBarred:
      return false;
    case Service::kNobody:
      break;
  }
  // Another thread is doing that: waits for its result.
  if (spawning.exchange(true)) {
    AwaitNoStart();
    return ExporterServes(process.location.folder, process.options.out, process.out_id);
  }
  const Spawned spawned = Spawn();
  // Its children have the same ancestors: they need not try.
  if (spawned == Spawned::kNoticed || spawned == Spawned::kFailed) process.exporter[0] = '\0';
  if (spawned == Spawned::kStarted) exporter_started_ns.store(KernelNs(), std::memory_order_relaxed);
  spawning.store(false, std::memory_order_release);
  return spawned == Spawned::kServes || spawned == Spawned::kStarted;
}

void AwaitNoStart() {
  AwaitBounded(kAwaitAnotherStart, [] { return !spawning.load(); });
}

bool ExporterIsAlive(int64_t waited_ns) {
  const Service service = ServiceOf(process.location.folder, process.options.out, process.out_id);
  if (service == Service::kServed) return true;
  if (service == Service::kByRoot && waited_ns < kFindsMarkWithinNs) return true;
  const int64_t started_ns = exporter_started_ns.load(std::memory_order_relaxed);
  return started_ns != 0 && KernelNs() - started_ns < kBeginsWithinNs;
}

void PrintUnwritable() {
  const char* out = process.options.out;
  const long result = RawSyscall(SYS_faccessat, AT_FDCWD, out, W_OK | X_OK);
  if (!SyscallFailed(result) || (process.exporter[0] == '\0' && result == -ENOENT)) return;
  TextBuffer<1536> line;
  line.Add("holdfast: process ").AddNumber(static_cast<uint64_t>(process.pid)).Add(": ").Add(out).Add(": cannot be ");
  line.Add(result == -EACCES || result == -EROFS ? "written" : "made");
  line.Add("; what is recorded stays in memory. Set HOLDFAST_OUT, or afterwards: holdfast collect -o DIR ")
      .Add(out)
      .Add("\n");
  RawSyscall(SYS_write, 2, line.text(), line.length());
}

void WatchExporter(SharedTable* table) {
  const uint32_t beat = table->header()->exporter_beat.load(std::memory_order_relaxed);
  if (no_clock.load(std::memory_order_relaxed) || process.exporter[0] == '\0') return;
  const int64_t now_ns = MonotonicNs();
  if (beat != beat_seen.load(std::memory_order_relaxed)) {
    beat_seen.store(beat, std::memory_order_relaxed);
    beat_seen_ns.store(now_ns, std::memory_order_relaxed);
    return;
  }
  if (now_ns - beat_seen_ns.load(std::memory_order_relaxed) < PatienceNs(process.options.snapshot_every_ns)) return;
  if (no_system_calls.load(std::memory_order_relaxed) || looking_for_exporter.exchange(true, std::memory_order_acquire))
    return;
  beat_seen_ns.store(now_ns, std::memory_order_relaxed);  // stopped, or without a processor: checked again later
  if (!InBorrowedMemory()) {
    const SignalsBlocked blocked;
    StartExporter();
  }
  looking_for_exporter.store(false, std::memory_order_release);
}

}  // namespace holdfast
