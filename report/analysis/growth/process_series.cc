#include "report/analysis/growth/process_series.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <numeric>

#include "absl/hash/hash.h"
#include "fmt/format.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/variance.h"
#include "report/base/libc_names.h"
#include "report/base/value_units.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr double kNanosAnHour = 3600e9;
// Limits for one file: more than any writer writes.
constexpr size_t kMaxCoursePoints = 100, kMaxPoints = 1'000'000;
// While memory is level, snapshots that were not written count as if they were; this many are enough.
constexpr uint64_t kMaxUnchangedPoints = 16;
constexpr int64_t kMuchInOneRun = 64 << 10;  // bytes; a stack in one run must grow by this, or by …
constexpr double kMuchOfInUse = 0.01;        // … this part of the bytes in use
constexpr double kKnownAges = 0.5;           // the least part of the bytes in use with a known age

// Whether the leaf maps memory for the blocks of an allocator.
bool IsOfAllocator(const Profile& profile, const FrameNode& leaf) {
  constexpr std::string_view kLinked[] = {"je_", "_rjem_", "os_pages_", "tcmalloc::", "mi_", "_mi_", "snmalloc::"};
  const bool is_in_library = std::ranges::any_of(
      leaf.objects, [&](StringId object) { return !AllocatorOfFile(profile.strings[object]).empty(); });
  const auto& linked = profile.records().allocator;
  return is_in_library ||
         (linked.has_value() && linked->is_seen &&
          std::ranges::any_of(kLinked, [&](std::string_view begin) { return leaf.name.starts_with(begin); }));
}

void AddSurvivors(const AliveAges& ages, double hours, Series* series) {
  double known = 0;
  for (const double bytes : ages.bytes) known += bytes;
  const auto at = std::ranges::find(series->times, hours);
  if (at == series->times.end()) return;
  series->survivors_of = static_cast<size_t>(at - series->times.begin());
  if (known < kKnownAges * series->values[series->survivors_of]) return;
  for (const double time : series->times) {
    const AliveAges::Part older = ages.OlderThan(std::max(0.0, (hours - time) * kNanosAnHour));
    series->survivors.push_back(older.bytes);
    series->survivor_variances.push_back(older.variance);
  }
}

// The table of an exact process grows with the blocks in use.
int64_t ResidentWithoutTable(const Profile& profile) {
  const auto resident = static_cast<int64_t>(std::min<uint64_t>(profile.process().resident_bytes, INT64_MAX));
  const auto& counters = profile.records().counters;
  const uint64_t table = counters.has_value() ? counters->own_table_bytes : 0;
  return std::max<int64_t>(0, resident - static_cast<int64_t>(std::min<uint64_t>(table, INT64_MAX)));
}

// See ProcessSeries::SnapshotAt. `order`: by time, not empty.
template <typename HoursOf>
uint32_t FirstFrom(const std::vector<uint32_t>& order, double hours, bool by_births, const HoursOf& hours_of) {
  if (by_births && hours < hours_of(order[0])) return ProcessSeries::kStart;
  const auto at = std::ranges::find_if(order, [&](uint32_t snapshot) { return hours_of(snapshot) >= hours; });
  return at == order.end() ? order.back() : *at;
}

// Whether a suppression in valgrind's format matches.
bool MatchesAsStack(const Suppressions& suppressions, const FilteredStacks& stacks, std::span<const uint32_t> frames) {
  const Profile& profile = stacks.profile();
  std::vector<SuppressibleCall> calls;
  for (const uint32_t frame : frames) {
    const FrameNode& node = stacks.nodes()[frame];
    const bool is_known = node.profile_function < profile.functions.size();
    calls.push_back({.function = node.name,
                     .mangled = is_known ? profile.strings[profile.functions[node.profile_function].system_name] : "",
                     .object = node.objects.empty() ? "" : profile.strings[node.objects[0]]});
  }
  return suppressions.MatchesStack(calls, true);
}

}  // namespace

