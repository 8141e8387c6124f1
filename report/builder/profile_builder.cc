#include "report/builder/profile_builder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "fmt/format.h"
#include "report/base/utf8.h"
#include "report/builder/code_segments.h"
#include "report/builder/file_kinds.h"
#include "report/builder/profile_comments.h"
#include "report/builder/stack_interner.h"
#include "report/builder/written_locks.h"
#include "report/builder/written_threads.h"
#include "report/builder/written_waits.h"
#include "report/names/elf/demangle.h"
#include "report/observe/table/frees_not_seen.h"
#include "report/observe/table/process_info.h"
#include "report/profile/profile_kind.h"
#include "report/profile/record_codec.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// Demangles a type: "7MyError" becomes MyError. Returns an invalid name unchanged.
std::string TypeName(std::string_view mangled) {
  constexpr std::string_view kOfType = "typeinfo name for ";
  std::string name = Demangle(fmt::format("_ZTS{}", mangled.starts_with('*') ? mangled.substr(1) : mangled));
  return name.starts_with(kOfType) ? name.substr(kOfType.size()) : std::string(mangled);
}

// The unrounded sums of the rows of one sample.
struct Group {
  uint32_t stack;
  WaitKind wait;
  uint64_t class_bytes;
  uint8_t mark;
  uint16_t number;
  uint32_t labels;  // index into TableSnapshot::label_sets
  bool overflow;
  std::array<double, kRowSums> sums;
  bool waiting = false;       // the wait is ongoing
  uint64_t lock_address = 0;  // of an ongoing wait, if samples are separate for each lock
};

// Adds ongoing waits with the time so far: all of them, without sampling. Separate for each lock if the other samples
// are.
void AddWaiting(const ProcessState& state, StackInterner* stacks, std::vector<Group>* groups) {
  const bool by_lock = std::any_of(state.table->rows.begin(), state.table->rows.end(),
                                   [](const RowInfo& row) { return IsLockKind(row.profile) && row.number != 0; });
  absl::flat_hash_map<std::tuple<uint32_t, WaitKind, uint64_t, uint32_t>, size_t> index;
  for (const OngoingWaitInfo& wait : state.waits.ongoing) {
    const uint32_t stack = stacks->Intern(wait.stack);
    const uint64_t lock = by_lock ? wait.lock : 0;
    const uint32_t labels = wait.stack != kNoStack ? state.stack(wait.stack).labels : 0;
    const auto [place, added] = index.emplace(std::tuple(stack, wait.kind, lock, labels), groups->size());
    if (added) groups->push_back({stack, wait.kind, 0, 0, 0, labels, false, {}, true, lock});
    (*groups)[place->second].sums[kContentions] += 1;
    (*groups)[place->second].sums[kDelay] += static_cast<double>(state.table->monotonic_ns - wait.start_ns);
  }
}

// Adds the stacks that libc mapped for threads, as mappings of the threads' creators.
void AddThreadStacks(const ProcessState& state, StackInterner* stacks, std::vector<Group>* groups) {
  std::vector<double> gone(state.table->rows.size());
  for (size_t i = 0; i < state.thread_is_gone.size(); ++i)
    gone[state.table->live_threads[i].row] += state.thread_is_gone[i] ? 1 : 0;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t>, size_t> index;
  for (size_t i = 0; i < state.table->rows.size(); ++i) {
    const RowInfo& row = state.table->rows[i];
    if (!row.has_thread_stacks() || row.sums[kThreadsCreated] == 0) continue;
    const uint32_t stack = stacks->Intern(row.stack), labels = state.stack(row.stack).labels;
    const auto [place, added] = index.emplace(std::tuple(stack, labels), groups->size());
    if (added) {
      Group group{};
      group.stack = stack;
      group.mark = static_cast<uint8_t>(MappingKind::kStack);
      group.labels = labels;
      groups->push_back(group);
    }
    auto& sums = (*groups)[place->second].sums;
    const double created = row.sums[kThreadsCreated], ended = std::min(created, row.sums[kThreadsEnded] + gone[i]);
    const auto bytes = static_cast<double>(row.class_bytes);
    sums[kAllocObjects] += created;
    sums[kAllocSpace] += created * bytes;
    sums[kFreeObjects] += ended;
    sums[kFreeSpace] += ended * bytes;
  }
}

