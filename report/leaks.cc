#include "report/leaks.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <thread>

#include "absl/hash/hash.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/metric.h"
#include "report/printable.h"
#include "report/progress.h"
#include "report/units.h"
#include "report/variance.h"
#include "sampler/pprof.h"

namespace holdfast {
namespace {

constexpr double kNanosAnHour = 3600e9;
constexpr auto kLook = std::chrono::milliseconds(500);

std::string HoursText(double hours) {
  if (hours < 1.0 / 60) return fmt::format("{:.0f} s", hours * 3600);
  if (hours < 2) return fmt::format("{:.0f} min", hours * 60);
  if (hours < 72) return fmt::format("{:.1f} h", hours);
  if (hours < 24 * 730) return fmt::format("{:.0f} days", hours / 24);
  return "more than two years";
}

std::string SignedSize(double bytes) {
  const double bounded = std::clamp(std::round(bytes), -9e18, 9e18);
  return (bounded > 0 ? "+" : "") + FormatSize(static_cast<int64_t>(bounded));
}

}  // namespace

absl::Status LeakSeries::Add(const ProfileFile& file) {
  const Profile& profile = *file.profile;
  const auto space = FindMetric(profile, "inuse_space"), objects = FindMetric(profile, "inuse_objects");
  if (!space.ok() || !objects.ok()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: has no inuse_space and inuse_objects. Leaks are found in heap profiles: give those.", file.path));
  }
  // What was allocated says how much was turned over; files of others may not have it.
  std::vector<size_t> columns = {*space, *objects};
  const auto all_space = FindMetric(profile, "alloc_space"), all_objects = FindMetric(profile, "alloc_objects");
  const bool turnover = all_space.ok() && all_objects.ok();
  if (turnover) columns.insert(columns.end(), {*all_space, *all_objects});
  turnover_known_ = turnover_known_ && turnover;
  const std::vector<double> variances = VariancesOf(profile);
  const auto stacks = Stacks::Build(file.profile, columns, options_, variances);
  if (!stacks.ok()) return stacks.status();
  const auto snapshot = static_cast<uint32_t>(snapshots_.size());
  snapshots_.push_back({file.time_nanos, file.path});
  std::vector<StringId> names;  // of each node: nodes differ from file to file
  std::vector<bool> suppressed;
  for (const FrameNode& node : stacks->nodes()) {
    names.push_back(names_.Intern(node.name));
    bool known = suppressions_->Matches(node.name) || suppressions_->Matches(profile.strings[node.file]);
    for (const StringId object : node.objects) known = known || suppressions_->Matches(profile.strings[object]);
    suppressed.push_back(!suppressions_->empty() && known);
  }
  totals_.emplace_back(snapshot, Point());
  for (size_t i = 0; i < stacks->size(); ++i) {
    const auto frames = stacks->FramesOf(i);
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
    stack.suppressed =
        stack.suppressed || std::any_of(frames.begin(), frames.end(), [&](uint32_t node) { return suppressed[node]; });
    if (stack.points.empty() || stack.points.back().first != snapshot) stack.points.emplace_back(snapshot, Point());
    for (Point* point : {&stack.points.back().second, &totals_.back().second}) {
      point->bytes = WrappedSum(point->bytes, stacks->ValuesOf(i)[0]);
      point->objects = WrappedSum(point->objects, stacks->ValuesOf(i)[1]);
      if (turnover) {
        point->bytes_allocated = WrappedSum(point->bytes_allocated, stacks->ValuesOf(i)[2]);
        point->objects_allocated = WrappedSum(point->objects_allocated, stacks->ValuesOf(i)[3]);
      }
      point->bytes_variance += stacks->VarianceOf(i, 0);
      point->objects_variance += stacks->VarianceOf(i, 1);
    }
  }
  return absl::OkStatus();
}

LeakSeries::Point LeakSeries::PointOf(const Points& points, uint32_t snapshot) {
  const auto found = std::ranges::lower_bound(points, snapshot, {}, [](const auto& point) { return point.first; });
  return found == points.end() || found->first != snapshot ? Point() : found->second;
}

std::vector<std::string> LeakSeries::FramesOf(const Entry& entry) const {
  std::vector<std::string> frames;
  const auto stack = stacks_.find(entry.key);
  if (stack == stacks_.end()) return frames;
  for (const StringId name : NamesOf(stack->second)) frames.emplace_back(names_[name]);
  return frames;
}

std::vector<uint32_t> LeakSeries::ByTime() const {
  std::vector<uint32_t> order(snapshots_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return snapshots_[a] < snapshots_[b]; });
  return order;
}