absl::Status ProcessSeries::Add(const ProfileFile& file) {
  const Profile& profile = *file.profile;
  // Threads have only a count: use it for both columns.
  const bool threads = FindMetric(profile, "alive").ok();
  const auto space = FindMetric(profile, threads ? "alive" : "inuse_space"),
             objects = threads ? space : FindMetric(profile, "inuse_objects");
  if (!space.ok() || !objects.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: has no inuse_space and inuse_objects. Give heap or threads profiles.", file.path));
  }
  // Allocated bytes give the turnover; profiles of other tools may lack them.
  std::vector<size_t> columns = {*space, *objects};
  const auto all_space = FindMetric(profile, threads ? "created" : "alloc_space"),
             all_objects = threads ? all_space : FindMetric(profile, "alloc_objects");
  const bool turnover = all_space.ok() && all_objects.ok();
  if (turnover) columns.insert(columns.end(), {*all_space, *all_objects});
  turnover_known_ = turnover_known_ && turnover;
  const std::vector<double> variances = VariancesOf(profile);
  StackOptions options = options_;
  options.fold_plumbing = false;
  const auto stacks = FilteredStacks::Build(file.profile, columns, options, variances);
  if (!stacks.ok()) return stacks.status();
  const auto plumbing = PlumbingOf(file, options_.plumbing);
  if (!plumbing.ok()) return plumbing.status();
  const auto snapshot = static_cast<uint32_t>(snapshots_.size());
  snapshots_.push_back({file.steady_nanos, file.path, file.moment, profile.process().unchanged_snapshots, false,
                        ResidentWithoutTable(profile), SamplesLostIn(profile)});
  has_older_blocks_ = has_older_blocks_ || LacksBlocks(profile);
  if (file.steady_nanos >= times_off_at_) {
    times_off_at_ = file.steady_nanos;
    times_off_ = TimesOffIn(profile);
  }
  if (file.start_nanos != 0 && (started_ns_ == 0 || file.start_nanos < started_ns_)) started_ns_ = file.start_nanos;
  if (!threads) {
    for (const Interval& interval : IntervalsOf(profile)) {
      if (interval.unit == "bytes") interval_ = std::max(interval_, interval.mean);
    }
  }
  std::vector<StringId> names;  // of each node: nodes differ between files
  std::vector<bool> suppressed;
  // Whether a stack with this leaf is left out: an allocator's mapping is charged to the stack that used up the one
  // before. The heap profile has what is in it by allocating stack. glibc's mappings are always left out.
  std::vector<uint8_t> left_out;
  const auto& profiled = profile.process().profiled;
  const bool has_heap = file.kind == "map" && std::ranges::find(profiled, "heap") != profiled.end();
  for (const FrameNode& node : stacks->nodes()) {
    names.push_back(names_.Intern(node.name));
    if (options_.fold_plumbing) {
      Forwards& forwards = plumbing_.try_emplace(names.back(), Forwards{file.steady_nanos, true, false}).first->second;
      if (file.steady_nanos > forwards.time) forwards = {file.steady_nanos, true, false};
      if (file.steady_nanos == forwards.time) {
        forwards.always = forwards.always && (*plumbing)->Holds(node.profile_function, node.mapping);
        forwards.calls_users = forwards.calls_users || (*plumbing)->CallsUsers(node.profile_function);
      }
    }
    bool known = suppressions_->Matches(node.name) || suppressions_->Matches(profile.strings[node.file]);
    for (const StringId object : node.objects) known = known || suppressions_->Matches(profile.strings[object]);
    suppressed.push_back(!suppressions_->empty() && known);
    left_out.push_back(IsLibcHeap(node.name) || (has_heap && IsOfAllocator(profile, node)));
  }
  const bool any_suppressed = std::ranges::find(suppressed, true) != suppressed.end();
  totals_.emplace_back(snapshot, Point());
  absl::flat_hash_map<uint32_t, uint64_t> key_of_sample;
  for (size_t i = 0; i < stacks->size(); ++i) {
    const auto frames = stacks->FramesOf(i);
    if (!frames.empty() && left_out[frames[0]] != 0) continue;
    const auto telling = frames.first(depth_ == 0 ? frames.size() : std::min(depth_, frames.size()));
    uint64_t key = 0;
    for (const uint32_t node : telling) key = absl::HashOf(key, names[node]);
    const auto [place, added] = stacks_.try_emplace(key);
    Stack& stack = place->second;
    if (added) {
      stack.first_frame = frames_.size();
      stack.frames = static_cast<uint32_t>(telling.size());
      for (const uint32_t node : telling) frames_.push_back(names[node]);
    }
    if (profile.records().course.has_value()) key_of_sample.emplace(static_cast<uint32_t>(stacks->SampleOf(i)), key);
    stack.suppressed = stack.suppressed ||
                       (any_suppressed && std::ranges::any_of(frames, [&](uint32_t node) { return suppressed[node]; }));
    if (suppressions_->has_stacks() && !stack.suppressed)
      stack.suppressed = MatchesAsStack(*suppressions_, *stacks, frames);
    if (stack.points.empty() || stack.points.back().first != snapshot) stack.points.emplace_back(snapshot, Point());
    for (Point* point : {&stack.points.back().second, &totals_.back().second}) {
      point->bytes = WrappedSum(point->bytes, stacks->ValuesOf(i)[0]);
      point->objects = WrappedSum(point->objects, stacks->ValuesOf(i)[1]);
      if (turnover) {
        point->bytes_allocated = WrappedSum(point->bytes_allocated, stacks->ValuesOf(i)[2]);
        point->objects_allocated = WrappedSum(point->objects_allocated, stacks->ValuesOf(i)[3]);
      }
      if (turnover) {
        point->bytes_allocated_variance += stacks->VarianceOf(i, 2);
        point->objects_allocated_variance += stacks->VarianceOf(i, 3);
      }
      point->bytes_variance += stacks->VarianceOf(i, 0);
      point->objects_variance += stacks->VarianceOf(i, 1);
    }
  }
  if (profile.records().course.has_value()) AddCourse(file, *profile.records().course, key_of_sample);
  return absl::OkStatus();
}

// Adds the course points that no earlier file of the process had.
void ProcessSeries::AddCourse(const ProfileFile& file, const record::Course& course,
                              const absl::flat_hash_map<uint32_t, uint64_t>& key_of_sample) {
  using Sums = std::array<int64_t, 4>;
  const size_t points = std::min(course.elapsed_ns.size(), kMaxCoursePoints);
  if (points * course.sample.size() > kMaxPoints) return;
  std::vector<Sums> sums(course.sample.size());
  for (size_t i = 0; i < points; ++i) {
    const int64_t time = WrappedSum(file.start_nanos, static_cast<int64_t>(course.elapsed_ns[i]));
    const bool is_new = time < file.steady_nanos && course_times_.insert(time).second;
    const auto snapshot = static_cast<uint32_t>(snapshots_.size());
    if (is_new) {
      snapshots_.push_back({time, file.path, ProfileMoment::kNone, 0, true});
      totals_.emplace_back(snapshot, Point());
    }
    for (size_t j = 0; j < course.sample.size(); ++j) {
      const record::SampleCourse& sample = course.sample[j];
      const std::vector<uint64_t>* increments[] = {&sample.allocated_bytes, &sample.allocated_objects,
                                                   &sample.freed_bytes, &sample.freed_objects};
      for (size_t k = 0; k < 4; ++k) {
        if (i < increments[k]->size()) sums[j][k] = WrappedSum(sums[j][k], static_cast<int64_t>((*increments[k])[i]));
      }
      const auto key = key_of_sample.find(sample.number - 1);
      if (!is_new || key == key_of_sample.end() || sums[j] == Sums{}) continue;
      Points& of_stack = stacks_.at(key->second).points;
      if (of_stack.empty() || of_stack.back().first != snapshot) of_stack.emplace_back(snapshot, Point());
      const auto [bytes, objects, freed_bytes, freed_objects] = sums[j];
      const Point then = {.bytes = std::max<int64_t>(0, WrappedDifference(bytes, freed_bytes)),
                          .objects = std::max<int64_t>(0, WrappedDifference(objects, freed_objects)),
                          .bytes_allocated = bytes,
                          .objects_allocated = objects};
      AddTo(then, &of_stack.back().second);
      AddTo(then, &totals_.back().second);
    }
  }
}