// `group_of`: the group of each row that is in one, by its place in the table.
std::vector<Group> GroupRows(const ProcessState& state, std::span<const RowInfo> rows, ProfileKind kind,
                             bool only_waiting, StackInterner* stacks,
                             absl::flat_hash_map<Offset, uint32_t>* group_of) {
  std::vector<Group> groups;
  absl::flat_hash_map<std::tuple<uint32_t, WaitKind, uint64_t, uint8_t, uint16_t, uint32_t>, size_t> index;
  for (const RowInfo& row : rows) {
    if (row.profile != kind || only_waiting) continue;
    // Skip it before its stack creates locations: a row without calls or waits is not informative.
    if (std::all_of(row.sums.begin(), row.sums.end(), [](double sum) { return !(sum > 0); })) continue;
    const uint32_t stack = stacks->Intern(row.stack);
    const StackInfo& info = state.stack(row.stack);
    const uint64_t class_bytes = kind != ProfileKind::kThreads ? row.class_bytes : 0;
    const auto [place, added] =
        index.emplace(std::tuple(stack, row.wait, class_bytes, row.mark, row.number, info.labels), groups.size());
    // The moments do not know that these frees are not seen.
    const bool is_known = state.table->frees_not_seen.empty() || !IsFreedUnseen(*state.table, row.stack);
    if (group_of != nullptr && is_known) group_of->emplace(row.place, static_cast<uint32_t>(place->second));
    if (added) {
      groups.push_back({stack, row.wait, class_bytes, row.mark, row.number, info.labels, info.overflow, row.sums});
      continue;
    }
    for (int i = 0; i < kRowSums; ++i) groups[place->second].sums[i] += row.sums[i];
  }
  if (kind == ProfileKind::kBlock) AddWaiting(state, stacks, &groups);
  if (kind == ProfileKind::kMap) AddThreadStacks(state, stacks, &groups);
  if (kind == ProfileKind::kThreads) {
    for (size_t i = 0; i < state.thread_is_gone.size(); ++i) {
      const RowInfo& row = state.table->rows[state.table->live_threads[i].row];
      const auto group = index.find(std::tuple(stacks->Intern(row.stack), row.wait, uint64_t{0}, row.mark, row.number,
                                               state.stack(row.stack).labels));
      if (state.thread_is_gone[i] && group != index.end()) groups[group->second].sums[kThreadsEnded] += 1;
    }
  }
  return groups;
}

class Builder {
 public:
  Builder(const ProcessState& state, ProfileKind kind, bool only_waiting = false)
      : state_(state), rows_(state.table->rows), kind_(kind), only_waiting_(only_waiting) {}
  // For what was in use at an earlier moment: `rows` contain nothing else.
  Builder(const ProcessState& state, std::span<const RowInfo> rows, const PeakState* peak)
      : state_(state), rows_(rows), kind_(ProfileKind::kHeap), only_waiting_(false), peak_(peak) {}