double LeakSeries::Hours() const {
  if (snapshots_.empty()) return 0;
  const auto [first, last] = std::minmax_element(snapshots_.begin(), snapshots_.end());
  return static_cast<double>(last->first - first->first) / kNanosAnHour;
}

Growth LeakSeries::Fit(const Points& points, const std::vector<uint32_t>& order, bool objects) const {
  Series series;
  Point point;
  for (const uint32_t snapshot : order) {
    // Not in a snapshot: nothing was in use. What was allocated until then does not become less.
    const Point before = std::exchange(point, PointOf(points, snapshot));
    point.bytes_allocated = std::max(point.bytes_allocated, before.bytes_allocated);
    point.objects_allocated = std::max(point.objects_allocated, before.objects_allocated);
    series.times.push_back(static_cast<double>(snapshots_[snapshot].first - snapshots_[order[0]].first) / kNanosAnHour);
    series.values.push_back(static_cast<double>(objects ? point.objects : point.bytes));
    series.variances.push_back(objects ? point.objects_variance : point.bytes_variance);
    if (turnover_known_) {
      series.allocated.push_back(static_cast<double>(objects ? point.objects_allocated : point.bytes_allocated));
    }
  }
  return FitGrowth(series);
}

std::vector<LeakSeries::Entry> LeakSeries::Entries() const {
  std::vector<Entry> entries;
  const std::vector<uint32_t> order = ByTime();
  for (const auto& [key, stack] : stacks_) {
    const Point now = PointOf(stack.points, order.back());
    entries.push_back({key, stack.suppressed, Fit(stack.points, order, false), Fit(stack.points, order, true), now.bytes,
                       now.objects});
  }
  const auto name = [&](StringId id) { return names_[id]; };
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    const bool a_grows = a.bytes.growth_class == GrowthClass::kGrowing,
               b_grows = b.bytes.growth_class == GrowthClass::kGrowing;
    if (a_grows != b_grows) return a_grows;
    if (a_grows && a.bytes.lower() != b.bytes.lower()) return a.bytes.lower() > b.bytes.lower();
    if (a.bytes_now != b.bytes_now) return a.bytes_now > b.bytes_now;
    return std::ranges::lexicographical_compare(NamesOf(stacks_.at(a.key)), NamesOf(stacks_.at(b.key)), {}, name, name);
  });
  return entries;
}

std::vector<int64_t> LeakSeries::CourseOf(const Entry& entry, size_t most) const {
  std::vector<int64_t> course;
  const auto stack = stacks_.find(entry.key);
  if (stack == stacks_.end()) return course;
  const std::vector<uint32_t> order = ByTime();
  const size_t kept = std::min(order.size(), std::max<size_t>(2, most));
  for (size_t i = 0; i < kept; ++i) {
    const size_t at = kept < 2 ? 0 : i * (order.size() - 1) / (kept - 1);
    course.push_back(PointOf(stack->second.points, order[at]).bytes);
  }
  return course;
}

Growth LeakSeries::Total() const { return Fit(totals_, ByTime(), false); }

int64_t LeakSeries::TotalNow() const {
  const std::vector<uint32_t> order = ByTime();
  return order.empty() ? 0 : PointOf(totals_, order.back()).bytes;
}

namespace {

class Finder {
 public:
  explicit Finder(const LeaksOptions& options) : options_(options) {}

  absl::Status Prepare() {
    for (const std::string& file : options_.suppressions) {
      if (const auto read = suppressions_.AddFile(file); !read.ok()) return read;
    }
    if (options_.limit.empty()) return absl::OkStatus();
    const auto limit = ParseSize(options_.limit);
    if (!limit.ok()) return absl::InvalidArgumentError("--limit " + std::string(limit.status().message()) + ".");
    limit_ = static_cast<double>(*limit);
    return absl::OkStatus();
  }