absl::Status ProcessSeries::AddAges(const ProfileFile& file) {
  const auto alive = FindMetric(*file.profile, "alive_space");
  if (!alive.ok()) return alive.status();
  if (!ages_.empty() && file.steady_nanos < ages_time_) return absl::OkStatus();
  // Ages recorded after the exit handlers describe only what the handlers left.
  const std::vector<uint32_t> order = ByTime();
  if (std::ranges::none_of(order, [&](uint32_t i) { return snapshots_[i].time == file.steady_nanos; }))
    return absl::OkStatus();
  StackOptions options = options_;
  options.fold_plumbing = false;
  const std::vector<double> variances = VariancesOf(*file.profile, true);
  const auto freed = FindMetric(*file.profile, "freed_space");
  const auto stacks = FilteredStacks::Build(file.profile, {*alive, freed.ok() ? *freed : *alive}, options, variances);
  if (!stacks.ok()) return stacks.status();
  ages_.clear();
  freed_ages_.clear();
  ages_time_ = file.steady_nanos;
  std::vector<StringId> names;
  for (const FrameNode& node : stacks->nodes()) names.push_back(names_.Intern(node.name));
  for (size_t i = 0; i < stacks->size(); ++i) {
    const int64_t bytes = stacks->ValuesOf(i)[0], freed_bytes = freed.ok() ? stacks->ValuesOf(i)[1] : 0;
    if (bytes <= 0 && freed_bytes <= 0) continue;
    const auto frames = stacks->FramesOf(i);
    uint64_t key = 0;
    for (const uint32_t node : frames.first(depth_ == 0 ? frames.size() : std::min(depth_, frames.size())))
      key = absl::HashOf(key, names[node]);
    const auto labels = file.profile->LabelsOf(file.profile->samples[stacks->SampleOf(i)]);
    const auto age = std::ranges::find_if(
        labels, [&](const Profile::Label& label) { return file.profile->strings[label.key] == "age"; });
    if (age == labels.end()) {
      ages_[key].unknown_bytes += static_cast<double>(std::max<int64_t>(bytes, 0));
      continue;
    }
    if (bytes > 0) ages_[key].Add(AgeBucket(age->number), static_cast<double>(bytes), stacks->VarianceOf(i, 0));
    if (freed_bytes > 0) freed_ages_[key].Add(AgeBucket(age->number), static_cast<double>(freed_bytes), 0);
  }
  return absl::OkStatus();
}

AliveAges ProcessSeries::AgesOf(const Entry& entry) const {
  const std::vector<uint32_t> order = ByTime();
  if (order.empty() || snapshots_[order.back()].time != ages_time_) return {};
  const auto& ages = options_.fold_plumbing ? folded_ages_ : ages_;
  const auto found = ages.find(entry.key);
  return found == ages.end() ? AliveAges() : found->second;
}

int64_t ProcessSeries::AllocatedOf(const Entry& entry) const {
  const auto stack = Shown().find(entry.key);
  int64_t most = 0;
  if (stack == Shown().end()) return most;
  for (const auto& [snapshot, point] : stack->second.points) most = std::max(most, point.bytes_allocated);
  return most;
}

ProcessSeries::Point ProcessSeries::PointOf(const Points& points, uint32_t snapshot) {
  const auto found = std::ranges::lower_bound(points, snapshot, {}, [](const auto& point) { return point.first; });
  return found == points.end() || found->first != snapshot ? Point() : found->second;
}

std::vector<std::string> ProcessSeries::FramesOf(const Entry& entry) const {
  std::vector<std::string> frames;
  for (const StringId name : NumbersOf(entry)) frames.emplace_back(names_[name]);
  return frames;
}

std::span<const StringId> ProcessSeries::NumbersOf(const Entry& entry) const {
  const auto stack = Shown().find(entry.key);
  return stack == Shown().end() ? std::span<const StringId>() : ShownNamesOf(stack->second);
}

std::vector<uint32_t> ProcessSeries::ByTime() const {
  std::vector<uint32_t> order(snapshots_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return snapshots_[a] < snapshots_[b]; });
  // With enough files, the course between them adds nothing. With sampling the error of a course is unknown, so only
  // files count.
  std::vector<uint32_t> files;
  std::ranges::copy_if(order, std::back_inserter(files), [&](uint32_t i) { return !snapshots_[i].is_course_point; });
  while (IsFreedAtEnd(files)) files.pop_back();
  if (course_times_.empty() || EvidenceIn(files) >= kMinSnapshots || !exact()) return files;
  // Do this before files are removed from `order`: the last one shows that the process ended, and the fall ends there.
  LeaveOutFallAtEnd(&order);
  while (IsFreedAtEnd(order)) order.pop_back();
  return order;
}

// The process may be seen while it frees its memory at its end: leaves out the files and course points of that fall.
void ProcessSeries::LeaveOutFallAtEnd(std::vector<uint32_t>* order) const {
  constexpr double kLongestFall = 0.15;  // of the time
  const auto bytes_at = [&](size_t i) { return PointOf(totals_, (*order)[i]).bytes; };
  const auto time_at = [&](size_t i) { return static_cast<double>(snapshots_[(*order)[i]].time); };
  if (order->size() < 3 || snapshots_[order->back()].moment == ProfileMoment::kNone) return;
  const auto may_be_of_fall = [&](size_t i) {
    const Taken& taken = snapshots_[(*order)[i]];
    return taken.is_course_point || taken.moment != ProfileMoment::kNone;
  };
  const size_t last = order->size() - 1;
  size_t top = last;
  while (top > 0 && may_be_of_fall(top - 1) &&
         (bytes_at(top - 1) > bytes_at(top) || bytes_at(top - 1) == bytes_at(last)))
    --top;
  if (bytes_at(last) < bytes_at(top) / 2 && time_at(last) - time_at(top) <= kLongestFall * (time_at(last) - time_at(0)))
    order->resize(top + 1);
}

