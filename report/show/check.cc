#include "report/show/check.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "fmt/format.h"
#include "report/analysis/flat_table.h"
#include "report/analysis/growth/leak_finder.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/zero_profile.h"
#include "report/analysis/variance.h"
#include "report/base/atomic_file.h"
#include "report/base/pattern.h"
#include "report/base/value_units.h"
#include "report/show/check_formats.h"
#include "report/show/profile_diff.h"
#include "report/show/unreachable_profile.h"

namespace holdfast {
namespace {

constexpr double kMatters = 0.01;
constexpr size_t kMaxRows = 20;
constexpr std::string_view kPeakSpace = "peak_space";

struct Budget {
  std::string text, metric, limit;
  std::string function = "";
  bool optional = false;  // also satisfied if no function matches
};

constexpr char kBudgetForm[] = "Write METRIC:FUNCTION=LIMIT, such as inuse_space:ParseJson=10MB, or METRIC=LIMIT.";

constexpr const char* OptionOf(bool optional) { return optional ? "--max-optional" : "--max"; }

absl::StatusOr<Budget> ParseBudget(const std::string& text, bool optional) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return absl::InvalidArgumentError(fmt::format("{} {}: not a budget. {}", OptionOf(optional), text, kBudgetForm));
  }
  Budget budget{.text = text, .metric = text.substr(0, equals), .limit = text.substr(equals + 1), .optional = optional};
  if (const size_t colon = budget.metric.find(':'); colon != std::string::npos) {
    budget.function = budget.metric.substr(colon + 1);
    budget.metric.resize(colon);
  }
  return budget;
}

// Reads one budget a line, as for --max, or after "optional " as for --max-optional; # begins a comment.
absl::Status ReadBudgets(const std::string& path, std::vector<Budget>* budgets) {
  std::ifstream file(path);
  if (!file) return absl::InvalidArgumentError(fmt::format("--budgets {}: cannot be read. Check the path.", path));
  constexpr std::string_view kBlank = " \t\r", kOptional = "optional ";
  size_t number = 0, found = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    // Only at the start of a line or after a blank: {lambda()#1} is a name.
    size_t comment = line.find('#');
    while (comment != std::string::npos && comment > 0 && kBlank.find(line[comment - 1]) == std::string_view::npos) {
      comment = line.find('#', comment + 1);
    }
    line.resize(std::min(comment, line.size()));
    line.resize(line.find_last_not_of(kBlank) + 1);  // npos + 1: the line is empty
    line.erase(0, line.find_first_not_of(kBlank));
    if (line.empty()) continue;
    const bool optional = line.starts_with(kOptional);
    const auto budget = ParseBudget(optional ? line.substr(kOptional.size()) : line, optional);
    if (!budget.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("--budgets {}, line {}: not a budget: {}. {}", path, number, line, kBudgetForm));
    }
    budgets->push_back(*budget);
    ++found;
  }
  if (file.bad()) return absl::InvalidArgumentError(fmt::format("--budgets {}: cannot be read.", path));
  if (found == 0)
    return absl::InvalidArgumentError(fmt::format("--budgets {}: contains no budget. Write one per line.", path));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> LimitIn(const Budget& budget, std::string_view unit) {
  const auto value = unit == "nanoseconds" ? ParseTimeNs(budget.limit) : ParseByteSize(budget.limit);
  if (value.ok()) return static_cast<int64_t>(std::min<uint64_t>(*value, INT64_MAX));
  return absl::InvalidArgumentError(
      fmt::format("{} {}: {}.", OptionOf(budget.optional), budget.text, std::string(value.status().message())));
}

// In the unit of --unit, otherwise in the unit family of the limit.
std::string Shown(const Budget& budget, int64_t value, std::string_view unit, const std::string& output_unit) {
  return output_unit.empty() || output_unit == "auto" ? FormatLike(value, unit, budget.limit)
                                                      : FormatValue(value, unit, output_unit);
}

// Shows an excess that is smaller than the displayed digits.
std::string Excess(const Budget& budget, int64_t value, int64_t limit, std::string_view unit,
                   const std::string& output_unit) {
  if (value <= limit || Shown(budget, value, unit, output_unit) != Shown(budget, limit, unit, output_unit)) return "";
  return fmt::format(" ({} over)", Shown(budget, WrappedDifference(value, limit), unit, output_unit));
}