  Profile Build() {
    Describe();
    Segments segments(state_);
    StackInterner stacks(state_, segments, &profile_);
    const bool is_live_heap = kind_ == ProfileKind::kHeap && peak_ == nullptr;
    const bool has_labels = is_live_heap && !state_.labelled_blocks.empty();
    const bool has_course =
        is_live_heap && !has_labels && !state_.course.empty();  // labels need several samples for a row
    absl::flat_hash_map<Offset, uint32_t> group_of;
    std::vector<uint32_t> sample_of_group;  // 0: none; counts from 1
    const std::vector<Group> groups =
        GroupRows(state_, rows_, kind_, only_waiting_, &stacks, has_course || has_labels ? &group_of : nullptr);
    if (has_labels) {
      for (const LabelledBlocks& blocks : state_.labelled_blocks) {
        if (const auto group = group_of.find(blocks.row); group != group_of.end())
          labels_of_group_[group->second].push_back(&blocks);
      }
    }
    for (const Group& group : groups) {
      const std::vector<uint32_t>& frames = stacks.Frames(group.stack);
      const size_t before = profile_.samples.size();
      if (IsLockKind(kind_)) {
        AddLockSample(group, frames);
      } else if (kind_ == ProfileKind::kThreads) {
        AddThreadSample(group, frames);
      } else if (kind_ == ProfileKind::kExceptions) {
        AddExceptionSample(group, frames);
      } else if (kind_ == ProfileKind::kCpu) {
        AddCpuSample(group, frames);
      } else {
        AddHeapSample(group, frames, static_cast<uint32_t>(&group - groups.data()));
      }
      const size_t samples = profile_.samples.size();
      sample_of_group.push_back(samples > before ? static_cast<uint32_t>(samples) : 0);
    }
    if (has_course) {
      for (auto& [row, group] : group_of) group = sample_of_group[group];
      AddCourse(group_of);
    }
    if (kind_ == ProfileKind::kMap) AddLibcMappings(&stacks);
    AddComments(state_, kFileKinds[peak_ != nullptr ? kPeakFile : static_cast<int>(kind_)], variances_,
                columns_.full_sums(), &profile_);
    const FramesOfStack frames = [&stacks](uint32_t stack) { return stacks.Frames(stacks.Intern(stack)); };
    if (!profile_.samples.empty()) {
      AddThreadRecords(state_, frames, &profile_);
      if (state_.thread_lives != nullptr && (kind_ == ProfileKind::kBlock || kind_ == ProfileKind::kThreads))
        AddThreadTimes(*state_.thread_lives, &profile_);
    }
    if (IsLockKind(kind_) && (!profile_.samples.empty() || only_waiting_)) {
      AddLockRecords(state_, /*earlier=*/!only_waiting_, frames, &profile_);
      AddWaitRecords(state_, frames, &profile_, only_waiting_ ? state_.waits.ongoing.size() : kMaxWaitsWritten);
    }
    segments.AddMappings(&profile_);
    return std::move(profile_);
  }

 private:
  StringId Intern(std::string_view text) { return profile_.strings.Intern(text); }

  void Describe() {
    const auto add = [&](const char* type, const char* unit) {
      profile_.sample_types.push_back({Intern(type), Intern(unit)});
    };
    if (peak_ != nullptr) {
      add("peak_objects", "count");
      add("peak_space", "bytes");
    } else {
      for (const auto& [type, unit] : ValueTypesOf(kProfileKindNames[static_cast<int>(kind_)])) add(type, unit);
    }
    if (kind_ == ProfileKind::kHeap || kind_ == ProfileKind::kMap) {
      profile_.period_type = {Intern("space"), Intern("bytes")};
      profile_.period = kind_ == ProfileKind::kMap ? 1 : 0;
      for (const IntervalChange& change : state_.table->heap_intervals) {
        if (change.interval != 0 && kind_ == ProfileKind::kHeap)
          profile_.period = static_cast<int64_t>(change.interval);  // the newest that is not "off"
      }
    } else if (kind_ == ProfileKind::kCpu) {  // as in Go's profiles
      profile_.period_type = profile_.sample_types.back();
      profile_.period = CpuPeriod();
    } else {
      profile_.period_type = profile_.sample_types.front();
      profile_.period = 1;
    }
    profile_.default_sample_type = profile_.sample_types.back().type;
    profile_.time_nanos = peak_ != nullptr ? peak_->wall_ns : state_.table->wall_ns;
    profile_.duration_nanos = 0;  // cumulative; Parca would interpret another value as a difference
  }