size_t ProcessSeries::evidence() const {
  std::vector<uint32_t> files = ByTime();
  std::erase_if(files, [&](uint32_t i) { return snapshots_[i].is_course_point; });
  return EvidenceIn(files);
}

size_t ProcessSeries::course_points() const {
  return static_cast<size_t>(
      std::ranges::count_if(ByTime(), [&](uint32_t i) { return snapshots_[i].is_course_point; }));
}

bool ProcessSeries::is_freed_at_end() const {
  const std::vector<uint32_t> order = ByTime();
  return !order.empty() && snapshots_[order.back()].is_course_point;
}

// Each course point comes from a later file, so there is one.
uint32_t ProcessSeries::FileAfter(uint32_t course_point) const {
  uint32_t first = kStart;
  for (uint32_t i = 0; i < snapshots_.size(); ++i) {
    if (snapshots_[i].is_course_point || snapshots_[i].time < snapshots_[course_point].time) continue;
    if (first == kStart || snapshots_[i] < snapshots_[first]) first = i;
  }
  return first;
}

ProcessSeries::Timeline ProcessSeries::MakeTimeline() const {
  Timeline timeline = {.order = ByTime()};
  timeline.by_births = IsByBirths(timeline.order);
  if (!timeline.order.empty())
    timeline.origin_ns = timeline.by_births ? started_ns_ : snapshots_[timeline.order[0]].time;
  timeline.lasting = LastingOf(timeline.order);
  return timeline;
}

// Snapshots that equal the one before are not written. The next file says how many there were.
std::vector<double> ProcessSeries::UnchangedUntil(const Timeline& timeline) const {
  const std::vector<uint32_t>& order = timeline.order;
  std::vector<double> until(order.size());
  for (size_t i = 1; i < order.size(); ++i) {
    const auto unwritten = static_cast<double>(snapshots_[order[i]].unchanged);
    if (unwritten <= 0 || IsOffBetween(snapshots_[order[i - 1]].time, snapshots_[order[i]].time)) continue;
    const double before = HoursOf(order[i - 1], timeline), now = HoursOf(order[i], timeline);
    until[i] = before + (now - before) * unwritten / (unwritten + 1);
  }
  return until;
}

// The files of what was freed at the end are left out, but the first of them says for how long nothing had changed.
ProcessSeries::Lasting ProcessSeries::LastingOf(const std::vector<uint32_t>& order) const {
  if (order.empty() || snapshots_[order.back()].is_course_point) return {};
  const Taken& newest = snapshots_[order.back()];
  const Taken* next = nullptr;
  for (const Taken& taken : snapshots_) {
    if (!taken.is_course_point && newest < taken && (next == nullptr || taken < *next)) next = &taken;
  }
  Lasting lasting = lasts_;
  if (lasting.unwritten == 0) {
    const int64_t distance =
        (newest.time - snapshots_[order[0]].time) / static_cast<int64_t>(std::max<size_t>(1, order.size() - 1));
    lasting.unwritten =
        distance > 0 ? static_cast<uint64_t>(std::max<int64_t>(1, (lasting.until - newest.time) / distance)) : 1;
  }
  if (next != nullptr && next->unchanged > 0) {
    lasting.unwritten = next->unchanged;
    const auto unwritten = static_cast<double>(next->unchanged), whole = static_cast<double>(next->time - newest.time);
    lasting.until = std::max(lasting.until, newest.time + static_cast<int64_t>(whole * unwritten / (unwritten + 1)));
  }
  return lasting.until > newest.time && !IsOffBetween(newest.time, lasting.until) ? lasting : Lasting();
}

size_t ProcessSeries::EvidenceIn(const std::vector<uint32_t>& order) const {
  size_t unchanged = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    if (snapshots_[order[i]].unchanged > 0 && snapshots_[order[i]].time > snapshots_[order[0]].time &&
        !IsOffBetween(snapshots_[order[i - 1]].time, snapshots_[order[i]].time))
      ++unchanged;
  }
  return order.size() + unchanged + (LastingOf(order).until > 0 ? 1 : 0);
}

bool ProcessSeries::IsOffBetween(int64_t from, int64_t to) const {
  return std::ranges::any_of(times_off_, [&](const TimeOff& off) { return off.from_ns < to && off.to_ns > from; });
}

std::string ProcessSeries::WhyUnrecorded() const {
  int64_t first = INT64_MAX;
  uint64_t least = UINT64_MAX, most = 0;
  for (const Taken& taken : snapshots_) {
    if (taken.is_course_point) continue;
    first = std::min(first, taken.time);
    least = std::min(least, taken.lost);
    most = std::max(most, taken.lost);
  }
  for (const TimeOff& off : times_off_) {
    if (off.to_ns == INT64_MAX)
      return fmt::format("heap sampling has been off since {} (holdfast set PID heap=on)", FormatWallTime(off.from_ns));
    if (off.to_ns > first) {
      return fmt::format("heap sampling was off from {} to {}", FormatWallTime(off.from_ns), FormatWallTime(off.to_ns));
    }
  }
  // A single snapshot does not show when the table was full.
  const uint64_t lost = snapshots_.size() < 2 ? most : most - std::min(least, most);
  if (lost == 0) return "";
  return fmt::format("{} samples were lost, because the table was full (raise --max-memory)", lost);
}

int64_t ProcessSeries::NewestEvidence() const {
  const std::vector<uint32_t> order = ByTime();
  return order.empty() ? 0 : snapshots_[order.back()].time;
}

void ProcessSeries::AddTo(const Point& from, Point* to) {
  to->bytes = WrappedSum(to->bytes, from.bytes);
  to->objects = WrappedSum(to->objects, from.objects);
  to->bytes_allocated = WrappedSum(to->bytes_allocated, from.bytes_allocated);
  to->objects_allocated = WrappedSum(to->objects_allocated, from.objects_allocated);
  to->bytes_variance += from.bytes_variance;
  to->objects_variance += from.objects_variance;
  to->bytes_allocated_variance += from.bytes_allocated_variance;
  to->objects_allocated_variance += from.objects_allocated_variance;
}