absl::StatusOr<Outcome> Look(const Budget& budget, const View& view, const ViewOptions& options) {
  const auto metric = FindMetric(*view.profile, budget.metric);
  if (!metric.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{} {}: {}", OptionOf(budget.optional), budget.text, std::string(metric.status().message())));
  }
  const auto pattern = Pattern::Compile(OptionOf(budget.optional), budget.function);
  if (!pattern.ok()) return pattern.status();
  const std::string_view unit = view.profile->strings[view.profile->sample_types[*metric].unit];
  const auto limit = LimitIn(budget, unit);
  if (!limit.ok()) return limit.status();
  const auto stacks = FilteredStacks::Build(view.profile, {*metric}, options.stacks, view.variances);
  if (!stacks.ok()) return stacks.status();
  std::vector<bool> matches;
  for (const FrameNode& node : stacks->nodes()) matches.push_back(pattern->empty() || pattern->Matches(node.name));
  int64_t value = 0;
  double variance = 0;
  for (size_t i = 0; i < stacks->size(); ++i) {
    const auto frames = stacks->FramesOf(i);
    if (!pattern->empty() && std::none_of(frames.begin(), frames.end(), [&](uint32_t node) { return matches[node]; }))
      continue;
    value = WrappedSum(value, stacks->ValuesOf(i)[0]);
    variance += stacks->VarianceOf(i, 0);
  }
  const double half_width = HalfWidthOf(variance);
  Outcome outcome{
      .name = budget.function.empty() ? budget.metric : fmt::format("{}:{}", budget.metric, budget.function),
      .value = Shown(budget, value, unit, options.unit) + Excess(budget, value, *limit, unit, options.unit),
      .limit = Shown(budget, *limit, unit, options.unit)};
  if (stacks->has_variances()) {
    outcome.value += " ± " + Shown(budget, static_cast<int64_t>(std::min(9e18, half_width)), unit, options.unit);
  }
  outcome.failed = value > *limit;
  // A budget for a renamed or misspelt function would always be satisfied.
  if (!budget.optional && !pattern->empty() && std::find(matches.begin(), matches.end(), true) == matches.end()) {
    outcome.failed = true;
    outcome.why = "no function in the profile matches (allowed with --max-optional; holdfast top lists the names)";
  }
  if (!budget.optional && stacks->size() == 0 && !view.profile->samples.empty() && HasFilter(options.stacks)) {
    outcome.failed = true;
    outcome.why = "the filters leave no stack (allowed with --max-optional; holdfast top lists the names)";
  }
  outcome.uncertain =
      std::abs(static_cast<double>(value) - static_cast<double>(*limit)) <= half_width && half_width > 0;
  // Less was in use when these stacks were captured, by more than the promised 2 %.
  const int64_t highest = view.peak_bytes.value_or(0), seen = view.peak_stacks_bytes.value_or(0);
  if (budget.metric == kPeakSpace && static_cast<double>(seen) < 0.98 * static_cast<double>(highest)) {
    outcome.value += fmt::format(" while {} of the peak's {} was in use", Shown(budget, seen, unit, options.unit),
                                 Shown(budget, highest, unit, options.unit));
  }
  return outcome;
}

bool HasFolder(const std::vector<std::string>& files) {
  return std::any_of(files.begin(), files.end(), NamesSeveralFiles);
}

// Returns a view for a metric without a file, because nothing happened.
std::optional<View> ZeroView(const ViewOptions& options) {
  std::vector<std::string_view> kinds = KindsWithMetric(options.metric);
  if (!options.kind.empty()) std::erase_if(kinds, [&](std::string_view kind) { return kind != options.kind; });
  for (const std::string_view kind : kinds) {
    const auto file = ZeroProfileIn(options.files, kind);
    if (!file.has_value()) continue;
    auto view = ViewOf({&*file}, options);
    if (view.ok()) return *std::move(view);
  }
  return std::nullopt;
}