  void AddHeapSample(const Group& group, const std::vector<uint32_t>& frames, uint32_t number = Profile::kNone) {
    const auto& sums = group.sums;
    // A free may be counted between our two reads of a row: keep the bytes in use between 0 and the allocated bytes.
    const auto in_use = [](double alloc, double free) { return std::clamp(alloc - free, 0.0, std::max(0.0, alloc)); };
    const double objects = in_use(sums[kAllocObjects], sums[kFreeObjects]);
    const double space = in_use(sums[kAllocSpace], sums[kFreeSpace]);
    const std::array<int64_t, 4> all = {columns_.Value(0, sums[kAllocObjects]), columns_.Value(1, sums[kAllocSpace]),
                                        columns_.Value(2, objects), columns_.Value(3, space)};
    if (all == std::array<int64_t, 4>{}) return;
    const auto values = std::span(all).subspan(peak_ != nullptr ? 2 : 0);
    // The overflow stack has all sizes, so it has no size class.
    labels_.clear();
    if (!group.overflow && kind_ == ProfileKind::kHeap) {
      labels_.push_back(
          {.key = Intern("bytes"), .number = static_cast<int64_t>(group.class_bytes), .unit = Intern("bytes")});
    }
    if (kind_ == ProfileKind::kMap && group.mark != 0)
      labels_.push_back({.key = Intern("mapping"), .text = Intern(kMappingKindNames[group.mark])});
    AddThreadLabels(group.labels);
    if (const auto labelled = labels_of_group_.find(number); labelled != labels_of_group_.end()) {
      AddLabelled(labelled->second, frames, all);
    } else {
      profile_.AddSample(frames, values, labels_);
    }
    variances_[0] += sums[kAllocObjectsVariance];
    variances_[1] += sums[kAllocSpaceVariance];
    // Freed samples no longer contribute to the variance.
    variances_[2] += std::max(0.0, sums[kAllocObjectsVariance] - sums[kFreeObjectsVariance]);
    variances_[3] += std::max(0.0, sums[kAllocSpaceVariance] - sums[kFreeSpaceVariance]);
  }

  // Divides what is in use among the holders and classes of the live blocks. Freed blocks are a sample without these labels.
  void AddLabelled(const std::vector<const LabelledBlocks*>& blocks, const std::vector<uint32_t>& frames,
                   std::array<int64_t, 4> rest) {
    std::map<std::pair<std::string, std::string>, std::pair<double, double>> parts;
    double objects = 0, bytes = 0;
    for (const LabelledBlocks* one : blocks) {
      auto& [part_objects, part_bytes] = parts[{one->held, one->of_class}];
      part_objects += one->objects;
      part_bytes += one->bytes;
      objects += one->objects;
      bytes += one->bytes;
    }
    const int64_t all_objects = rest[2], all_bytes = rest[3];
    const size_t usual_labels = labels_.size();
    double done_objects = 0, done_bytes = 0;
    int64_t given_objects = 0, given_bytes = 0;
    for (const auto& [names, part] : parts) {
      // Rounds so that the parts add up to the whole.
      done_objects += part.first;
      done_bytes += part.second;
      const auto upto = [](double done, double sum, int64_t all) {
        return sum <= 0 ? all
                        : std::min(all, static_cast<int64_t>(std::llround(static_cast<double>(all) * (done / sum))));
      };
      const int64_t here_objects = upto(done_objects, objects, all_objects) - given_objects;
      const int64_t here_bytes = upto(done_bytes, bytes, all_bytes) - given_bytes;
      given_objects += here_objects;
      given_bytes += here_bytes;
      if (here_objects == 0 && here_bytes == 0) continue;
      if (!names.first.empty()) labels_.push_back({.key = Intern("held"), .text = Intern(names.first)});
      if (!names.second.empty()) labels_.push_back({.key = Intern("class"), .text = Intern(names.second)});
      const std::array<int64_t, 4> values = {here_objects, here_bytes, here_objects, here_bytes};
      profile_.AddSample(frames, values, labels_);
      labels_.resize(usual_labels);
      for (size_t i = 0; i < rest.size(); ++i) rest[i] -= values[i];
    }
    if (rest != std::array<int64_t, 4>{}) profile_.AddSample(frames, rest, labels_);
  }