void ProcessSeries::AddFamily(const std::vector<const ProcessSeries*>& members, bool together) {
  constexpr size_t kMaxTimes = 60;
  struct Part {
    const ProcessSeries* of;
    std::vector<uint32_t> order;
  };
  std::vector<Part> parts;
  std::vector<int64_t> times;
  for (const ProcessSeries* member : members) {
    parts.push_back({member, member->ByTime()});
    interval_ = std::max(interval_, member->interval_);
    turnover_known_ = turnover_known_ && together && member->turnover_known_;
    has_older_blocks_ = has_older_blocks_ || member->has_older_blocks_;
    times_off_.insert(times_off_.end(), member->times_off_.begin(), member->times_off_.end());
    // Each member has seen only some of the callers.
    for (const auto& [name, forwards] : member->plumbing_) {
      Forwards& all =
          plumbing_.try_emplace(names_.Intern(member->names_[name]), Forwards{0, false, false}).first->second;
      all.calls_users = all.calls_users || (forwards.calls_users && !forwards.always);
      all.always = (all.always || forwards.always) && !all.calls_users;
    }
    for (const uint32_t snapshot : parts.back().order) times.push_back(member->snapshots_[snapshot].time);
  }
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  // For each snapshot of the family, the members' snapshots that count. Bytes in use count until the member's last
  // snapshot, allocated bytes forever.
  struct Counted {
    const ProcessSeries* of;
    uint32_t snapshot;
    bool ended;
  };
  std::vector<std::pair<int64_t, std::vector<Counted>>> counted_at;
  if (together) {
    const size_t kept = std::min(times.size(), kMaxTimes);
    for (size_t i = 0; i < kept; ++i) {
      const int64_t time = times[kept < 2 ? 0 : i * (times.size() - 1) / (kept - 1)];
      counted_at.emplace_back(time, std::vector<Counted>());
      for (const Part& part : parts) {
        const auto after = std::ranges::upper_bound(
            part.order, time, {}, [&](uint32_t snapshot) { return part.of->snapshots_[snapshot].time; });
        if (after == part.order.begin()) continue;
        // The last snapshot of each member counts for one more interval.
        const auto time_of = [&](size_t from_end) {
          return part.of->snapshots_[part.order[part.order.size() - from_end]].time;
        };
        const int64_t grace = part.order.size() < 2 ? 0 : time_of(1) - time_of(2);
        const bool ended = after == part.order.end() && time_of(1) + grace < time;
        counted_at.back().second.push_back({part.of, *std::prev(after), ended});
      }
    }
  } else {
    for (const Part& part : parts) {
      if (part.order.empty()) continue;
      const uint32_t most = *std::ranges::max_element(
          part.order, {}, [&](uint32_t snapshot) { return PointOf(part.of->totals_, snapshot).bytes; });
      counted_at.push_back({part.of->snapshots_[most].time, {{part.of, most, false}}});
    }
    std::ranges::sort(counted_at, {}, [](const auto& at) { return at.first; });
  }
  for (const auto& [time, counted] : counted_at) {
    const auto number = static_cast<uint32_t>(snapshots_.size());
    snapshots_.push_back(
        {.time = time, .path = "", .moment = ProfileMoment::kNone, .unchanged = 0, .is_course_point = false});
    totals_.emplace_back(number, Point());
    bool is_resident_known = true;
    for (const Counted& each : counted) {
      const Taken& taken = each.of->snapshots_[each.snapshot];
      snapshots_.back().lost += taken.lost;
      if (each.ended) continue;
      is_resident_known = is_resident_known && taken.resident > 0;
      snapshots_.back().resident = WrappedSum(snapshots_.back().resident, taken.resident);
    }
    if (!is_resident_known) snapshots_.back().resident = 0;
    for (const Counted& each : counted) {
      const auto point_of = [&](const Points& points) {
        Point point = PointOf(points, each.snapshot);
        if (each.ended) point.bytes = point.objects = 0, point.bytes_variance = point.objects_variance = 0;
        return point;
      };
      AddTo(point_of(each.of->totals_), &totals_.back().second);
      for (const auto& [of_key, of] : each.of->stacks_) {
        uint64_t key = 0;
        std::vector<StringId> names;
        for (const StringId name : each.of->NamesOf(of)) {
          names.push_back(names_.Intern(each.of->names_[name]));
          key = absl::HashOf(key, names.back());
        }
        const auto [place, added] = stacks_.try_emplace(key);
        Stack& stack = place->second;
        if (added) {
          stack.first_frame = frames_.size();
          stack.frames = static_cast<uint32_t>(names.size());
          frames_.insert(frames_.end(), names.begin(), names.end());
        }
        stack.suppressed = stack.suppressed || of.suppressed;
        if (stack.points.empty() || stack.points.back().first != number) stack.points.emplace_back(number, Point());
        AddTo(point_of(of.points), &stack.points.back().second);
      }
    }
  }
}

// Returns whether the newest snapshot lacks what was freed at the end of the process. The state after exit handlers is
// no evidence.
bool ProcessSeries::IsFreedAtEnd(const std::vector<uint32_t>& order) const {
  if (order.size() < 2 || snapshots_[order.back()].is_course_point) return false;
  const auto file_of = [&](uint32_t snapshot) {
    ProfileFile file;
    file.moment = snapshots_[snapshot].moment;
    file.in_use = PointOf(totals_, snapshot).bytes;
    return file;
  };
  const ProfileFile last = file_of(order.back());
  return last.moment == ProfileMoment::kAfterHandlers || FreedAtExit(file_of(order[order.size() - 2]), last);
}

double ProcessSeries::Hours() const {
  const Timeline timeline = MakeTimeline();
  if (timeline.order.empty()) return 0;
  return HoursAt(std::max(timeline.lasting.until, snapshots_[timeline.order.back()].time), timeline);
}

double ProcessSeries::HoursOf(uint32_t snapshot, const Timeline& timeline) const {
  return HoursAt(snapshots_[snapshot].time, timeline);
}

double ProcessSeries::HoursAt(int64_t time, const Timeline& timeline) {
  return static_cast<double>(time - timeline.origin_ns) / kNanosAnHour;
}

