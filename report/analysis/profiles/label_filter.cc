#include "report/analysis/profiles/label_filter.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "fmt/format.h"
#include "report/base/value_units.h"

namespace holdfast {
namespace {

std::optional<int64_t> Number(std::string_view text) {
  auto value = ParseByteSize(text);
  if (!value.ok()) value = ParseTimeNs(text);
  if (!value.ok() || *value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(*value);
}

// Whether the text consists of digits, a point and letters, so that the user means a number with a unit.
bool LooksLikeNumber(std::string_view text) {
  if (text.empty()) return true;  // an open end
  const bool begins = text[0] >= '0' && text[0] <= '9';
  return begins && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

}  // namespace

absl::StatusOr<LabelFilter> LabelFilter::Parse(std::string_view option, std::string_view text, const Profile& profile) {
  auto filter = ParseText(option, text);
  if (!filter.ok() || filter->is_range_ || filter->key_.empty()) return filter;
  bool any_number = false;
  for (const Profile::Sample& sample : profile.samples) {
    for (const Profile::Label& label : profile.LabelsOf(sample)) {
      if (profile.strings[label.key] != filter->key_) continue;
      if (label.text != 0) return filter;
      any_number = true;
    }
  }
  if (!any_number) return filter;
  return absl::InvalidArgumentError(
      fmt::format("{} {}: {} is a number. Give a range such as {}=1KiB:64KiB, or one number.", option, text,
                  filter->key_, filter->key_));
}

absl::StatusOr<LabelFilter> LabelFilter::ParseText(std::string_view option, std::string_view text) {
  const std::string_view whole = text;
  LabelFilter filter;
  if (text.empty()) return filter;
  filter.empty_ = false;
  if (const size_t equals = text.find('='); equals != std::string_view::npos) {
    filter.key_ = text.substr(0, equals);
    text.remove_prefix(equals + 1);
  }
  const size_t colon = text.find(':');
  const std::string_view low = text.substr(0, colon);
  const std::string_view high = colon == std::string_view::npos ? low : text.substr(colon + 1);
  const auto low_number = low.empty() ? std::numeric_limits<int64_t>::min() : Number(low);
  const auto high_number = high.empty() ? std::numeric_limits<int64_t>::max() : Number(high);
  if (!(low.empty() && high.empty()) && low_number && high_number) {
    filter.is_range_ = true;
    filter.low_ = *low_number;
    filter.high_ = *high_number;
    return filter;
  }
  if (colon != std::string_view::npos && LooksLikeNumber(low) && LooksLikeNumber(high) &&
      !(low.empty() && high.empty())) {
    return absl::InvalidArgumentError(
        fmt::format("{} {}: \"{}\" is neither a size nor a time. Write a range as 1KiB:64KiB or 1ms:2s.", option, whole,
                    low_number ? high : low));
  }
  while (true) {
    const size_t comma = text.find(',');
    auto pattern = Pattern::Compile(option, text.substr(0, comma));
    if (!pattern.ok()) return pattern.status();
    if (!pattern->empty()) filter.patterns_.push_back(*std::move(pattern));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  if (filter.patterns_.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: no value given. Write {} wait=mutex, for example.", option, option));
  }
  return filter;
}

bool LabelFilter::Matches(const Profile& profile, const Profile::Sample& sample) const {
  const auto labels = profile.LabelsOf(sample);
  const auto has_key = [&](const Profile::Label& label) { return key_.empty() || profile.strings[label.key] == key_; };
  if (is_range_) {
    return std::any_of(labels.begin(), labels.end(), [&](const Profile::Label& label) {
      return label.text == 0 && has_key(label) && label.number >= low_ && label.number <= high_;
    });
  }
  const auto matches = [&](const Pattern& pattern) {
    return std::any_of(labels.begin(), labels.end(), [&](const Profile::Label& label) {
      if (label.text == 0 || !has_key(label)) return false;
      if (!key_.empty()) return pattern.Matches(profile.strings[label.text]);
      return pattern.Matches(fmt::format("{}:{}", profile.strings[label.key], profile.strings[label.text]));
    });
  };
  // With a key, the parts are alternatives; without one, each part must match (as in pprof).
  if (!key_.empty()) return std::any_of(patterns_.begin(), patterns_.end(), matches);
  return std::all_of(patterns_.begin(), patterns_.end(), matches);
}

}  // namespace holdfast