  // `sample_of`: the number of each row's sample.
  void AddCourse(const absl::flat_hash_map<Offset, uint32_t>& sample_of) {
    using Sums = std::array<uint64_t, 4>;
    record::Course course;
    std::vector<Sums> before(profile_.samples.size()), sums;
    std::vector<std::array<std::vector<uint64_t>, 4>> increments(before.size());
    for (const HeapMoment& moment : state_.course) {
      if (moment.elapsed_ns <= 0 || moment.elapsed_ns >= state_.table->elapsed_ns) continue;
      course.elapsed_ns.push_back(static_cast<uint64_t>(moment.elapsed_ns));
      sums.assign(before.size(), {});
      for (const RowSums& row : moment.rows) {
        const auto sample = sample_of.find(row.row);
        if (sample == sample_of.end() || sample->second == 0) continue;
        const Sums of_row = {row.allocated_bytes, row.allocated_objects, row.freed_bytes, row.freed_objects};
        for (int i = 0; i < 4; ++i) sums[sample->second - 1][i] += of_row[i];
      }
      for (size_t sample = 0; sample < sums.size(); ++sample) {
        for (int i = 0; i < 4; ++i) {
          if (sums[sample][i] <= before[sample][i]) continue;
          std::vector<uint64_t>& of = increments[sample][i];
          of.resize(course.elapsed_ns.size() - 1);
          of.push_back(sums[sample][i] - before[sample][i]);
          before[sample][i] = sums[sample][i];
        }
      }
    }
    if (course.elapsed_ns.empty()) return;
    for (size_t sample = 0; sample < increments.size(); ++sample) {
      auto& of = increments[sample];
      if (std::ranges::all_of(of, [](const auto& each) { return each.empty(); })) continue;
      course.sample.push_back(
          {static_cast<uint32_t>(sample + 1), std::move(of[0]), std::move(of[1]), std::move(of[2]), std::move(of[3])});
    }
    // Without its course the file can still be read.
    if (course.sample.size() > kMaxRepeated) return;
    profile_.mutable_records()->course = std::move(course);
  }

  void AddLockSample(const Group& group, const std::vector<uint32_t>& frames) {
    const std::array<int64_t, 2> values = {columns_.Value(0, group.sums[kContentions]),
                                           columns_.Value(1, group.sums[kDelay])};
    if (values == std::array<int64_t, 2>{}) return;
    labels_.clear();
    if (group.wait != WaitKind::kNone) {
      labels_.push_back({.key = Intern(kind_ == ProfileKind::kMutex ? "lock" : "wait"),
                         .text = Intern(kWaitKindNames[static_cast<int>(group.wait)])});
    }
    if (const uint64_t address = group.waiting ? group.lock_address : AddressOfLock(group.number); address != 0) {
      labels_.push_back({.key = Intern("lock_address"), .text = Intern(fmt::format("0x{:x}", address))});
    }
    if (group.waiting) labels_.push_back({.key = Intern("state"), .text = Intern("waiting")});
    AddThreadLabels(group.labels);
    profile_.AddSample(frames, values, labels_);
    variances_[0] += group.sums[kContentionsVariance];
    variances_[1] += group.sums[kDelayVariance];
  }

  // In addition to the program's own mappings. If there are none, the heap profile is enough.
  void AddLibcMappings(StackInterner* stacks) {
    if (profile_.samples.empty()) return;
    for (const LibcMapping& mapping : state_.libc_mappings) {
      Group group{};
      group.mark = static_cast<uint8_t>(mapping.kind);
      group.sums[kAllocObjects] = static_cast<double>(std::max(mapping.most_mappings, mapping.mappings));
      group.sums[kAllocSpace] = static_cast<double>(std::max(mapping.most_bytes, mapping.bytes));
      group.sums[kFreeObjects] = group.sums[kAllocObjects] - static_cast<double>(mapping.mappings);
      group.sums[kFreeSpace] = group.sums[kAllocSpace] - static_cast<double>(mapping.bytes);
      AddHeapSample(group, stacks->Frames(stacks->InternNamed(group.mark, mapping.name)));
    }
  }

  void AddThreadSample(const Group& group, const std::vector<uint32_t>& frames) {
    const double created = group.sums[kThreadsCreated];
    const std::array<int64_t, 2> values = {
        columns_.Value(0, created), columns_.Value(1, std::clamp(created - group.sums[kThreadsEnded], 0.0, created))};
    if (values == std::array<int64_t, 2>{}) return;
    labels_.clear();
    AddThreadLabels(group.labels);
    profile_.AddSample(frames, values, labels_);
  }

  void AddExceptionSample(const Group& group, const std::vector<uint32_t>& frames) {
    const std::array<int64_t, 1> values = {columns_.Value(0, group.sums[kThrown])};
    if (values[0] == 0) return;
    labels_.clear();
    if (const std::string type = TypeOf(group); !type.empty())
      labels_.push_back({.key = Intern("type"), .text = Intern(type)});
    if ((group.mark & kRethrown) != 0) labels_.push_back({.key = Intern("rethrow"), .text = Intern("yes")});
    AddThreadLabels(group.labels);
    profile_.AddSample(frames, values, labels_);
    variances_[0] += group.sums[kThrownVariance];
  }