bool ProcessSeries::IsByBirths(const std::vector<uint32_t>& order) const {
  if (has_older_blocks_ || started_ns_ == 0 || ages_.empty() || EvidenceIn(order) >= kMinSnapshots) return false;
  return !order.empty() && snapshots_[order.back()].time == ages_time_ && started_ns_ < ages_time_;
}

// Nothing was in use when the process began. Each edge of an age bucket gives the bytes born before it.
Growth ProcessSeries::FitBirths(const Points& points, const Timeline& timeline, const AliveAges& alive,
                                const AliveAges& freed, size_t looked_at) const {
  const std::vector<uint32_t>& order = timeline.order;
  constexpr double kFinest = 64;    // parts of the time
  constexpr double kUnseen = 0.12;  // of the time: age buckets are too wide to show the pauses of bursts
  // Turnover: blocks that were freed when older than half the median age of live blocks amount to at least this part of
  // the bytes in use.
  constexpr double kFreedOld = 0.25;
  const Point now = PointOf(points, order.back());
  const double end = HoursOf(order.back(), timeline), in_use = static_cast<double>(now.bytes);
  double known = 0, variance = 0;
  for (int i = 0; i < kAgeBuckets; ++i) known += alive.bytes[i], variance += alive.variances[i];
  Series series;
  series.looked_at = looked_at;
  const double whole = known > 0 ? in_use / known : 1;  // known ages represent all blocks
  const auto add = [&](double hours, double bytes, double of) {
    series.times.push_back(hours);
    series.values.push_back(bytes);
    series.variances.push_back(of);
    series.objects.push_back(in_use > 0 ? static_cast<double>(now.objects) * bytes / in_use : 0);
  };
  add(0, 0, 0);
  double older = known, error = variance;
  std::vector<std::array<double, 3>> edges;  // age, bytes older than that, their variance
  for (int i = 0; i < kAgeBuckets; ++i) {
    older = std::max(0.0, older - alive.bytes[i]);
    error = std::max(0.0, error - alive.variances[i]);
    const double age = static_cast<double>(kAgeBucketEdges.ns[i]) / kNanosAnHour;
    if (age < end && age * kFinest >= end) edges.push_back({age, older * whole, error * whole * whole});
  }
  for (auto edge = edges.rbegin(); edge != edges.rend(); ++edge) add(end - (*edge)[0], (*edge)[1], (*edge)[2]);
  if (known < kKnownAges * in_use) {  // too few known ages: the course is unknown
    const double most = end > 0 ? in_use / end : 0;
    return {.slope = 0, .half_width = most, .bound = most};
  }
  add(end, in_use, std::max(variance * whole * whole, now.bytes_variance));
  series.unseen_pause = kUnseen * end;
  series.allocated = series.values;
  series.allocated_variances = series.variances;
  series.sample = in_use > 0 ? series.variances.back() / in_use : 0;
  Growth growth = FitGrowth(series);
  const int64_t half = alive.half_ns();
  const bool is_turned_over =
      in_use > 0 && freed.OlderThan(static_cast<double>(std::max<int64_t>(half, 0)) / 2).bytes > kFreedOld * in_use;
  if (is_turned_over && (IsLeak(growth.growth_class) || growth.growth_class == GrowthClass::kUndecided)) {
    growth.growth_class = GrowthClass::kSawTooth;
    growth.slope = 0;
    growth.half_width = growth.bound;
  }
  // The bytes in use include all that leaked. If every allocation is recorded, they are exact.
  if (exact() && end > 0 && growth.bound > in_use / end) {
    growth.bound = std::max(in_use / end, growth.slope);
    growth.half_width = growth.bound - growth.slope;
  }
  // Before the first snapshot there are only estimates, so a rise that begins there is reported from the start of the
  // process, when nothing was in use.
  if (growth.since < HoursOf(order[0], timeline)) growth.since = 0;
  return growth;
}

Growth ProcessSeries::Fit(const Points& points, const Timeline& timeline, bool objects, const AliveAges* ages,
                          const AliveAges* freed, size_t looked_at) const {
  if (ages != nullptr && freed != nullptr && !objects && timeline.by_births)
    return FitBirths(points, timeline, *ages, *freed, looked_at);
  const std::vector<uint32_t>& order = timeline.order;
  if (order.empty()) return {.bound = std::numeric_limits<double>::infinity()};
  Series series;
  series.looked_at = looked_at;
  Point point, all;
  const std::vector<double> unchanged = UnchangedUntil(timeline);
  const auto add = [&](double hours) {
    series.times.push_back(hours);
    series.values.push_back(static_cast<double>(objects ? point.objects : point.bytes));
    series.variances.push_back(objects ? point.objects_variance : point.bytes_variance);
    series.objects.push_back(static_cast<double>(point.objects));
    if (!turnover_known_) return;
    series.allocated.push_back(static_cast<double>(objects ? point.objects_allocated : point.bytes_allocated));
    series.allocated_variances.push_back(objects ? point.objects_allocated_variance : point.bytes_allocated_variance);
    series.traffic.push_back(static_cast<double>(objects ? all.objects_allocated : all.bytes_allocated));
  };
  const auto add_unchanged = [&](double from, double until, uint64_t unwritten) {
    const uint64_t points = std::clamp<uint64_t>(unwritten, 1, kMaxUnchangedPoints);
    for (uint64_t k = 1; k <= points; ++k)
      add(from + (until - from) * static_cast<double>(k) / static_cast<double>(points));
  };
  for (size_t i = 0; i < order.size(); ++i) {
    // A file that was written though nothing had changed shows a level; one that differs, a step.
    const bool is_level = i > 0 && TotalAt(order[i]) == TotalAt(order[i - 1]);
    if (unchanged[i] > 0)
      add_unchanged(series.times.back(), unchanged[i], is_level ? snapshots_[order[i]].unchanged : 1);
    // A stack that is missing in a snapshot has nothing in use. Its cumulative allocations do not decrease.
    const auto take = [&](const Points& from, Point* to) {
      const Point before = std::exchange(*to, PointOf(from, order[i]));
      to->bytes_allocated = std::max(to->bytes_allocated, before.bytes_allocated);
      to->objects_allocated = std::max(to->objects_allocated, before.objects_allocated);
      to->bytes_allocated_variance = std::max(to->bytes_allocated_variance, before.bytes_allocated_variance);
      to->objects_allocated_variance = std::max(to->objects_allocated_variance, before.objects_allocated_variance);
    };
    take(points, &point);
    take(totals_, &all);
    add(HoursOf(order[i], timeline));
  }
  if (const auto& [until, unwritten] = timeline.lasting; until > 0)
    add_unchanged(series.times.back(), HoursAt(until, timeline), unwritten);
  if (!exact()) {
    const double size = point.objects > 0 ? static_cast<double>(point.bytes) / static_cast<double>(point.objects) : 0;
    series.sample = static_cast<double>(interval_) / (objects ? std::max(1.0, size) : 1);
  }
  if (ages != nullptr && !objects)
    AddSurvivors(*ages, static_cast<double>(ages_time_ - timeline.origin_ns) / kNanosAnHour, &series);
  Growth growth = FitGrowth(series);
  // If every allocation is recorded and all of it is freed, nothing leaked.
  if (exact() && series.values.back() <= 0) growth.slope = growth.half_width = growth.bound = 0;
  return growth;
}