// Checks a budget for the peak's height, which the program counts. The stacks of a peak file may be from a moment with
// less in use, and a short process has none. Returns nothing if the files lack the height, or if filters select only
// some stacks. Of several processes, the highest counts.
absl::StatusOr<std::optional<Outcome>> LookAtHeight(const Budget& budget, const ViewOptions& options) {
  if (budget.metric != kPeakSpace || !budget.function.empty() || HasFilter(options.stacks)) return std::nullopt;
  const auto limit = LimitIn(budget, "bytes");
  if (!limit.ok()) return limit.status();
  // Each process has a heap profile; a named file may be the peak profile itself.
  std::optional<int64_t> height;
  int64_t missing = 0;
  for (const char* kind : {"heap", "peak"}) {
    ViewOptions asked = options;
    asked.kind = kind;
    asked.metric = "";
    asked.ended = true;  // a process that ended had its peak, too
    std::ostream nowhere(nullptr);
    const auto view = OpenView(asked, nowhere);
    if (!view.ok() || view->highest_peak_bytes.value_or(-1) < height.value_or(0)) continue;
    height = *view->highest_peak_bytes;
    missing = view->highest_peak_missing_bytes;
  }
  if (!height.has_value()) return std::nullopt;
  Outcome outcome{
      .name = budget.metric,
      .value = Shown(budget, *height, "bytes", options.unit) + Excess(budget, *height, *limit, "bytes", options.unit),
      .limit = Shown(budget, *limit, "bytes", options.unit),
      .failed = *height > *limit};
  if (missing > 0) outcome.value += fmt::format(" + up to {}", Shown(budget, missing, "bytes", options.unit));
  // The uncounted amount of several threads may exceed the budget.
  outcome.uncertain = !outcome.failed && WrappedSum(*height, missing) > *limit;
  return outcome;
}

absl::StatusOr<double> ParsePercent(const std::string& text) {
  std::string_view digits = text;
  if (digits.ends_with('%')) digits.remove_suffix(1);
  double percent = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), percent);
  if (error != std::errc() || end != digits.data() + digits.size() || !(percent >= 0)) {
    return absl::InvalidArgumentError(fmt::format("--fail-above {}: not a percentage. Write 5%, for example.", text));
  }
  return percent;
}

absl::Status LookAtGrowth(const CheckOptions& options, double percent, std::ostream& err,
                          std::vector<Outcome>* outcomes) {
  auto both = Compare(options.view, {.base = options.base}, err);
  if (!both.ok()) return both.status();
  SortChanges(true, &both->changes);
  const View& view = both->view;
  const auto compare = [&](const std::string& name, int64_t base, int64_t head, bool within_error) {
    Outcome outcome{.name = fmt::format("{} {}", view.metric_name, name),
                    .value = view.Value(head),
                    .limit = fmt::format("{} + {}%", view.Value(base), percent)};
    const double allowed = static_cast<double>(base) * (1 + percent / 100);
    outcome.failed = static_cast<double>(head) > allowed && !within_error;
    outcome.uncertain = static_cast<double>(head) > allowed && within_error;
    return outcome;
  };
  const int64_t base_total = both->base_total, head_total = both->head_total;
  outcomes->push_back(compare("total", base_total, head_total, both->TotalWithinError()));
  size_t more = 0;
  const double matters = kMatters * static_cast<double>(std::max(base_total, head_total));
  for (const Change& change : both->changes) {
    if (change.total() <= 0 || static_cast<double>(std::max(change.base_total, change.head_total)) < matters) continue;
    Outcome outcome = compare(change.name(), change.base_total, change.head_total, change.WithinError());
    if (!outcome.failed && !outcome.uncertain) continue;
    if (outcomes->size() < kMaxRows) {
      outcomes->push_back(std::move(outcome));
    } else {
      more += outcome.failed;
    }
  }
  if (more > 0)
    outcomes->push_back({.name = fmt::format("and {} more functions", more), .value = "", .limit = "", .failed = true});
  return absl::OkStatus();
}

// "1MiB/h": bytes an hour, and the units given.
struct Rate {
  double bytes_an_hour = 0, an_hour = 1;
  std::string size, time;
};
absl::StatusOr<Rate> ParseRate(const std::string& text) {
  const size_t slash = text.rfind('/');
  const std::string unit = slash == std::string::npos ? "" : text.substr(slash + 1);
  const double an_hour = unit == "s"                    ? 3600
                         : unit == "min" || unit == "m" ? 60
                         : unit == "h"                  ? 1
                         : unit == "d"                  ? 1.0 / 24
                                                        : 0;
  const auto size = ParseByteSize(text.substr(0, slash));
  if (an_hour == 0 || !size.ok())
    return absl::InvalidArgumentError(
        fmt::format("--max-growth {}: not a rate. Write SIZE/TIME, such as 1MiB/h; TIME is s, min, h or d.", text));
  return Rate{static_cast<double>(*size) * an_hour, an_hour, text.substr(0, slash), unit};
}

