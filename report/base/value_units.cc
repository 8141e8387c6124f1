#include "report/base/value_units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include "absl/time/time.h"
#include "fmt/format.h"

namespace holdfast {
namespace {

struct NamedUnit {
  std::string_view name;
  double factor;
  bool printed = true;  // chosen for output; the others are only read
};

constexpr std::array<NamedUnit, 10> kSizes = {{{"B", 1},
                                               {"KiB", 1024},
                                               {"MiB", 1048576},
                                               {"GiB", 1073741824},
                                               {"TiB", 1099511627776},
                                               {"PiB", 1125899906842624},
                                               {"KB", 1e3, false},
                                               {"MB", 1e6, false},
                                               {"GB", 1e9, false},
                                               {"bytes", 1, false}}};
constexpr std::array<NamedUnit, 6> kDecimalSizes = {
    {{"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"PB", 1e15}}};
constexpr std::array<NamedUnit, 9> kTimes = {{{"ns", 1},
                                              {"us", 1e3},
                                              {"ms", 1e6},
                                              {"s", 1e9},
                                              {"m", 60e9, false},
                                              {"h", 3600e9},
                                              {"nanoseconds", 1, false},
                                              {"milliseconds", 1e6, false},
                                              {"seconds", 1e9, false}}};

bool SameIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(a[i])) != std::tolower(static_cast<unsigned char>(b[i]))) return false;
  }
  return true;
}

const NamedUnit* FindUnit(std::span<const NamedUnit> units, std::string_view name) {
  for (const NamedUnit& unit : units) {
    if (SameIgnoringCase(unit.name, name)) return &unit;
  }
  return nullptr;
}

// Returns the number in `text` times its unit, or nothing. `bare`: the factor for a number without a unit; 0 = only 0
// may omit the unit.
std::optional<uint64_t> ParseWithUnit(std::string_view text, std::span<const NamedUnit> units, double bare) {
  if (text.empty() || !(std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.')) return std::nullopt;
  // Parse whole numbers first: a double has only 53 bits.
  uint64_t whole = 0;
  double number = 0;
  const char* end = text.data() + text.size();
  auto [whole_end, whole_error] = std::from_chars(text.data(), end, whole);
  auto [number_end, number_error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (number_error != std::errc()) return std::nullopt;
  const std::string_view name(number_end, static_cast<size_t>(end - number_end));
  double factor = bare;
  if (!name.empty()) {
    const NamedUnit* unit = FindUnit(units, name);
    if (unit == nullptr) return std::nullopt;
    factor = unit->factor;
  } else if (bare == 0 && number != 0) {
    return std::nullopt;
  }
  if (whole_error == std::errc() && whole_end == number_end) {
    uint64_t product;
    if (__builtin_mul_overflow(whole, static_cast<uint64_t>(factor), &product)) return std::nullopt;
    return product;
  }
  const double product = std::round(number * factor);
  if (!(product < 18446744073709551616.0)) return std::nullopt;
  return static_cast<uint64_t>(product);
}

// "1.50", "512", "23.4" → at most two decimals, none if they are zero (as pprof prints).
std::string ThreeDigits(double value) {
  std::string text = fmt::format("{:.2f}", value);
  if (text.ends_with(".00")) text.resize(text.size() - 3);
  return text == "-0" ? "0" : text;
}

std::string Automatic(int64_t value, std::span<const NamedUnit> units) {
  const NamedUnit* best = &units[0];
  for (const NamedUnit& unit : units) {
    if (unit.printed && std::abs(static_cast<double>(value)) >= unit.factor) best = &unit;
  }
  if (value == 0) return "0";
  return ThreeDigits(static_cast<double>(value) / best->factor) + std::string(best->name);
}

std::span<const NamedUnit> UnitsFor(std::string_view unit) {
  if (FindUnit(kSizes, unit) != nullptr) return kSizes;
  if (FindUnit(kTimes, unit) != nullptr) return kTimes;
  return {};
}

}  // namespace

absl::StatusOr<uint64_t> ParseByteSize(std::string_view text) {
  if (const auto size = ParseWithUnit(text, kSizes, 1)) return *size;
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is not a size (a number and B, KiB, MiB, GiB, KB, MB or GB, such as 512KiB)", text));
}

absl::StatusOr<uint64_t> ParseTimeNs(std::string_view text) {
  if (const auto time = ParseWithUnit(text, kTimes, 0)) return *time;
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is not a time (a number and ns, us, ms, s, m or h, such as 60s)", text));
}

std::string FormatSize(int64_t bytes) { return Automatic(bytes, kSizes); }
std::string FormatTimeNs(int64_t ns) { return Automatic(ns, kTimes); }

std::string FormatRoughTimeNs(int64_t ns) {
  if (ns < 0) return "-";
  const NamedUnit* best = &kTimes[0];
  for (const NamedUnit& unit : kTimes) {
    if (unit.printed && static_cast<double>(ns) >= unit.factor * 0.995) best = &unit;
  }
  const double value = static_cast<double>(ns) / best->factor;
  const double step = value < 9.95 ? 0.1 : value < 99.5 ? 1 : value < 995 ? 10 : 100;
  std::string text = fmt::format("{:.1f}", std::round(value / step) * step);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text + std::string(best->name);
}

std::string FormatWallTime(int64_t wall_ns) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixNanos(wall_ns), absl::UTCTimeZone());
}

std::string FormatDuration(int64_t ns) {
  constexpr int64_t kMs = 1'000'000, kSecond = 1'000 * kMs, kMinute = 60 * kSecond, kHour = 60 * kMinute,
                    kDay = 24 * kHour;
  if (ns < kMs) return FormatTimeNs(std::max<int64_t>(ns, 0));
  if (ns < kSecond) return fmt::format("{}ms", ns / kMs);
  // Truncated to tenths, so that the printed time never exceeds the real one.
  const auto tenths = [ns](int64_t unit) {
    const int64_t count = ns / (unit / 10);
    return count % 10 == 0 ? fmt::format("{}", count / 10) : fmt::format("{}.{}", count / 10, count % 10);
  };
  if (ns < kMinute) return tenths(kSecond) + "s";
  const auto both = [ns](int64_t unit, std::string_view name, int64_t part, std::string_view part_name) {
    const int64_t rest = ns % unit / part;
    return fmt::format("{}{}", ns / unit, name) + (rest == 0 ? "" : fmt::format(" {}{}", rest, part_name));
  };
  if (ns < kHour) return both(kMinute, "min", kSecond, "s");
  if (ns < 3 * kDay) return both(kHour, "h", kMinute, "min");
  return tenths(kDay) + " days";
}

std::string FormatValue(int64_t value, std::string_view unit, std::string_view output_unit) {
  const auto units = UnitsFor(unit);
  if (units.empty() || output_unit == "raw" || SameIgnoringCase(unit, output_unit)) return fmt::format("{}", value);
  const double base = FindUnit(units, unit)->factor;
  if (const NamedUnit* wanted = FindUnit(units, output_unit)) {
    if (wanted->factor == base) return fmt::format("{}", value);
    return ThreeDigits(static_cast<double>(value) * base / wanted->factor) + std::string(wanted->name);
  }
  if (base != 1) return fmt::format("{}{}", value, unit);  // a profile of another tool, in KiB or ms: keep its unit
  return Automatic(value, units);
}

std::string FormatLike(int64_t value, std::string_view unit, std::string_view size) {
  const std::string_view name = size.substr(std::min(size.size(), size.find_first_not_of("0123456789.")));
  const NamedUnit* known = FindUnit(kSizes, name.empty() ? "B" : name);
  if (unit != "bytes" || known == nullptr) return FormatValue(value, unit, "auto");
  if (known->factor == 1) return value == 0 ? "0" : fmt::format("{}B", value);
  return Automatic(value,
                   FindUnit(kDecimalSizes, name) != nullptr ? std::span<const NamedUnit>(kDecimalSizes) : kSizes);
}

bool IsOutputUnit(std::string_view output_unit) {
  return output_unit.empty() || output_unit == "auto" || output_unit == "raw" || output_unit == "count" ||
         !UnitsFor(output_unit).empty();
}

bool FitsUnit(std::string_view unit, std::string_view output_unit) {
  if (output_unit.empty() || output_unit == "auto" || output_unit == "raw" || SameIgnoringCase(unit, output_unit))
    return true;
  const auto units = UnitsFor(unit);
  return !units.empty() && FindUnit(units, output_unit) != nullptr;
}

std::string_view OutputUnitsOf(std::string_view unit) {
  if (FindUnit(kSizes, unit) != nullptr) return "auto, bytes, KiB, MiB or GiB";
  if (FindUnit(kTimes, unit) != nullptr) return "auto, ns, us, ms or s";
  return "";
}

std::string FormatPercent(int64_t value, int64_t total) {
  if (total == 0) return "0%";
  const double percent = std::abs(static_cast<double>(value) / static_cast<double>(total)) * 100;
  if (percent >= 99.95 && percent <= 100.05) return "100%";
  if (percent >= 1 || percent == 0) return fmt::format("{}%", ThreeDigits(percent));
  if (percent < 0.01) return "<0.01%";
  return fmt::format("{:.2g}%", percent);
}

}  // namespace holdfast