uint64_t ProcessSeries::FoldedKeyOf(const Stack& stack, std::vector<StringId>* names) const {
  names->clear();
  for (const StringId name : NamesOf(stack)) {
    if (!plumbing_.at(name).always) names->push_back(name);
  }
  if (names->empty() && stack.frames > 0) names->push_back(NamesOf(stack).back());
  uint64_t key = 0;
  for (const StringId name : *names) key = absl::HashOf(key, name);
  return key;
}

// Removes plumbing from stacks and merges those that become equal. A stack with only plumbing keeps its outermost
// frame.
void ProcessSeries::Fold() const {
  folded_.clear();
  folded_frames_.clear();
  std::vector<StringId> names;
  folded_ages_.clear();
  folded_freed_ages_.clear();
  for (const auto& [plain, stack] : stacks_) {
    const uint64_t key = FoldedKeyOf(stack, &names);
    const auto [place, added] = folded_.try_emplace(key);
    Stack& folded = place->second;
    if (added) {
      folded.first_frame = folded_frames_.size();
      folded.frames = static_cast<uint32_t>(names.size());
      folded_frames_.insert(folded_frames_.end(), names.begin(), names.end());
    }
    folded.suppressed = folded.suppressed || stack.suppressed;
    if (const auto ages = ages_.find(plain); ages != ages_.end()) folded_ages_[key].Add(ages->second);
    if (const auto ages = freed_ages_.find(plain); ages != freed_ages_.end()) folded_freed_ages_[key].Add(ages->second);
    Points sum;
    auto a = folded.points.begin();
    for (const auto& [snapshot, point] : stack.points) {
      for (; a != folded.points.end() && a->first < snapshot; ++a) sum.push_back(*a);
      sum.emplace_back(snapshot, point);
      if (a == folded.points.end() || a->first != snapshot) continue;
      AddTo(a->second, &sum.back().second);
      ++a;
    }
    sum.insert(sum.end(), a, folded.points.end());
    folded.points = std::move(sum);
  }
}

std::vector<ProcessSeries::Entry> ProcessSeries::Entries() const {
  std::vector<Entry> entries;
  const Timeline timeline = MakeTimeline();
  if (timeline.order.empty()) return entries;
  if (options_.fold_plumbing) Fold();
  const bool ages_known = !ages_.empty();
  const auto& ages = options_.fold_plumbing ? folded_ages_ : ages_;
  const auto& freed = options_.fold_plumbing ? folded_freed_ages_ : freed_ages_;
  const size_t looked_at = Shown().size();
  for (const auto& [key, stack] : Shown()) {
    const Point now = PointOf(stack.points, timeline.order.back());
    static const AliveAges kNone;
    const auto of = [&, wanted = key](const absl::flat_hash_map<uint64_t, AliveAges>& all) {
      const auto found = all.find(wanted);
      return found == all.end() ? &kNone : &found->second;
    };
    const AliveAges* alive = ages_known ? of(ages) : nullptr;
    const Growth bytes = Fit(stack.points, timeline, false, alive, of(freed), looked_at);
    Growth objects = Fit(stack.points, timeline, true, alive, of(freed), looked_at);
    if (timeline.by_births) {
      // Convert bytes of known age to objects with the stack's ratio.
      const double each = now.bytes > 0 ? static_cast<double>(now.objects) / static_cast<double>(now.bytes) : 0;
      objects = bytes;
      objects.slope *= each, objects.half_width *= each, objects.bound *= each;
    }
    entries.push_back({key, stack.suppressed, bytes, objects, now.bytes, now.objects});
  }
  if (const OfOneRun run = MakeOfOneRun(timeline); run.is_judged) {
    for (Entry& entry : entries) {
      if (!IsLeak(entry.bytes.growth_class)) continue;
      const bool is_freed = run.end != kStart && BytesAt(entry, run.end) < entry.bytes_now / 2;
      entry.doubt = is_freed ? Doubt::kFreed : DoubtOf(run, entry, timeline);
      if (entry.doubt != Doubt::kNone) entry.bytes.growth_class = entry.objects.growth_class = GrowthClass::kUndecided;
    }
  }
  for (Entry& entry : entries) {
    if (!IsLeak(entry.bytes.growth_class)) continue;
    if (!MayReplaceOlder(Shown().at(entry.key).points, entry.bytes.since, timeline)) continue;
    entry.doubt = Doubt::kOlder;
    entry.bytes.growth_class = entry.objects.growth_class = GrowthClass::kUndecided;
  }
  const auto name = [&](StringId id) { return names_[id]; };
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    const auto a_key = ListKey(a.bytes, a.bytes_now), b_key = ListKey(b.bytes, b.bytes_now);
    if (a_key != b_key) return a_key > b_key;
    return std::ranges::lexicographical_compare(ShownNamesOf(Shown().at(a.key)), ShownNamesOf(Shown().at(b.key)), {},
                                                name, name);
  });
  return entries;
}