// Returns why nobody knows whether there is a leak, or "".
std::string WhyUnknown(const GrowthAnswer& answer) {
  if (IsLeak(answer.grows)) return "";
  if (!answer.unrecorded.empty()) return answer.unrecorded;
  if (answer.doubt == ProcessSeries::Doubt::kOlder) return "new blocks may replace older ones, which are not recorded";
  return std::isfinite(answer.bound) ? "" : "too few snapshots";
}

// Leaks must be slower than the limit. An undecided faster one is uncertain. So must memory in no profile be that
// `holdfast leaks` calls growing.
absl::Status LookAtLeaks(const CheckOptions& options, const Rate& given, std::ostream& err,
                         std::vector<Outcome>* outcomes) {
  const double limit = given.bytes_an_hour;
  LeaksQuestion question = {.files = options.view.files, .stacks = options.view.stacks};
  question.stacks.fold_plumbing = true;
  const auto growths = FindGrowth(question, err);
  if (!growths.ok()) return growths.status();
  const auto rate = [&given](double bytes) {
    const double each = std::clamp(std::round(bytes / given.an_hour), -9e18, 9e18);
    return fmt::format("{}/{}", FormatLike(static_cast<int64_t>(each), "bytes", given.size), given.time);
  };
  for (const ProgramGrowth& growth : *growths) {
    const bool leak = IsLeak(growth.answer.grows);
    const double bound = growth.answer.bound;
    const std::string why = WhyUnknown(growth.answer);
    const std::string kind = growth.kind == "heap" ? "" : ", " + growth.kind;
    Outcome outcome{.name = fmt::format("growth {}{}", growth.program, kind),
                    .value = leak             ? fmt::format("{} ± {}", rate(growth.slope), rate(growth.half_width))
                             : !why.empty()   ? "unknown: " + why
                             : bound <= limit ? "at most " + rate(bound)
                                              : fmt::format("no leak found, but up to {} may be missed", rate(bound)),
                    .limit = options.max_growth,
                    .unknown = !leak && !why.empty()};
    outcome.failed = leak && growth.slope > limit;
    outcome.uncertain =
        !outcome.unknown && (leak ? std::abs(growth.slope - limit) <= growth.half_width : !(bound <= limit));
    outcomes->push_back(std::move(outcome));
    if (growth.elsewhere.empty()) continue;
    outcomes->push_back({.name = fmt::format("growth {}, {}", growth.program, growth.elsewhere),
                         .value = rate(growth.elsewhere_slope),
                         .limit = options.max_growth,
                         .failed = growth.elsewhere_slope > limit});
  }
  return absl::OkStatus();
}

// The unreachable memory of each process must not exceed the limit. If it does, each stack has a line.
absl::Status LookAtUnreachable(const CheckOptions& options, std::vector<Outcome>* outcomes) {
  const auto limit = ParseByteSize(options.max_unreachable);
  if (!limit.ok())
    return absl::InvalidArgumentError(fmt::format("--max-unreachable {}", std::string(limit.status().message())));
  const auto records = ReadUnreachable(options.view.files);
  if (!records.ok()) return records.status();
  const auto text = [](int64_t bytes, int64_t blocks) {
    return fmt::format("{} in {} block{}", FormatSize(bytes), blocks, blocks == 1 ? "" : "s");
  };
  size_t more = 0;
  for (const UnreachableRecord& record : *records) {
    const bool failed = record.bytes > static_cast<int64_t>(std::min<uint64_t>(*limit, INT64_MAX));
    outcomes->push_back({.name = fmt::format("unreachable memory of {}", record.program),
                         .value = record.blocks == 0 ? "0" : text(record.bytes, record.blocks),
                         .limit = FormatSize(static_cast<int64_t>(*limit)),
                         .failed = failed});
    if (!failed) continue;
    for (const UnreachableRecord::Site& site : record.sites) {
      if (outcomes->size() >= kMaxRows) {
        ++more;
        continue;
      }
      outcomes->push_back({.name = fmt::format("unreachable: {}", site.label),
                           .value = text(site.bytes, site.blocks),
                           .limit = FormatSize(static_cast<int64_t>(*limit)),
                           .failed = true});
    }
  }
  if (more > 0)
    outcomes->push_back({.name = fmt::format("and {} more stacks", more), .value = "", .limit = "", .failed = true});
  return absl::OkStatus();
}

}  // namespace

