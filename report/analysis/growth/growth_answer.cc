#include "report/analysis/growth/growth_answer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/growth/rate_unit.h"
#include "report/analysis/owners.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/value_units.h"

namespace holdfast {
namespace {

constexpr double kLittle = 0.01;  // of the bytes in use: a smaller undecided rise does not matter
constexpr double kMostly = 0.5;   // a stack with at least this part of a rise is named
constexpr double kAllOfIt = 0.9;
// Level: no leak exceeds this part of the bytes in use within a day; or within the observed time if every allocation is
// known.
constexpr double kHarmless = 0.05, kHoursADay = 24;
constexpr int64_t kFinerBy = 8;
constexpr double kAloneErrors = 6;  // standard errors

double RiseOf(const ProcessSeries& series, const ProcessSeries::Entry& entry) {
  return static_cast<double>(entry.bytes_now - series.BytesAt(entry, series.SnapshotAt(entry.bytes.since)));
}

bool LeaksAny(const std::vector<ProcessSeries::Entry>& entries) {
  return std::ranges::any_of(
      entries, [](const ProcessSeries::Entry& entry) { return !entry.suppressed && IsLeak(entry.bytes.growth_class); });
}

// Returns whether the last quarter of the time of a rise has a sixteenth of it; of a steady one it has a quarter. Asks
// the stacks that grow, because the others may hide them in the total.
bool GoesOn(const ProcessSeries& series, const std::vector<ProcessSeries::Entry>& entries, const GrowthAnswer& answer,
            uint32_t first) {
  constexpr double kLate = 0.25;
  constexpr int64_t kPart = 16;
  const uint32_t late = series.SnapshotBefore(series.Hours() - kLate * answer.hours);
  const auto rises = [&](int64_t before, int64_t then, int64_t now) {
    return now > then && now - then >= (now - before) / kPart;
  };
  const auto rises_late = [&](const ProcessSeries::Entry& entry) {
    return !entry.suppressed && IsLeak(entry.bytes.growth_class) &&
           rises(series.BytesAt(entry, first), series.BytesAt(entry, late), entry.bytes_now);
  };
  if (LeaksAny(entries)) return std::ranges::any_of(entries, rises_late);
  return rises(answer.before, series.TotalAt(late), answer.now);
}

// Returns whether one stack has most of the total's rise since then.
bool OneStackHasMost(const ProcessSeries& series, const std::vector<ProcessSeries::Entry>& entries, double since) {
  const uint32_t first = series.SnapshotAt(since);
  const auto rise = static_cast<double>(series.TotalNow() - series.TotalAt(first));
  return std::ranges::any_of(entries, [&](const ProcessSeries::Entry& entry) {
    return static_cast<double>(entry.bytes_now - series.BytesAt(entry, first)) > kMostly * rise;
  });
}

// Finds the owner of a rise. Usually that is the innermost function. But C has no standard containers: the functions that make strings and
// tables are called from everywhere, and `holdfast top` names the branch instead (report/analysis/owners.h). Here it is the innermost function that all of
// the rise goes through and that does nothing for others. A function with half of the rise
// keeps what it makes if nearly all of that rises. Code without a name is looked at in the same way.
//
//     main ─ call ┬ hsetCommand ─ hashTypeSet ┬ sdsdup ─ _sdsnewlen     60 % of the rise      _sdsnewlen works for others, too:
//                 │                           └ dictAdd                 40 %                  the rise is hashTypeSet's
//                 └ getCommand ─ addReply ─ _sdsnewlen                  freed soon
//
// If nearly everything goes through that function (main, a loop), the largest of its callees is looked at in the same way.
class Risers {
 public:
  Risers(const ProcessSeries& series, const std::vector<ProcessSeries::Entry>& entries)
      : series_(series), entries_(entries) {}