  void AddCpuSample(const Group& group, const std::vector<uint32_t>& frames) {
    const std::array<int64_t, 2> values = {columns_.Value(0, group.sums[kCpuSamples]),
                                           columns_.Value(1, group.sums[kCpuTime])};
    if (values == std::array<int64_t, 2>{}) return;
    labels_.clear();
    AddThreadLabels(group.labels);
    profile_.AddSample(frames, values, labels_);
    // Each timer fires at equal distances of CPU time. For the part of a function that is at most as uncertain as if
    // the samples came at random.
    variances_[0] += group.sums[kCpuSamples];
    variances_[1] += group.sums[kCpuVariance];
  }

  // The newest interval that is not "off".
  int64_t CpuPeriod() const {
    int64_t period = 0;
    for (const IntervalChange& change : state_.table->cpu_intervals) {
      if (change.interval != 0) period = static_cast<int64_t>(change.interval);
    }
    return period;
  }

  std::string TypeOf(const Group& group) {
    if (group.overflow) return "";
    if ((group.mark & kRust) != 0) return "rust panic";
    if (group.number == kTypeOverflow) return std::string(kLabelOverflow);
    const auto found = state_.table->thrown_types.find(group.number);
    if (found == state_.table->thrown_types.end()) return (group.mark & kForeign) != 0 ? "foreign" : "";
    return RepairUtf8(TypeName(found->second));
  }

  void AddThreadLabels(uint32_t set) { holdfast::AddThreadLabels(state_.table->label_sets[set], &profile_, &labels_); }

  // Returns 0 if samples are not separate for each lock, or if the lock is unknown.
  uint64_t AddressOfLock(uint16_t number) {
    if (number == 0) return 0;
    if (lock_addresses_.empty()) {
      for (const LockInfo& lock : state_.waits.locks) lock_addresses_.emplace(lock.number, lock.address);
    }
    const auto found = lock_addresses_.find(number);
    return found == lock_addresses_.end() ? 0 : found->second;
  }

  const ProcessState& state_;
  const std::span<const RowInfo> rows_;
  const ProfileKind kind_;
  const bool only_waiting_;
  const PeakState* const peak_ = nullptr;
  absl::flat_hash_map<uint16_t, uint64_t> lock_addresses_;
  absl::flat_hash_map<uint32_t, std::vector<const LabelledBlocks*>> labels_of_group_;
  Profile profile_;
  std::vector<Profile::Label> labels_;  // of the current sample
  std::array<double, 4> variances_ = {};
  Columns columns_;
};

}  // namespace

Profile BuildProfile(const ProcessState& state, ProfileKind kind) { return Builder(state, kind).Build(); }

Profile BuildPeakProfile(const ProcessState& state) {
  const PeakState& peak = *state.peak;
  absl::flat_hash_map<Offset, const RowInfo*> by_place;
  for (const RowInfo& row : state.table->rows) by_place.emplace(row.place, &row);
  std::vector<RowInfo> rows;
  for (const RowInUse& then : peak.rows) {
    const auto found = by_place.find(then.row);
    if (found == by_place.end()) continue;
    if (!state.table->frees_not_seen.empty() && IsFreedUnseen(*state.table, found->second->stack)) continue;
    RowInfo& row = rows.emplace_back(*found->second);
    row.sums = {};
    row.sums[kAllocObjects] = static_cast<double>(then.objects) / (1 << kCountFractionBits);
    row.sums[kAllocSpace] = static_cast<double>(then.bytes) / (1 << kAmountFractionBits);
    row.sums[kAllocObjectsVariance] = then.objects_variance;
    row.sums[kAllocSpaceVariance] = then.bytes_variance;
  }
  return Builder(state, rows, &peak).Build();
}

Profile BuildWaitingProfile(const ProcessState& state) { return Builder(state, ProfileKind::kBlock, true).Build(); }

std::string ProcessId(const ProcessIdentity& process) {
  return fmt::format("{}/{}/{}/{}/{:016x}", process.host, process.pid_ns, process.pid, process.start_ticks,
                     process.image);
}

const char* HoldfastVersion() { return HOLDFAST_VERSION; }

}  // namespace holdfast