int RunCheck(const CheckOptions& options, std::ostream& out, std::ostream& err) {
  const std::string& format = options.view.format;
  if (format != "text" && format != "markdown" && format != "junit") {
    return Failed(
        absl::InvalidArgumentError(fmt::format("--format {}: no such format. Use text, markdown or junit.", format)),
        err);
  }
  if (options.max.empty() && options.max_optional.empty() && options.budgets.empty() && options.fail_above.empty() &&
      options.max_growth.empty() && options.max_unreachable.empty()) {
    return Failed(
        absl::InvalidArgumentError("check: nothing to check. Give --max METRIC:FUNCTION=LIMIT, --budgets FILE, "
                                   "--max-growth 1MiB/h, --max-unreachable 0, or --base FILE and --fail-above 5%."),
        err);
  }
  if (options.fail_above.empty() != options.base.empty()) {
    return Failed(absl::InvalidArgumentError("check: --base and --fail-above need each other. Give both."), err);
  }
  std::vector<Outcome> outcomes;
  std::vector<Budget> budgets;
  for (const bool optional : {false, true}) {
    for (const std::string& text : optional ? options.max_optional : options.max) {
      const auto budget = ParseBudget(text, optional);
      if (!budget.ok()) return Failed(budget.status(), err);
      budgets.push_back(*budget);
    }
  }
  for (const std::string& path : options.budgets) {
    if (const auto read = ReadBudgets(path, &budgets); !read.ok()) return Failed(read, err);
  }
  // One folder may serve budgets of several kinds: each finds its files by its metric.
  for (Budget& budget : budgets) {
    ViewOptions own = options.view;
    own.metric = budget.metric;
    own.errors = true;
    const auto height = LookAtHeight(budget, own);
    if (!height.ok()) return Failed(height.status(), err);
    if (height->has_value()) {
      outcomes.push_back(**height);
      continue;
    }
    // Several kinds may have the metric: without a heap profile, inuse_space must not be read from mappings.
    const std::vector<std::string_view> kinds = KindsWithMetric(budget.metric);
    const bool of_first = own.kind.empty() && kinds.size() > 1 && HasFolder(own.files);
    if (of_first) own.kind = kinds.front();
    auto view = OpenView(own, err);
    if (!view.ok()) {
      // In a profile of zeros no function can be missing.
      if (auto zero = ZeroView(own); zero.has_value()) {
        view = *std::move(zero);
        budget.optional = true;
      }
    }
    if (of_first && absl::IsNotFound(view.status())) {
      ViewOptions any = own;
      any.kind.clear();
      std::ostringstream said;
      if (const auto other = OpenView(any, said); absl::IsNotFound(other.status())) return Failed(other.status(), err);
      return Failed(
          absl::InvalidArgumentError(fmt::format(
              "{} {}: no {} profile in {}; none was recorded. Name another kind with --kind, or run with --profiles {}.",
              OptionOf(budget.optional), budget.text, own.kind, own.files.front(), own.kind)),
          err);
    }
    if (!view.ok()) return Failed(view.status(), err);
    const auto outcome = Look(budget, *view, own);
    if (!outcome.ok()) return Failed(outcome.status(), err);
    outcomes.push_back(*outcome);
  }
  if (!options.fail_above.empty()) {
    const auto percent = ParsePercent(options.fail_above);
    if (!percent.ok()) return Failed(percent.status(), err);
    if (const auto looked = LookAtGrowth(options, *percent, err, &outcomes); !looked.ok()) return Failed(looked, err);
  }
  if (!options.max_growth.empty()) {
    const auto limit = ParseRate(options.max_growth);
    if (!limit.ok()) return Failed(limit.status(), err);
    if (const auto looked = LookAtLeaks(options, *limit, err, &outcomes); !looked.ok()) return Failed(looked, err);
  }
  if (!options.max_unreachable.empty()) {
    if (const auto looked = LookAtUnreachable(options, &outcomes); !looked.ok()) return Failed(looked, err);
  }
  const std::string text = format == "markdown" ? CheckMarkdown(outcomes)
                           : format == "junit"  ? CheckJunit(outcomes)
                                                : CheckText(outcomes);
  if (!options.junit.empty()) {
    if (const auto written = WriteAtomically(options.junit, CheckJunit(outcomes), out); !written.ok())
      return Failed(written, err);
  }
  if (const auto written = WriteAtomically(options.output, text, out); !written.ok()) return Failed(written, err);
  return std::any_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return o.failed; }) ? 1 : 0;
}

}  // namespace holdfast