  void Add(const ProcessSeries::Entry& entry, int64_t bytes) {
    const Names names = series_.NumbersOf(entry);
    if (bytes > 0 && !names.empty())
      rises_.push_back({names, static_cast<double>(bytes), static_cast<double>(series_.AllocatedOf(entry))});
  }

  struct Riser {
    std::vector<std::string> frames = {};  // leaf first, from its own on; empty: nobody
    double bytes = 0;
  };
  Riser Largest() const {
    absl::flat_hash_map<StringId, double> by_function;
    for (const Rise& rise : rises_) by_function[rise.names.front()] += rise.bytes;
    const Rise* largest = nullptr;
    double bytes = 0;
    for (const Rise& rise : rises_) {
      const double all = by_function.at(rise.names.front());
      if (largest != nullptr && std::pair(all, rise.bytes) <= std::pair(bytes, largest->bytes)) continue;
      bytes = all;
      largest = &rise;
    }
    if (largest == nullptr) return {};
    const StringId function = OwnerInC(largest->names, bytes).value_or(largest->names.front());
    Riser riser;
    for (const Rise& rise : rises_) riser.bytes += Has(rise.names, function) ? rise.bytes : 0;
    if (function == largest->names.front()) riser.bytes = bytes;
    const auto own = std::ranges::find(largest->names, function);
    for (auto name = own; name != largest->names.end(); ++name) riser.frames.emplace_back(series_.NameOf(*name));
    return riser;
  }

 private:
  static constexpr double kAll = 0.98, kNearlyAll = 0.9, kMax = 0.75, kHalf = 0.5;
  using Names = std::span<const StringId>;
  struct Rise {
    Names names;                      // leaf first
    double bytes = 0, allocated = 0;  // allocated: ever
  };

  static bool Has(Names names, StringId name) { return std::ranges::find(names, name) != names.end(); }

  // Nothing: the innermost function. `stack`: the largest of that function, which has `bytes` of the rise.
  std::optional<StringId> OwnerInC(Names stack, double bytes) const {
    const bool is_nameless = IsNameless(series_.NameOf(stack.front()));
    if (!series_.turnover_known() || !(is_nameless || IsC(series_.NameOf(stack.front())))) return std::nullopt;
    double rises = 0, allocated = 0, all = 0;
    for (const Rise& rise : rises_) {
      rises += Has(rise.names, stack.front()) ? rise.allocated : 0;
      all += rise.bytes;
    }
    const bool has_half = bytes >= kHalf * all;
    if (!is_nameless && has_half && rises >= kMax * AllocatedBy(stack.front(), stack.front())) return std::nullopt;
    for (const ProcessSeries::Entry& entry : entries_) allocated += static_cast<double>(series_.AllocatedOf(entry));
    size_t at = stack.size() - 1;  // the outermost one
    for (int step = 0; step < 2; ++step) {
      const auto [owner, of_owner] = Innermost(stack, at);
      const bool is_general = of_owner > kNearlyAll * allocated;
      if (owner + 1 == stack.size() || is_general) {
        if (owner == 0 || step > 0) return std::nullopt;
        at = owner - 1;
        if (RiseThrough(stack[at]) < kHalf * bytes) return std::nullopt;
        continue;
      }
      const std::string_view name = series_.NameOf(stack[owner]);
      return IsC(name) || (is_nameless && !IsNameless(name)) ? std::optional(stack[owner]) : std::nullopt;
    }
    return std::nullopt;
  }

  // From stack[at] inwards: the last function that has all of the rise of stack[at], and that works for no others. The second value:
  // what it allocated, ever.
  std::pair<size_t, double> Innermost(Names stack, size_t at) const {
    const double all = RiseThrough(stack[at]);
    double allocated = AllocatedBy(stack[at], stack[at]);
    for (size_t next = at; next-- > 0;) {
      if (stack[next] == stack[at]) continue;
      if (RiseThrough(stack[next], stack[at]) < kAll * all) break;
      const double by_it = AllocatedBy(stack[next], stack[next]);
      if (AllocatedBy(stack[next], stack[at]) < kNearlyAll * by_it) break;
      at = next;
      allocated = by_it;
    }
    return {at, allocated};
  }

