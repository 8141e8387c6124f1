#include "report/observe/table/snapshot.h"

#include <string.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "report/observe/table/frees_not_seen.h"
#include "report/observe/table/label_reader.h"
#include "report/observe/table/module_record.h"
#include "report/observe/table/ongoing_reader.h"
#include "report/observe/table/record_at.h"
#include "report/observe/table/row_reader.h"
#include "report/observe/table/snapshot_ages.h"
#include "report/observe/table/snapshot_locks.h"
#include "sampler/contract/deep_stacks.h"
#include "sampler/contract/weight.h"

namespace holdfast {
namespace {

template <size_t N>
std::string HeaderText(const char (&text)[N]) {
  return std::string(text, strnlen(text, N));
}

// The limit for the total number of frames: 1 GiB. Stacks share frames in the table but not in a TableSnapshot, so that
// otherwise a small table could demand any amount of memory.
constexpr uint64_t kMaxFrames = uint64_t{1} << 27;

class SnapshotReader {
 public:
  SnapshotReader(const void* bytes, size_t size, std::optional<int64_t> monotonic_ns)
      : bytes_(static_cast<const char*>(bytes)), size_(size), monotonic_ns_(monotonic_ns) {}

  absl::Status Read(TableSnapshot* snapshot) {
    for (const auto step :
         {&SnapshotReader::ReadHeader, &SnapshotReader::ReadModules, &SnapshotReader::ReadStacks,
          &SnapshotReader::ReadSingleLocks, &SnapshotReader::ReadWaits, &SnapshotReader::ReadThreadsAndTypes}) {
      if (absl::Status status = (this->*step)(snapshot); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Corrupt(std::string_view what, uint64_t offset) {
    return absl::DataLossError(absl::StrFormat("%s at byte %d", what, offset * kUnit));
  }

  template <typename T>
  const T* At(Offset offset, uint64_t bytes = sizeof(T)) const {
    return RecordAt<T>(bytes_, limit_, offset, bytes);
  }

  absl::Status ReadHeader(TableSnapshot* snapshot) {
    if (reinterpret_cast<uintptr_t>(bytes_) % alignof(TableHeader) != 0)
      return absl::InvalidArgumentError("not aligned");
    if (size_ < sizeof(TableHeader)) {
      return absl::DataLossError(absl::StrCat("only ", size_, " bytes, a table has at least ", sizeof(TableHeader)));
    }
    head_ = reinterpret_cast<const TableHeader*>(bytes_);
    if (CounterValue(head_->magic) == 0) return absl::UnavailableError("the table is still being created");
    if (CounterValue(head_->magic) != kTableMagic) return absl::DataLossError("not a holdfast table");
    if (head_->version != kLayoutVersion || head_->header_bytes != sizeof(TableHeader)) {
      return absl::FailedPreconditionError(absl::StrCat("layout version ", head_->version, ", this holdfast reads ",
                                                        kLayoutVersion,
                                                        ": use the holdfast that profiled the program"));
    }
    limit_ = uint64_t{std::min(CounterValue(head_->used), CounterValue(head_->backed))} * kUnit;
    if (limit_ > size_) limit_ = size_;
    if (limit_ < sizeof(TableHeader)) return absl::DataLossError("it is empty");

    ProcessIdentity& process = snapshot->process;
    process.host = HeaderText(head_->host);
    process.program = HeaderText(head_->program);
    process.executable = HeaderText(head_->executable);
    process.command_line = HeaderText(head_->command_line);
    process.out = HeaderText(head_->out);
    process.pid = head_->pid;
    process.parent_pid = head_->parent_pid;
    process.uid = head_->uid;
    process.pid_ns = head_->pid_ns;
    process.start_ticks = head_->start_ticks;
    process.image = head_->image;
    process.stack_end = head_->stack_end;
    process.entry = head_->entry;
    process.forked = head_->forked != 0;
    process.start_wall_ns = head_->start_wall_ns;
    process.start_monotonic_ns = head_->start_monotonic_ns;
    const auto since = [](int64_t start, int64_t end) {
      return static_cast<int64_t>(static_cast<uint64_t>(end) - static_cast<uint64_t>(start));
    };
    snapshot->elapsed_ns =
        std::max<int64_t>(0, monotonic_ns_.has_value() ? since(process.start_monotonic_ns, *monotonic_ns_)
                                                       : since(process.start_wall_ns, snapshot->wall_ns));
    snapshot->snapshot_every_ns = head_->snapshot_every_ns;
    snapshot->max_disk_bytes = head_->max_disk_bytes;
    snapshot->max_memory_bytes = head_->max_memory_bytes;
    snapshot->seed = head_->seed;
    snapshot->keep = head_->keep;
    snapshot->peak = head_->peak != 0;
    snapshot->resident = CounterValue(head_->resident) != 0;
    if (head_->lifetimes <= Lifetimes::kUnlessShort) snapshot->lifetimes = head_->lifetimes;
    const uint64_t highest = CounterValue(head_->in_use.highest);
    const int64_t highest_ns = CounterValue(head_->in_use.highest_ns);
    const auto highest_wall_ns =
        static_cast<int64_t>(static_cast<uint64_t>(highest_ns) - static_cast<uint64_t>(head_->start_monotonic_ns) +
                             static_cast<uint64_t>(head_->start_wall_ns));
    snapshot->highest_bytes = static_cast<double>(highest) / (1 << kAmountFractionBits);
    snapshot->highest_wall_ns = highest_wall_ns;
    if (const auto most = MaxInUse(reinterpret_cast<const InUseLines&>(head_->in_use)))
      snapshot->most_bytes = static_cast<double>(*most) / (1 << kAmountFractionBits);
    snapshot->profiles = head_->profiles;
    ReadIntervals(head_->heap_intervals, CounterValue(head_->heap_interval_count), &snapshot->heap_intervals);
    ReadIntervals(head_->lock_intervals, CounterValue(head_->lock_interval_count), &snapshot->lock_intervals);
    ReadIntervals(head_->cpu_intervals, CounterValue(head_->cpu.interval_count), &snapshot->cpu_intervals);
    const CpuState cpu_state = CounterValue(head_->cpu.state);
    if (static_cast<uint32_t>(cpu_state) < kCpuStates) snapshot->cpu_state = cpu_state;
    snapshot->cpu_timers = CounterValue(head_->cpu.timers);
    snapshot->cpu_is_pending = CounterValue(head_->cpu.applied) != CounterValue(head_->cpu.interval_count);
    for (int i = 0; i < kLosses; ++i) snapshot->losses[i] = CounterValue(head_->losses[i]);
    for (const RecordShard& shard : head_->record_shards)
      snapshot->losses[static_cast<int>(Loss::kStackTableFull)] += CounterValue(shard.stack_lost);
    TableSnapshot::Totals& totals = snapshot->totals;
    for (const CounterShard& shard : head_->counters) {
      totals.alloc_calls += CounterValue(shard.alloc_calls);
      totals.alloc_bytes += CounterValue(shard.alloc_bytes);
      totals.free_calls += CounterValue(shard.free_calls);
      totals.free_bytes += CounterValue(shard.free_bytes);
      totals.sample_ns += CounterValue(shard.sample_ns);
      totals.table_steps += CounterValue(shard.table_steps);
      totals.memory_probes += CounterValue(shard.memory_probes);
    }
    const auto add = [snapshot](uint64_t* sum, uint64_t value) {
      if (!AddSaturating(value, sum)) ++snapshot->losses[static_cast<int>(Loss::kSumFull)];
    };
    for (const LockCounters& shard : head_->lock_counters) {
      for (int kind = 0; kind < kWaitKinds; ++kind) {
        TableSnapshot::LockTotals& of_kind = snapshot->locks[kind];
        of_kind.waits += CounterValue(shard.waits[kind]);
        of_kind.acquired += CounterValue(shard.acquired[kind]);
        add(&of_kind.wait_ns, CounterValue(shard.wait_ns[kind]));
        of_kind.holds += CounterValue(shard.holds[kind]);
        add(&of_kind.hold_ns, CounterValue(shard.hold_ns[kind]));
        add(&of_kind.gap_ns, CounterValue(shard.gap_ns[kind]));
      }
      snapshot->wait_samples += CounterValue(shard.wait_samples);
      snapshot->hold_samples += CounterValue(shard.hold_samples);
    }
    snapshot->table_bytes = uint64_t{CounterValue(head_->backed)} * kUnit;
    snapshot->exit_request = CounterValue(head_->exit_request);
    snapshot->exit_moment = head_->exit_moment.load(std::memory_order_relaxed);
    snapshot->exported = CounterValue(head_->exported);
    snapshot->snapshot_request = CounterValue(head_->snapshot_request);
    snapshot->snapshot_done = CounterValue(head_->snapshot_done);
    return absl::OkStatus();
  }

  static void ReadIntervals(const IntervalChange (&changes)[kIntervals], uint32_t count,
                            std::vector<IntervalChange>* to) {
    to->assign(changes, changes + std::min<uint32_t>(count, kIntervals));
    if (to->empty()) to->push_back({});  // only in a damaged table: one interval is always in force
  }

  absl::Status ReadModules(TableSnapshot* snapshot) {
    std::set<std::tuple<uint64_t, uint64_t, uint16_t, std::string>> seen;
    uint64_t left = limit_;  // modules that need more bytes than exist overlap, or form a cycle
    for (Offset offset = CounterValue(head_->modules); offset != 0;) {
      const auto* module = At<Module>(offset);
      if (module == nullptr) return Corrupt("bad module", offset);
      const uint64_t bytes = sizeof(Module) + BytesAfter(*module);
      if (At<Module>(offset, bytes) == nullptr || bytes > left) return Corrupt("module longer than the table", offset);
      left -= bytes;
      ModuleInfo info = ModuleInfoOf(*module, reinterpret_cast<const char*>(module + 1));
      // The loader has no name for the program itself, and /proc was unreachable (Landlock).
      if (info.path.empty() && head_->entry >= info.start && head_->entry < info.end)
        info.path = snapshot->process.executable;
      offset = module->next;
      // Two threads may have recorded a module at the same time.
      if (seen.emplace(info.start, info.end, info.tag, info.path).second) snapshot->modules.push_back(std::move(info));
    }
    return absl::OkStatus();
  }

  absl::Status ReadFrames(const Stack& stack, Offset offset, StackInfo* info) {
    info->truncated = stack.truncated;
    info->frames.reserve(std::min<size_t>(stack.depth, kMaxDepth));
    const auto add = [&](const TaggedPc* frames, uint64_t count) {
      if (info->frames.size() + count > kMaxKeptFrames + 1 || frames_left_ < count) return false;
      frames_left_ -= count;
      for (uint64_t i = 0; i < count; ++i) info->frames.push_back(frames[i] & kTaggedPcMask);
      return true;
    };
    if (At<Stack>(offset, sizeof(Stack) + stack.count * sizeof(TaggedPc)) == nullptr)
      return Corrupt("bad frame", offset);
    bool ends = add(stack.frames, stack.count);
    for (Offset at = stack.parent; ends && at != 0;) {
      const auto* node = At<Node>(at);
      if (node == nullptr) return Corrupt("bad frame", at);
      ends = add(node->frames, kNodeFrames);
      at = node->parent;
    }
    if (!ends) return Corrupt("circular stack", offset);
    return absl::OkStatus();
  }

  absl::Status ReadStack(Offset offset, bool overflow, bool missing, TableSnapshot* snapshot, Offset* next) {
    const auto* stack = At<Stack>(offset);
    if (stack == nullptr || stacks_left_-- == 0) return Corrupt("bad stack", offset);
    *next = stack->next;
    if (CounterValue(stack->rows) == 0) return absl::OkStatus();
    StackInfo info{};
    info.overflow = overflow;
    info.missing = missing;
    if (absl::Status status = ReadFrames(*stack, offset, &info); !status.ok()) return status;
    if (stack->count > 0 && IsLabels(stack->frames[0])) {
      info.labels = labels_->Read(static_cast<Offset>(stack->frames[0]), &snapshot->label_sets);
      info.frames.erase(info.frames.begin());
    }
    const auto index = static_cast<uint32_t>(snapshot->stacks.size());
    snapshot->stacks.push_back(std::move(info));
    for (Offset at = CounterValue(stack->rows); at != 0;) {
      const auto* row = At<Row>(at);
      if (row == nullptr || rows_left_-- == 0) return Corrupt("bad row", at);
      if (absl::Status status = ReadRow(*row, at, index, snapshot); !status.ok()) return status;
      stack_of_row_.emplace(at, index);
      if (absl::Status status = ReadAges(*row, index, snapshot); !status.ok()) return status;
      if (row->profile == ProfileKind::kThreads) row_index_.emplace(at, snapshot->rows.size() - 1);
      at = row->next;
    }
    return absl::OkStatus();
  }

  // Reads the cells of a heap row. A thread's own row has its cells in the row beside it.
  absl::Status ReadAges(const Row& row, uint32_t stack, TableSnapshot* snapshot) {
    const Offset offset = CounterValue(row.ages);
    if (row.profile != ProfileKind::kHeap || offset == 0) return absl::OkStatus();
    if (row.owner == 0) return ages_->ReadCells(row, stack, snapshot);
    const auto* beside = At<Row>(offset);
    if (beside == nullptr || rows_left_-- == 0 || beside->owner != kAgedOwner ||
        beside->profile != ProfileKind::kHeap) {
      return Corrupt("bad row of aged blocks", offset);
    }
    if (absl::Status status = ReadRow(*beside, offset, stack, snapshot); !status.ok()) return status;
    stack_of_row_.emplace(offset, stack);
    return ages_->ReadCells(*beside, stack, snapshot);
  }

  absl::Status ReadRow(const Row& row, Offset offset, uint32_t stack, TableSnapshot* snapshot) {
    RowInfo info{};
    if (!ReadRowInfo(row, offset, &info)) return Corrupt("row of unknown kind", offset);
    info.stack = stack;
    if (snapshot->stacks[stack].overflow) info.class_bytes = 0;
    if (row.profile == ProfileKind::kHeap && row.owner != 0) {  // its own thread's row counts only here
      TableSnapshot::Totals& totals = snapshot->totals;
      totals.alloc_calls += static_cast<uint64_t>(info.sums[kAllocObjects]);
      totals.alloc_bytes += static_cast<uint64_t>(info.sums[kAllocSpace]);
      totals.free_calls += static_cast<uint64_t>(info.sums[kFreeObjects]);
      totals.free_bytes += static_cast<uint64_t>(info.sums[kFreeSpace]);
    }
    if (const uint64_t times = IsLockKind(row.profile) ? CounterValue(row.sums[kTimes]) : 0; times != 0) {
      info.times = static_cast<uint32_t>(snapshot->row_times.size());
      snapshot->row_times.emplace_back();
      if (times > UINT32_MAX) return Corrupt("row with bad times", offset);
      if (absl::Status status = times_->Read(static_cast<Offset>(times), &snapshot->row_times.back()); !status.ok())
        return status;
    }
    snapshot->rows.push_back(info);
    return absl::OkStatus();
  }

  absl::Status ReadStacks(TableSnapshot* snapshot) {
    times_.emplace(bytes_, limit_);
    labels_.emplace(bytes_, limit_);
    ages_.emplace(bytes_, limit_);
    stacks_left_ = limit_ / sizeof(Stack);
    rows_left_ = limit_ / sizeof(Row);
    Offset next = 0;
    for (const auto& [offset, overflow] : {std::pair{head_->overflow_stack, true}, {head_->missing_stack, false}}) {
      if (offset == 0) continue;
      if (absl::Status status = ReadStack(offset, overflow, !overflow, snapshot, &next); !status.ok()) return status;
    }
    for (const auto& list : head_->stack_lists) {
      for (Offset offset = CounterValue(list); offset != 0; offset = next) {
        if (absl::Status status = ReadStack(offset, false, false, snapshot, &next); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadWaits(TableSnapshot* snapshot) {
    ages_->ReadAlive(stack_of_row_, snapshot);
    ReadOngoing(bytes_, limit_, stack_of_row_, snapshot);
    for (const NotedThread& thread : head_->noted_threads) {
      const uint64_t who = CounterValue(thread.who);
      const auto stack = stack_of_row_.find(static_cast<Offset>(who >> kNotedRowShift));
      if (who == 0 || stack == stack_of_row_.end()) continue;
      snapshot->noted_threads.push_back(
          {.id = static_cast<uint32_t>(who), .stack = stack->second, .when_ns = CounterValue(thread.when_ns)});
    }
    return absl::OkStatus();
  }

  absl::Status ReadSingleLocks(TableSnapshot* snapshot) {
    return ReadLocks(bytes_, limit_, stack_of_row_, &*times_, snapshot);
  }

  absl::Status ReadThreadsAndTypes(TableSnapshot* snapshot) {
    ReadLiveThreads(bytes_, limit_, row_index_, snapshot);
    ReadThrownTypes(bytes_, limit_, snapshot);
    return absl::OkStatus();
  }

  const char* bytes_;
  size_t size_;
  const TableHeader* head_ = nullptr;
  uint64_t limit_ = 0;  // bytes that may contain records
  absl::flat_hash_map<Offset, uint32_t> stack_of_row_;
  absl::flat_hash_map<Offset, uint32_t> row_index_;  // for rows of kThreads
  std::optional<TimesReader> times_;
  std::optional<LabelReader> labels_;
  std::optional<AgesReader> ages_;
  const std::optional<int64_t> monotonic_ns_;
  // Upper bounds for valid lists of this table; a longer walk means that a list is cyclic.
  uint64_t stacks_left_ = 0, rows_left_ = 0, frames_left_ = kMaxFrames;
};

}  // namespace

absl::StatusOr<TableSnapshot> ReadSnapshot(const void* bytes, size_t size, int64_t wall_ns,
                                           std::optional<int64_t> monotonic_ns) {
  TableSnapshot snapshot{};
  snapshot.wall_ns = wall_ns;
  if (absl::Status status = SnapshotReader(bytes, size, monotonic_ns).Read(&snapshot); !status.ok()) return status;
  CountFreesNotSeen(&snapshot);
  return snapshot;
}

}  // namespace holdfast
