#include "report/builder/profile_comments.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "report/analysis/profiles/metric.h"
#include "report/base/value_units.h"
#include "report/builder/profile_builder.h"
#include "report/builder/written_locks.h"
#include "report/observe/table/entry_text.h"
#include "report/profile/process_comments.h"
#include "report/profile/typed_records.h"
#include "sampler/contract/attach_call.h"

namespace holdfast {
namespace {

int64_t InRange(uint64_t value) { return static_cast<int64_t>(std::min(value, kMaxValue)); }

// Makes a comment one line, whatever the program's arguments contain.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

class Comments {
 public:
  explicit Comments(Profile* profile) : profile_(profile) {}

  template <typename Value>
  void Add(std::string_view key, const Value& value) {
    profile_->AddComment(OneLine(fmt::format("{}: {}", key, value)));
  }

 private:
  Profile* profile_;
};

// Lists the kinds that are recorded, so that a kind without a file is known to be zero.
std::vector<std::string> ProfiledKinds(const ProcessState& state) {
  const auto is_off = [](const std::vector<IntervalChange>& changes) {
    return !changes.empty() && changes.back().interval == 0;
  };
  std::vector<std::string> kinds;
  for (int i = 0; i < kProfileKinds; ++i) {
    const auto kind = static_cast<ProfileKind>(i);
    if ((state.table->profiles & KindBit(kind)) == 0) continue;
    if (kind == ProfileKind::kHeap && is_off(state.table->heap_intervals)) continue;
    if (IsLockKind(kind) && is_off(state.table->lock_intervals)) continue;
    if (kind == ProfileKind::kCpu && state.table->cpu_state != CpuState::kOn) continue;
    kinds.emplace_back(kProfileKindNames[i]);
  }
  if (state.thread_times != nullptr) kinds.emplace_back("wall");
  return kinds;
}

void AddIdentity(const ProcessState& state, std::string_view kind, Profile* profile) {
  const ProcessIdentity& process = state.table->process;
  record::Process* record = profile->mutable_process();
  record->kind = kind;
  record->id = OneLine(ProcessId(process));
  record->program = OneLine(process.program);
  record->executable = OneLine(process.executable);
  record->command = OneLine(process.command_line);
  record->pid = process.pid;
  record->parent_pid = process.forked ? process.parent_pid : 0;
  record->attached = (state.table->profiles & kAttachedBit) != 0;
  record->version = fmt::format("holdfast {}", HoldfastVersion());
  record->started_ns = process.start_wall_ns;
  record->elapsed_ns = state.table->elapsed_ns;
  record->profiled = ProfiledKinds(state);
  record->unseen_waits = state.waits.unseen;
  record->resident_bytes = state.resident_bytes;
}

record::Sampling& SamplingIn(Profile* profile) {
  std::optional<record::Sampling>& sampling = profile->mutable_records()->sampling;
  return sampling.has_value() ? *sampling : sampling.emplace();
}

void AddIntervals(const std::vector<IntervalChange>& changes, std::string_view unit, Profile* profile) {
  std::vector<record::Interval>& intervals = SamplingIn(profile).interval;
  for (const IntervalChange& change : changes)
    intervals.push_back({change.wall_ns, static_cast<int64_t>(change.interval), std::string(unit)});
}

// Summarizes all locks with a holder in one line, for people. Each lock's own values are records.
void AddLengths(const ProcessState& state, bool holders, Comments* comments) {
  TimeCounts times;
  uint64_t longest_ns = 0;
  for (const LockInfo& lock : state.waits.locks) {
    if (HasNoHolder(lock.kind)) continue;
    times.Add(CountsOf(holders ? lock.hold_times : lock.wait_times));
    longest_ns = std::max(longest_ns, holders ? lock.longest_held_ns : lock.longest_ns);
  }
  if (times.empty()) return;
  const auto longest = static_cast<int64_t>(std::min(longest_ns, kMaxValue));
  comments->Add(holders ? "held" : "waited for locks", times.LengthsText(longest));
}

// Counts every wait, and every hold that made others wait: for all kinds together, then for each kind.
void AddLockCounts(const ProcessState& state, bool holders, Profile* profile, Comments* comments) {
  record::Locks& locks = profile->mutable_records()->locks.emplace();
  uint64_t contentions = 0, delay_ns = 0, gap_ns = 0;
  for (int i = 0; i < kWaitKinds; ++i) {
    const TableSnapshot::LockTotals& of_kind = state.table->locks[i];
    contentions += holders ? of_kind.holds : of_kind.waits;
    AddSaturating(holders ? of_kind.hold_ns : of_kind.wait_ns, &delay_ns);
    AddSaturating(of_kind.gap_ns, &gap_ns);
    if (i == 0 || (holders ? of_kind.holds + of_kind.gap_ns : of_kind.waits) == 0) continue;
    locks.kind.push_back({.kind = kWaitKindNames[i],
                          .contentions = InRange(holders ? of_kind.holds : of_kind.waits),
                          .acquired = holders ? 0 : InRange(of_kind.acquired),
                          .delay_ns = InRange(holders ? of_kind.hold_ns : of_kind.wait_ns),
                          .gap_ns = holders ? InRange(of_kind.gap_ns) : 0});
  }
  locks.contentions = InRange(contentions);
  locks.delay_ns = InRange(delay_ns);
  locks.gap_ns = holders ? InRange(gap_ns) : 0;
  locks.samples = holders ? state.table->hold_samples : state.table->wait_samples;
  comments->Add("contentions", contentions);
  comments->Add("delay_ns", delay_ns);
  if (holders) comments->Add("gap_ns", gap_ns);
  AddLengths(state, holders, comments);
  comments->Add("exact", holders ? "contentions, delay_ns, gap_ns" : "contentions, acquired, delay_ns");
}

bool IsEveryOne(const std::vector<IntervalChange>& intervals) {
  return !intervals.empty() && std::all_of(intervals.begin(), intervals.end(),
                                           [](const IntervalChange& change) { return change.interval == 1; });
}

record::Counters& CountersIn(Profile* profile) {
  std::optional<record::Counters>& counters = profile->mutable_records()->counters;
  return counters.has_value() ? *counters : counters.emplace();
}

// Writes what was counted exactly and not estimated (see CounterShard in layout.h). A count of samples only gets a name
// that says so.
void AddCounts(const ProcessState& state, ProfileKind kind, Profile* profile, Comments* comments) {
  if (kind == ProfileKind::kMap || kind == ProfileKind::kThreads || kind == ProfileKind::kExceptions ||
      kind == ProfileKind::kCpu)
    return;
  if (kind != ProfileKind::kHeap) {
    AddLockCounts(state, kind == ProfileKind::kMutex, profile, comments);
    return;
  }
  const TableSnapshot::Totals& totals = state.table->totals;
  const auto& intervals = state.table->heap_intervals;
  const bool every = IsEveryOne(intervals);
  record::Counters& counters = CountersIn(profile);
  counters.alloc_calls = totals.alloc_calls;
  counters.alloc_bytes = totals.alloc_bytes;
  counters.free_calls = totals.free_calls;
  counters.free_bytes = totals.free_bytes;
  counters.calls_are_sampled = !every;
  const char* prefix = every ? "" : "sampled_";
  comments->Add(fmt::format("{}alloc_calls", prefix), totals.alloc_calls);
  comments->Add("alloc_bytes", totals.alloc_bytes);
  comments->Add(fmt::format("{}free_calls", prefix), totals.free_calls);
  comments->Add(fmt::format("{}free_bytes", prefix), totals.free_bytes);
  comments->Add("exact", every ? "alloc_calls, alloc_bytes, free_calls, free_bytes"
                               : "alloc_bytes, but for what each thread allocated since its last sample");
}

void DescribePeak(const ProcessState& state, const PeakState* stacks, Profile* profile, Comments* comments) {
  const auto add = [comments](std::string_view key, double bytes, int64_t wall_ns) {
    comments->Add(key, fmt::format("{:.0f} bytes at {}", bytes, FormatWallTime(wall_ns)));
  };
  record::Peak& peak = profile->mutable_records()->peak.emplace();
  if (state.highest_bytes > 0) {
    peak.bytes = std::llround(state.highest_bytes);
    peak.time_ns = state.highest_wall_ns;
    add("peak", state.highest_bytes, state.highest_wall_ns);
  }
  if (IsEveryOne(state.table->heap_intervals) && state.table->most_bytes.has_value()) {
    const double missing = *state.table->most_bytes - state.highest_bytes;
    peak.missing_bytes = missing >= 0.5 ? std::llround(missing) : 0;
    comments->Add("peak error", missing >= 0.5
                                    ? fmt::format("{} bytes more at most, as threads count apart", peak.missing_bytes)
                                    : "none");
  }
  if (stacks != nullptr) {
    peak.stacks_bytes = std::llround(stacks->estimated_bytes());
    peak.stacks_time_ns = stacks->wall_ns;
    add("peak stacks", stacks->estimated_bytes(), stacks->wall_ns);
  }
}

void AddAges(const ProcessState& state, Profile* profile, Comments* comments) {
  const std::string drawn = fmt::format("of one block in {} of up to {} bytes, chosen at random; of each larger one",
                                        kAgedOneIn, kLargestShadowed);
  record::Sampling& sampling = SamplingIn(profile);
  sampling.ages_known = state.table->ages_are_drawn ? drawn : "of each block that was sampled";
  if (state.table->ages_are_drawn) {
    sampling.aged_one_in = kAgedOneIn;
    sampling.aged_up_to_bytes = kLargestShadowed;
  }
  comments->Add("ages known", sampling.ages_known);
  comments->Add("not in freed_objects, freed_space, lifetime",
                "blocks that still live; alive_space has their age so far");
}

void AddPages(const ProcessState& state, Profile* profile, Comments* comments) {
  const auto sum = [&](double ResidentRow::*part, double ResidentRow::*variance, int64_t* whole) {
    double bytes = 0, of_bytes = 0;
    for (const ResidentRow& row : state.residency.rows) {
      bytes += row.*part;
      of_bytes += row.*variance;
    }
    *whole = std::llround(bytes);
    return fmt::format("{:.0f} ± {:.0f}", bytes, 1.96 * std::sqrt(std::max(0.0, of_bytes)));
  };
  record::Pages& pages = profile->mutable_records()->pages.emplace();
  pages.huge_known = state.residency.huge_known;
  comments->Add("swapped_bytes", sum(&ResidentRow::swapped, &ResidentRow::swapped_variance, &pages.swapped_bytes));
  comments->Add("huge_bytes",
                state.residency.huge_known
                    ? sum(&ResidentRow::huge, &ResidentRow::huge_variance, &pages.huge_bytes)
                    : "not known: the kernel says which pages are huge from Linux 6.7 on; holdfast memory "
                      "has it of the whole process");
  if (state.residency.stacks_left_out > 0) {
    comments->Add("stacks left out", fmt::format("{} (threads that ran just then, or have no guard page)",
                                                 state.residency.stacks_left_out));
  }
  if (!state.residency.mappings_left_out.empty()) comments->Add("mappings left out", state.residency.mappings_left_out);
}

// Memory in no row, because nobody knows whether it is in use.
void AddFreesNotSeen(const ProcessState& state, Profile* profile, Comments* comments) {
  for (const auto& [path, sum] : state.table->frees_not_seen) {
    profile->mutable_records()->unseen_frees.push_back({path, std::round(sum.bytes), std::round(sum.objects)});
    comments->Add("frees not seen",
                  fmt::format("{:.0f} bytes in {:.0f} blocks of {}, which calls another free: they count as freed",
                              sum.bytes, sum.objects, path));
  }
}

// In profiles of every kind: they say why there is none of the heap.
void AddAllocator(const ProcessState& state, bool is_heap, Profile* profile, Comments* comments) {
  const EntryOutcome outcome = EntryOutcomeOf(*state.table);
  if (!outcome.has_allocator()) return;
  record::Allocator& allocator = profile->mutable_records()->allocator.emplace();
  allocator.outcome = EntryText(outcome);
  // Other objects call glibc's malloc, and a malloc of the program may pass its calls on.
  if (is_heap && !outcome.is_redirected() && !MayPassOn(outcome))
    allocator.outcome += "; this profile has only what is taken from others";
  allocator.is_seen = outcome.is_redirected();
  comments->Add("allocator", allocator.outcome);
  allocator.incomplete = WhyIncomplete(*state.table);
  if (!allocator.incomplete.empty()) comments->Add("incomplete", allocator.incomplete);
}

void AddTotals(std::span<const double> variances, Profile* profile) {
  for (size_t i = 0; i < profile->sample_types.size(); ++i) {
    AddTotal(i, std::isnan(variances[i]) ? std::nullopt : std::optional(1.96 * std::sqrt(std::max(0.0, variances[i]))),
             profile);
  }
}

void AddLosses(const ProcessState& state, uint64_t full_sums, Profile* profile, Comments* comments) {
  bool any = false;
  for (int i = 0; i < kLosses; ++i) {
    const uint64_t lost = state.table->losses[i] + (i == static_cast<int>(Loss::kSumFull) ? full_sums : 0);
    if (lost == 0) continue;
    profile->mutable_records()->loss.push_back({kLossNames[i], lost});
    comments->Add(fmt::format("lost {}", kLossNames[i]), lost);
    any = true;
  }
  if (!any) comments->Add("losses", "none");
}

}  // namespace

void AddComments(const ProcessState& state, const FileKind& file, std::span<const double> variances, uint64_t full_sums,
                 Profile* profile) {
  Comments comments(profile);
  AddIdentity(state, file.name, profile);
  const ProfileKind kind = file.rows;
  const bool is_heap_file = (file.contents & FileKind::kHeapOnly) != 0;
  if (kind == ProfileKind::kHeap) {
    AddIntervals(state.table->heap_intervals, "bytes", profile);
  } else if (IsLockKind(kind)) {
    AddIntervals(state.table->lock_intervals, "ns", profile);
  } else if (kind == ProfileKind::kCpu) {
    AddIntervals(state.table->cpu_intervals, "ns", profile);
  }
  AddProcessComments(profile);
  for (const std::string& reason : state.reasons) comments.Add("snapshot-when", reason);
  if (state.exit_moment == ExitMoment::kAsked) {
    profile->mutable_process()->moment = record::Moment::kBeforeExitHandlers;
    comments.Add("moment", "before exit handlers");
  } else if (state.exit_moment != ExitMoment::kNone) {
    profile->mutable_process()->moment = record::Moment::kAfterExitHandlers;
    comments.Add("moment", "after exit handlers");
  }
  if ((file.contents & FileKind::kCounts) != 0) AddCounts(state, kind, profile, &comments);
  if ((file.contents & FileKind::kAges) != 0) AddAges(state, profile, &comments);
  if ((file.contents & FileKind::kPages) != 0) AddPages(state, profile, &comments);
  if (is_heap_file && !state.residency.left_out.empty()) comments.Add("resident left out", state.residency.left_out);
  if ((file.contents & FileKind::kPeak) != 0)
    DescribePeak(state, is_heap_file ? nullptr : state.peak, profile, &comments);
  AddTotals(variances, profile);
  if (kind == ProfileKind::kHeap) AddFreesNotSeen(state, profile, &comments);
  AddAllocator(state, is_heap_file, profile, &comments);
  AddLosses(state, full_sums, profile, &comments);
  record::Counters& counters = CountersIn(profile);
  counters.own_time_ns = state.table->totals.sample_ns;
  counters.own_table_bytes = state.table->table_bytes;
  counters.own_table_steps = state.table->totals.table_steps;
  counters.own_memory_probes = state.table->totals.memory_probes;
  comments.Add("own time_ns", state.table->totals.sample_ns);
  comments.Add("own table_bytes", state.table->table_bytes);
}

}  // namespace holdfast