  // Reads what is new. Each file's profile is dropped at once: a hundred snapshots cost no more memory than their
  // series.
  absl::Status Read(std::ostream& err) {
    Progress progress("reading snapshot");
    const auto found = FindProfiles(options_.view.files, "heap");
    if (!found.ok()) return found.status();
    size_t done = 0;
    for (const FoundFile& file : *found) {
      progress.Show(done++, found->size());
      if (!seen_.insert(file.path).second) continue;
      auto profile = ReadPprofFile(file.path);
      if (!profile.ok()) {
        if (!file.from_folder) return profile.status();
        if (access(file.path.c_str(), F_OK) == 0) {
          progress.Clear();
          err << "holdfast: " << Printable(std::string(profile.status().message())) << "\n";
        }
        continue;
      }
      ProfileFile described = Describe(file.path, *profile);
      if (file.from_folder && described.kind_stated && described.kind != "heap") continue;
      described.profile = std::make_shared<Profile>(*std::move(profile));
      const auto [series, added] = processes_.try_emplace(
          described.process, described.program, LeakSeries(options_.view.stacks, options_.depth, &suppressions_));
      if (const auto read = series->second.second.Add(described); !read.ok()) return read;
    }
    return absl::OkStatus();
  }

  bool HasEnough() const {
    return std::any_of(processes_.begin(), processes_.end(),
                       [](const auto& process) { return process.second.second.snapshots() >= kLeastSnapshots; });
  }

  std::string TooFew() const {
    size_t most = 0;
    for (const auto& [process, series] : processes_) most = std::max(most, series.second.snapshots());
    return fmt::format(
        "{}: {} snapshot{} of a process {} too few to see growth; it takes {}. Let it run on, or take them more often "
        "with "
        "--snapshot-every.",
        options_.view.files[0], most, most == 1 ? "" : "s", most == 1 ? "is" : "are", kLeastSnapshots);
  }

  // Whether there is a leak.
  bool Print(const Style& style, std::ostream& out) const {
    ViewTable table;
    table.columns = {{"slope", "bytes/h", Column::kRight, 8},
                     {"slope_error", "±"},
                     {"object_slope", "objects/h"},
                     {"in_use", "in use"},
                     {"objects_in_use", "objects"},
                     {"class", "class", Column::kLeft, 9, 2},
                     {"program", ""},
                     {"process", ""},
                     {"", "function ← callers", Column::kLeft, 0, 2},
                     {"stack", ""}};
    size_t leaks = 0, suppressed = 0, rows = 0, fewer = 0;
    double leak_slope = 0;
    for (const auto& [process, named] : processes_) {
      const auto& [program, series] = named;
      if (series.snapshots() < kLeastSnapshots) {
        ++fewer;
        continue;
      }
      const Growth total = series.Total();
      table.header.push_back(
          fmt::format("program  {}: {} snapshots over {}", program, series.snapshots(), HoursText(series.Hours())));
      table.header.push_back(
          fmt::format("in use   {}, {} ± {} an hour ({})", FormatSize(series.TotalNow()), SignedSize(total.slope),
                      FormatSize(static_cast<int64_t>(std::min(9e18, total.half_width))), NameOf(total.growth_class)));
      double process_leaks = 0;
      for (const LeakSeries::Entry& entry : series.Entries()) {
        const bool grows = entry.bytes.growth_class == GrowthClass::kGrowing;
        if (grows && entry.suppressed) {
          ++suppressed;
          continue;
        }
        if (grows) {
          ++leaks;
          process_leaks += entry.bytes.slope;
        } else if (!options_.all) {
          continue;
        }
        if (options_.view.node_count != 0 && ++rows > options_.view.node_count) continue;
        table.rows.push_back(RowOf(process, program, entry, series.FramesOf(entry), grows));
      }
      leak_slope = std::max(leak_slope, process_leaks);
      if (limit_ > 0) table.header.push_back("limit    " + LimitText(series, process_leaks, total));
    }
    if (fewer > 0)
      table.header.push_back(fmt::format("left out {} process{} with fewer than {} snapshots", fewer, fewer == 1 ? "" : "es", kLeastSnapshots));
    if (suppressed > 0)
      table.header.push_back(fmt::format("left out {} leak{} by suppressions", suppressed, suppressed == 1 ? "" : "s"));
    table.header.push_back(leaks == 0 ? "leaks    none: no stack grows all the time"
                                      : fmt::format("leaks    {} stack{} grow{} all the time", leaks,
                                                    leaks == 1 ? "" : "s", leaks == 1 ? "s" : ""));
    table.members = {{"leaks", fmt::format("{}", leaks)}, {"suppressed", fmt::format("{}", suppressed)}};
    if (table.rows.empty() && style.format == Format::kTable) table.columns.clear();
    holdfast::Print(table, style, out);
    return leaks > 0;
  }