ProcessSeries::OfOneRun ProcessSeries::MakeOfOneRun(const Timeline& timeline) const {
  OfOneRun run;
  const auto is_course_point = [&](uint32_t i) { return snapshots_[i].is_course_point; };
  run.is_judged = std::ranges::any_of(timeline.order, is_course_point);
  if (!run.is_judged) return run;
  if (is_course_point(timeline.order.back())) run.end = FileAfter(timeline.order.back());
  run.in_use = PointOf(totals_, timeline.order.back()).bytes;
  return run;
}

// In one run, growth is often work in progress: a compiler holds more and more until it ends. A small growth, or one
// that the total does not show, is no evidence then. Of a steady rise RiseOfTotal returns two thirds; half of that is
// asked for.
ProcessSeries::Doubt ProcessSeries::DoubtOf(const OfOneRun& run, const Entry& entry, const Timeline& timeline) const {
  const uint32_t first = FirstFrom(timeline.order, entry.bytes.since, timeline.by_births,
                                   [&](uint32_t snapshot) { return HoursOf(snapshot, timeline); });
  const int64_t growth = entry.bytes_now - BytesAt(entry, first);
  if (!IsMuch(growth, run.in_use)) return Doubt::kLittle;
  return RiseOfTotal(entry.bytes.since, timeline) >= static_cast<double>(growth) / 3 ? Doubt::kNone
                                                                                     : Doubt::kNotInTotal;
}

// While new blocks replace older ones, which no snapshot has, what is in use seems to rise. The resident memory of the
// process does not. Of a leak it rises by at least half as much, and not much of the rise of all stacks is missing there.
bool ProcessSeries::MayReplaceOlder(const Points& points, double since, const Timeline& timeline) const {
  if (!has_older_blocks_) return false;
  uint32_t first = kStart, last = kStart;
  for (const uint32_t snapshot : timeline.order) {
    if (snapshots_[snapshot].resident == 0 || HoursOf(snapshot, timeline) < since) continue;
    if (first == kStart) first = snapshot;
    last = snapshot;
  }
  if (first == last) return true;
  const auto rise_of = [&](const Points& of) {
    return static_cast<double>(PointOf(of, last).bytes) - static_cast<double>(PointOf(of, first).bytes);
  };
  const auto resident = static_cast<double>(snapshots_[last].resident - snapshots_[first].resident);
  const double rise = rise_of(points), replaced = std::max(0.0, rise_of(totals_) - resident);
  return resident < rise / 2 || rise < 1.5 * replaced;
}

// Returns by how much the mean of the bytes in use rises from the first third of the time since `since` to the last:
// two thirds of it if it is steady. Other stacks may fall and rise meanwhile, so two snapshots do not suffice.
double ProcessSeries::RiseOfTotal(double since, const Timeline& timeline) const {
  const double end = HoursOf(timeline.order.back(), timeline);
  const auto mean = [&](double from, double to) {
    double sum = 0, count = 0;
    for (const uint32_t snapshot : timeline.order) {
      const double hours = HoursOf(snapshot, timeline);
      if (hours < from || hours > to) continue;
      sum += static_cast<double>(TotalAt(snapshot)), ++count;
    }
    return count > 0 ? sum / count : 0;
  };
  const double third = (end - since) / 3;
  return mean(end - third, end) - mean(since, since + third);
}

bool ProcessSeries::IsMuch(int64_t growth, int64_t in_use) {
  return growth >= kMuchInOneRun || static_cast<double>(growth) >= kMuchOfInUse * static_cast<double>(in_use);
}

std::vector<int64_t> ProcessSeries::CourseOf(const Entry& entry, size_t most) const {
  std::vector<int64_t> course;
  const auto stack = Shown().find(entry.key);
  if (stack == Shown().end()) return course;
  const std::vector<uint32_t> order = ByTime();
  const size_t kept = std::min(order.size(), std::max<size_t>(2, most));
  for (size_t i = 0; i < kept; ++i) {
    const size_t at = kept < 2 ? 0 : i * (order.size() - 1) / (kept - 1);
    course.push_back(PointOf(stack->second.points, order[at]).bytes);
  }
  return course;
}

Growth ProcessSeries::Total(Doubt* doubt) const {
  AliveAges all, freed;
  for (const auto& [key, ages] : ages_) all.Add(ages);
  for (const auto& [key, ages] : freed_ages_) freed.Add(ages);
  const Timeline timeline = MakeTimeline();
  Growth growth = Fit(totals_, timeline, false, ages_.empty() ? nullptr : &all, &freed, 1);
  if (IsLeak(growth.growth_class) && MayReplaceOlder(totals_, growth.since, timeline)) {
    growth.growth_class = GrowthClass::kUndecided;
    if (doubt != nullptr) *doubt = Doubt::kOlder;
  }
  return growth;
}

int64_t ProcessSeries::TotalNow() const {
  const std::vector<uint32_t> order = ByTime();
  return order.empty() ? 0 : PointOf(totals_, order.back()).bytes;
}

uint32_t ProcessSeries::SnapshotAt(double hours) const {
  const Timeline timeline = MakeTimeline();
  const std::vector<uint32_t>& order = timeline.order;
  if (order.empty()) return kStart;
  return FirstFrom(order, hours, timeline.by_births, [&](uint32_t snapshot) { return HoursOf(snapshot, timeline); });
}

uint32_t ProcessSeries::SnapshotBefore(double hours) const {
  const Timeline timeline = MakeTimeline();
  if (timeline.order.empty()) return kStart;
  uint32_t before = timeline.order.front();
  for (const uint32_t snapshot : timeline.order) {
    if (HoursOf(snapshot, timeline) <= hours) before = snapshot;
  }
  return before;
}

int64_t ProcessSeries::BytesAt(const Entry& entry, uint32_t snapshot) const {
  const auto stack = Shown().find(entry.key);
  return stack == Shown().end() ? 0 : PointOf(stack->second.points, snapshot).bytes;
}

}  // namespace holdfast
