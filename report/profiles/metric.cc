#include "report/profiles/metric.h"

#include <charconv>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/base/value_units.h"
#include "sampler/layout.h"

namespace holdfast {
namespace {

// What a reader should do about each cause, in the order of kLossNames.
constexpr std::string_view kLossTexts[kLosses] = {
    "samples in [overflow]: the stack table was full (raise --max-memory)",
    "samples not followed to their free: the table of live blocks was full (raise --max-memory)",
    "stacks cut: deeper than 256 frames, or not walkable",
    "samples without a stack: too little of the thread's stack was left",
    "modules not recorded: their functions have no name (raise --max-memory)",
    "samples with no table to keep them in (see holdfast doctor)",
    "steps of growth refused by the kernel: too little room where the tables lie (see --tables)",
    "steps of growth not tried behind a seccomp filter",
    "samples of locks that holdfast locks does not list: more than 4,096 locks or 8,192 pairs (the profiles have them)",
    "waits whose holder is not in the mutex profile: more than 1,024 locks, 8 of one place, or 15,360 waiters of one, at once",
    "times that a sum had no room for more (292 years of waiting): it stays as it is",
};

template <typename Number>
std::optional<Number> Parse(std::string_view text) {
  Number number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

std::vector<std::string_view> MetricNames(const Profile& profile) {
  std::vector<std::string_view> names;
  for (const auto& type : profile.sample_types) names.push_back(profile.strings[type.type]);
  return names;
}

}  // namespace

size_t DefaultMetric(const Profile& profile) {
  for (size_t i = 0; i < profile.sample_types.size(); ++i) {
    if (profile.default_sample_type != 0 && profile.sample_types[i].type == profile.default_sample_type) return i;
  }
  return profile.sample_types.size() - 1;
}

absl::StatusOr<size_t> FindMetric(const Profile& profile, std::string_view name) {
  if (name.empty()) return DefaultMetric(profile);
  const auto names = MetricNames(profile);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
  }
  size_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error == std::errc() && end == name.data() + name.size() && index < names.size()) return index;
  return absl::NotFoundError(fmt::format("no metric \"{}\". There are: {}.", name, fmt::join(names, ", ")));
}

std::optional<double> HalfWidth(const Profile& profile, size_t metric) {
  const auto value = profile.CommentValue(fmt::format("total {}", profile.strings[profile.sample_types[metric].type]));
  constexpr std::string_view kSign = " ± ";
  const size_t sign = value.find(kSign);
  if (sign == std::string_view::npos) return std::nullopt;
  return Parse<double>(value.substr(sign + kSign.size()));
}

std::string KindOf(const Profile& profile) {
  if (const auto kind = profile.CommentValue("kind"); !kind.empty()) return std::string(kind);
  return fmt::format("{}", fmt::join(MetricNames(profile), "/"));
}

std::string SamplingOf(const Profile& profile) {
  int64_t interval = profile.period;
  std::string_view unit = profile.strings[profile.period_type.unit];
  if (const auto comment = profile.CommentValue("interval"); !comment.empty()) {
    interval = Parse<int64_t>(comment).value_or(0);
    unit = comment.substr(std::min(comment.size(), comment.find(' ') + 1));
    if (interval == 0) return "off";
  }
  if (interval <= 0) return "";
  if (interval == 1) return "every one";
  return "1 in " + FormatValue(interval, unit, "auto");
}

std::vector<std::string> LossesOf(const Profile& profile) {
  std::vector<std::string> losses;
  for (int i = 0; i < kLosses; ++i) {
    const auto count = profile.CommentValue(fmt::format("lost {}", kLossNames[i]));
    if (!count.empty()) losses.push_back(fmt::format("{} {}", count, kLossTexts[i]));
  }
  return losses;
}

}  // namespace holdfast