  double RiseThrough(StringId function) const { return RiseThrough(function, function); }
  double RiseThrough(StringId function, StringId caller) const {
    double bytes = 0;
    for (const Rise& rise : rises_) bytes += Has(rise.names, function) && Has(rise.names, caller) ? rise.bytes : 0;
    return bytes;
  }
  double AllocatedBy(StringId function, StringId caller) const {
    double bytes = 0;
    for (const ProcessSeries::Entry& entry : entries_) {
      const Names names = series_.NumbersOf(entry);
      if (Has(names, function) && Has(names, caller)) bytes += static_cast<double>(series_.AllocatedOf(entry));
    }
    return bytes;
  }

  const ProcessSeries& series_;
  const std::vector<ProcessSeries::Entry>& entries_;
  std::vector<Rise> rises_;
};

// "40KiB a minute": in a unit that fits the time that was seen.
std::string RateText(double bytes_an_hour, double hours_seen) {
  const RateUnit unit = RateUnitFor(hours_seen);
  return fmt::format("{} {}", FormatSize(static_cast<int64_t>(std::min(9e18, std::ceil(bytes_an_hour / unit.an_hour)))),
                     unit.words);
}

std::string_view DoubtText(ProcessSeries::Doubt doubt) {
  switch (doubt) {
    case ProcessSeries::Doubt::kLittle:
      return "; one run cannot tell, because the stack grew by less than 64KiB and less than 1 % of the memory in use";
    case ProcessSeries::Doubt::kNotInTotal:
      return "; one run cannot tell, because the memory in use of the process does not grow all the time";
    case ProcessSeries::Doubt::kNoStack:
      return "; one run cannot tell, because no single stack grows all the time";
    case ProcessSeries::Doubt::kFreed:
      return ", and main freed it before it returned";
    case ProcessSeries::Doubt::kOlder:
      return "; the resident memory does not rise with it, so new blocks may replace older ones, which are not recorded";
    case ProcessSeries::Doubt::kNone:
      break;
  }
  return "";
}

}  // namespace

std::string_view GrowsName(Grows grows) {
  switch (grows) {
    case Grows::kYes:
      return "growing";
    case Grows::kSteps:
      return "grows in steps";
    case Grows::kUndecided:
      return "cannot tell";
    case Grows::kNo:
      break;
  }
  return "level";
}

GrowthAnswer AnswerOf(const ProcessSeries& series, const std::vector<ProcessSeries::Entry>& entries) {
  ProcessSeries::Doubt doubt_of_total = ProcessSeries::Doubt::kNone;
  const Growth total = series.Total(&doubt_of_total);
  GrowthAnswer answer{.now = series.TotalNow()};
  const auto now = static_cast<double>(answer.now);
  bool known = false;
  double since = total.since, doubted = 0;
  answer.is_one_run = series.course_points() > 0;
  for (const ProcessSeries::Entry& entry : entries) {
    const bool leaks = IsLeak(entry.bytes.growth_class);
    const bool is_doubted = entry.doubt != ProcessSeries::Doubt::kNone;
    const bool might =
        is_doubted || (entry.bytes.growth_class == GrowthClass::kUndecided && RiseOf(series, entry) >= kLittle * now);
    known = known || entry.suppressed;
    if (entry.suppressed) continue;
    answer.bound = std::max(answer.bound, entry.bytes.bound);
    if (!leaks && !might) continue;
    // The first of those that grow is the most certain.
    if (!IsLeak(answer.grows)) {
      since = entry.bytes.since;
      answer.active = entry.bytes.active;
    }
    if (is_doubted && RiseOf(series, entry) > doubted) {
      doubted = RiseOf(series, entry);
      answer.doubt = entry.doubt;
    }
    answer.rises = true;
    answer.grows = std::max(answer.grows, !leaks                                              ? Grows::kUndecided
                                          : entry.bytes.growth_class == GrowthClass::kGrowing ? Grows::kYes
                                                                                              : Grows::kSteps);
  }
  // With births as the course, the sum over all stacks has none, because it includes tables made at the start.
  answer.by_births = series.is_by_births();
  known = known || answer.by_births;
  if (!known) answer.bound = std::max(answer.bound, total.bound);
  // The sum of many courses looks steadier than each one. To be a leak on its own, the sum needs more standard errors,
  // and no stack may have most of the rise.
  // In one run it is none: most programs hold more at their end than at their beginning.
  const bool total_leaks =
      IsLeak(total.growth_class) &&
      (IsLeak(answer.grows) || (!answer.is_one_run && total.slope >= kAloneErrors / 1.96 * total.half_width &&
                                !OneStackHasMost(series, entries, total.since)));
  if (!known && (IsLeak(total.growth_class) || total.growth_class == GrowthClass::kUndecided)) {
    if (total_leaks && !IsLeak(answer.grows)) {
      answer.grows = total.growth_class == GrowthClass::kGrowing ? Grows::kYes : Grows::kSteps;
      answer.active = total.active;
    }
    if (answer.grows == Grows::kNo) answer.grows = Grows::kUndecided;
    if (answer.is_one_run && IsLeak(total.growth_class) && answer.doubt == ProcessSeries::Doubt::kNone)
      answer.doubt = ProcessSeries::Doubt::kNoStack;
    answer.rises = true;
    since = total.since;
  }
  answer.unrecorded = series.WhyUnrecorded();
  if (!answer.unrecorded.empty()) {
    answer.bound = std::numeric_limits<double>::infinity();
    if (answer.grows == Grows::kNo) answer.grows = Grows::kUndecided;
  }
  if (answer.grows == Grows::kNo) {
    const double hours = series.exact() ? series.Hours() : kHoursADay;
    if (!(answer.bound * hours <= kHarmless * now)) answer.grows = Grows::kUndecided;
  }
  const bool is_explained =
      answer.doubt != ProcessSeries::Doubt::kNone && answer.doubt != ProcessSeries::Doubt::kNoStack;
  if (answer.rises && !is_explained && doubt_of_total != ProcessSeries::Doubt::kNone) answer.doubt = doubt_of_total;
  if (series.is_freed_at_end() && answer.rises && !is_explained) answer.doubt = ProcessSeries::Doubt::kFreed;
  if (IsLeak(answer.grows)) answer.doubt = ProcessSeries::Doubt::kNone;
  if (answer.grows == Grows::kNo) return answer;
  if (!series.has_course()) answer.more_snapshots = kMinSnapshots - series.evidence();
  answer.smaller_interval = series.exact() ? 0 : std::max<int64_t>(1, series.interval() / kFinerBy);
  answer.more_hours = series.Hours();
  if (!answer.rises) return answer;
  const uint32_t first = series.SnapshotAt(since);
  answer.before = series.TotalAt(first);
  answer.hours = series.Hours() - since;
  answer.more_hours = std::max(answer.hours, series.Hours() / 4);
  answer.goes_on = answer.by_births || GoesOn(series, entries, answer, first);
  Risers risers(series, entries);
  for (const ProcessSeries::Entry& entry : entries) {
    // A stack that only comes and goes does not grow.
    const bool takes_part = answer.by_births && !IsLeak(answer.grows)
                                ? entry.bytes.growth_class == GrowthClass::kUndecided
                                : !IsLeak(answer.grows) || IsLeak(entry.bytes.growth_class) || !LeaksAny(entries);
    if (takes_part) risers.Add(entry, entry.bytes_now - series.BytesAt(entry, first));
  }
  if (answer.by_births) {
    // Only what grows, without tables made at the start.
    answer.before = answer.now = 0;
    for (const ProcessSeries::Entry& entry : entries) {
      const bool rises =
          IsLeak(answer.grows) ? IsLeak(entry.bytes.growth_class) : entry.bytes.growth_class == GrowthClass::kUndecided;
      if (rises && !entry.suppressed) answer.now += entry.bytes_now;
      if (rises && !entry.suppressed) answer.before += series.BytesAt(entry, first);
    }
  }
  Risers::Riser largest = risers.Largest();
  if (largest.frames.empty()) return answer;
  answer.largest = std::move(largest.frames);
  answer.share = std::min(1.0, largest.bytes / std::max<double>(1, static_cast<double>(answer.now - answer.before)));
  return answer;
}

std::string_view OwnerPhrase(const GrowthAnswer& answer) {
  if (answer.largest.empty() || answer.share < kMostly) return "";
  return answer.share >= kAllOfIt ? "by" : "mostly by";
}

std::string TextOf(const GrowthAnswer& answer, double hours_seen) {
  std::string text = std::string(GrowsName(answer.grows)) + ": ";
  const bool bounded = std::isfinite(answer.bound);
  const std::string bound =
      answer.bound <= 0 ? "zero" : fmt::format("at most {} (95 %)", RateText(answer.bound, hours_seen));
  if (answer.grows == Grows::kNo) return text + (answer.bound <= 0 ? "nothing grows" : "a leak is " + bound);
  if (answer.rises) {
    const bool is_freed = answer.doubt == ProcessSeries::Doubt::kFreed;
    if (answer.now <= answer.before) {
      text += FormatSize(answer.now) + " in use, no more than before";
    } else if (is_freed) {
      text += fmt::format("grew while it ran ({} → {} in {})", FormatSize(answer.before), FormatSize(answer.now),
                          HoursText(answer.hours));
    } else {
      text += fmt::format("{} → {} in {}{}", FormatSize(answer.before), FormatSize(answer.now), HoursText(answer.hours),
                          answer.goes_on ? ", still rising" : "");
    }
    if (const std::string_view by = OwnerPhrase(answer); !by.empty())
      text += fmt::format(", {} {}", by, ShortName(answer.largest.front()));
    constexpr double kAlways = 0.9;
    if (IsLeak(answer.grows) && answer.active < kAlways && answer.active > 0 && answer.hours > 0 &&
        answer.now > answer.before) {
      const double rate = static_cast<double>(answer.now - answer.before) / answer.hours / answer.active;
      text += fmt::format("; {} while there is traffic", RateText(rate, hours_seen));
    }
    text += DoubtText(answer.doubt);
  } else if (answer.unrecorded.empty()) {
    text += bounded ? "a leak is " + bound : "there is only one snapshot";
  }
  if (answer.grows != Grows::kUndecided) return text;
  if (!answer.unrecorded.empty()) return text + (answer.rises ? "; " : "") + answer.unrecorded;
  std::vector<std::string> missing;
  if (answer.by_births && hours_seen > 0)
    missing.push_back(fmt::format("--snapshot-every {}", HoursText(std::max(hours_seen / 8, 0.1 / 3600))));
  if (answer.more_snapshots > 0)
    missing.push_back(fmt::format("{} more snapshot{}", answer.more_snapshots, answer.more_snapshots == 1 ? "" : "s"));
  if (answer.more_hours > 0)
    missing.push_back((answer.by_births || answer.is_one_run ? "a run longer by " : "another ") +
                      HoursText(answer.more_hours));
  if (answer.smaller_interval > 0) missing.push_back("--heap-interval " + FormatSize(answer.smaller_interval));
  return missing.empty() ? text : fmt::format("{}; {} will tell", text, fmt::join(missing, " or "));
}

std::string HoursText(double hours) {
  constexpr double kTwoYears = 2 * 365 * 24;
  if (!(hours < kTwoYears)) return "more than two years";
  return FormatDuration(static_cast<int64_t>(std::round(hours * 36'000)) * 100'000'000);  // no greater precision
}

}  // namespace holdfast