 private:
  std::string LimitText(const LeakSeries& series, double leak_slope, const Growth& total) const {
    const auto now = static_cast<double>(series.TotalNow());
    if (now >= limit_) return fmt::format("{} is reached already", FormatSize(static_cast<int64_t>(limit_)));
    // The leaks go on, what else grew may not.
    const double slope = leak_slope > 0 ? leak_slope : total.growth_class == GrowthClass::kGrowing ? total.slope : 0;
    if (slope <= 0)
      return fmt::format("{} will not be reached by what grows now", FormatSize(static_cast<int64_t>(limit_)));
    return fmt::format("{} in use is reached in {}", FormatSize(static_cast<int64_t>(limit_)),
                       HoursText((limit_ - now) / slope));
  }

  TableRow RowOf(const std::string& process, const std::string& program, const LeakSeries::Entry& entry,
                 const std::vector<std::string>& frames, bool grows) const {
    const std::span shown = std::span(frames).first(std::min(options_.shown_frames, frames.size()));
    std::string text = fmt::format("{}", fmt::join(shown, " ← "));
    if (shown.size() < frames.size()) text += " ← …";
    const double error = std::min(9e18, entry.bytes.half_width);
    return {{Cell::Real(SignedSize(entry.bytes.slope), entry.bytes.slope),
             Cell::Real("±" + FormatSize(static_cast<int64_t>(error)), entry.bytes.half_width),
             Cell::Real(fmt::format("{:.4g}", entry.objects.slope), entry.objects.slope),
             Cell::Number(FormatSize(entry.bytes_now), entry.bytes_now),
             Cell::Number(fmt::format("{}", entry.objects_now), entry.objects_now),
             Cell::Text(NameOf(entry.bytes.growth_class)), Cell::Text(program), Cell::Text(process), Cell::Text(text),
             Cell::Text(fmt::format("{}", fmt::join(frames, ";")))},
            grows ? 1.0 : 0.005};
  }

  const LeaksOptions& options_;
  Suppressions suppressions_;
  double limit_ = 0;
  std::set<std::string> seen_;
  std::map<std::string, std::pair<std::string, LeakSeries>> processes_;  // by identity: program, series
};

}  // namespace

int RunLeaks(const LeaksOptions& options, std::ostream& out, std::ostream& err) {
  const auto style = StyleFor(options.view.format, options.view.color);
  if (!style.ok()) return Failed(style.status(), err);
  Finder finder(options);
  if (const auto prepared = finder.Prepare(); !prepared.ok()) return Failed(prepared, err);
  std::string last;
  while (true) {
    if (const auto read = finder.Read(err); !read.ok() && !(options.follow && absl::IsNotFound(read)))
      return Failed(read, err);
    if (finder.HasEnough()) {
      std::ostringstream text;
      const bool leaks = finder.Print(*style, text);
      if (text.str() != last) {
        if (options.follow && style->color) out << "\x1b[H\x1b[2J";
        if (options.follow && !style->color && !last.empty()) out << "\n";
        out << text.str() << std::flush;
        last = text.str();
      }
      if (!options.follow) return leaks ? 1 : 0;
      if (!out) return 3;  // nobody reads any more
    } else if (!options.follow) {
      return Failed(absl::FailedPreconditionError(finder.TooFew()), err);
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace holdfast
