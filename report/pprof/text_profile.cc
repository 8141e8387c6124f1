#include "report/pprof/text_profile.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"

namespace holdfast {
namespace {

constexpr std::string_view kHeap = "heap profile:", kJemalloc = "heap_v2/", kContention = "--- contention",
                           kMutex = "--- mutex", kBlank = " \t\r";
constexpr double kMost = 9.2e18;

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

// Takes a number off the front, and blanks before it.
std::optional<uint64_t> TakeNumber(std::string_view* text, int base = 10) {
  text->remove_prefix(std::min(text->find_first_not_of(kBlank), text->size()));
  if (base == 16 && text->starts_with("0x")) text->remove_prefix(2);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number, base);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return number;
}

bool Take(std::string_view* text, char c) {
  text->remove_prefix(std::min(text->find_first_not_of(kBlank), text->size()));
  if (!text->starts_with(c)) return false;
  text->remove_prefix(1);
  return true;
}

struct HeapValues {
  uint64_t objects = 0, bytes = 0, all_objects = 0, all_bytes = 0;
};

// "2: 1024 [6: 3072]".
std::optional<HeapValues> TakeHeapValues(std::string_view* text) {
  const auto objects = TakeNumber(text);
  if (!objects.has_value() || !Take(text, ':')) return std::nullopt;
  const auto bytes = TakeNumber(text);
  if (!bytes.has_value() || !Take(text, '[')) return std::nullopt;
  const auto all_objects = TakeNumber(text);
  if (!all_objects.has_value() || !Take(text, ':')) return std::nullopt;
  const auto all_bytes = TakeNumber(text);
  if (!all_bytes.has_value() || !Take(text, ']')) return std::nullopt;
  return HeapValues{*objects, *bytes, *all_objects, *all_bytes};
}

int64_t Rounded(double value) { return static_cast<int64_t>(std::llround(std::min(kMost, value))); }

class TextDecoder {
 public:
  TextDecoder(std::string_view bytes, std::string_view name) : rest_(bytes), name_(name) {}

  absl::StatusOr<Profile> Decode() {
    while (line_.empty() && NextLine()) {
    }
    const bool is_read = line_.starts_with(kHeap)       ? ReadHeap()
                         : line_.starts_with(kJemalloc) ? ReadJemalloc()
                                                        : ReadContention();
    if (!is_read) {
      return absl::DataLossError(fmt::format(
          "{}: damaged at line {} (a text profile of gperftools or jemalloc). Write it again.", name_, number_));
    }
    PlaceLocations();
    return std::move(profile_);
  }

 private:
  bool NextLine() {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = Trimmed(rest_.substr(0, end));
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    return true;
  }

  // A heading of the part with mappings, after which nothing else comes.
  bool IsMaps() const { return line_.starts_with("MAPPED_LIBRARIES") || line_.starts_with("--- Memory map"); }

  void Describe(std::initializer_list<std::pair<const char*, const char*>> types) {
    for (const auto& [type, unit] : types)
      profile_.sample_types.push_back({profile_.strings.Intern(type), profile_.strings.Intern(unit)});
    profile_.default_sample_type = profile_.sample_types.back().type;
  }

  void DescribeHeap(uint64_t interval) {
    Describe(
        {{"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}});
    profile_.period_type = {profile_.strings.Intern("space"), profile_.strings.Intern("bytes")};
    profile_.period = static_cast<int64_t>(std::min<uint64_t>(interval, std::numeric_limits<int64_t>::max()));
    profile_.AddComment("kind: heap");
  }

  bool ReadHeap() {
    std::string_view text = line_.substr(kHeap.size());
    if (!TakeHeapValues(&text).has_value() || !Take(&text, '@')) return false;
    text = Trimmed(text);
    const size_t slash = std::min(text.find('/'), text.size());
    const std::string_view how = text.substr(0, slash);
    text.remove_prefix(std::min(slash + 1, text.size()));
    const uint64_t stated = TakeNumber(&text).value_or(1);
    // "heap" states twice the mean; "heapprofile" holds every block.
    const uint64_t interval = how.ends_with("v2") ? stated : how == "heap" ? stated / 2 : 1;
    DescribeHeap(std::max<uint64_t>(1, interval));
    while (NextLine() && !IsMaps()) {
      if (line_.empty() || line_.starts_with('#')) continue;
      text = line_;
      const auto values = TakeHeapValues(&text);
      if (!values.has_value() || !Take(&text, '@')) return false;
      if (!AddHeapSample(text, *values)) return false;
    }
    return true;
  }

  // The line of all threads, t*, follows its stack; those of single threads are parts of it.
  bool ReadJemalloc() {
    std::string_view text = line_.substr(kJemalloc.size());
    const auto interval = TakeNumber(&text);
    if (!interval.has_value()) return false;
    DescribeHeap(std::max<uint64_t>(1, *interval));
    std::optional<std::string_view> stack;
    while (NextLine() && !IsMaps()) {
      text = line_;
      if (Take(&text, '@')) {
        stack = text;
      } else if (line_.starts_with("t*:")) {
        text = line_.substr(3);
        const auto values = TakeHeapValues(&text);
        if (!values.has_value()) return false;
        if (stack.has_value() && !AddHeapSample(*stack, *values)) return false;
        stack.reset();
      } else if (!line_.empty() && !line_.starts_with('t')) {
        return false;
      }
    }
    return true;
  }

  bool ReadContention() {
    Describe({{"contentions", "count"}, {"delay", "nanoseconds"}});
    profile_.AddComment(line_.starts_with(kMutex) ? "kind: mutex" : "kind: block");
    double cycles_a_second = 1e9, period = 1;
    while (NextLine() && !IsMaps()) {
      if (line_.empty() || line_.starts_with('#')) continue;
      std::string_view text = line_;
      if (const size_t equals = line_.find('='); equals != std::string_view::npos) {
        const std::string_view key = Trimmed(line_.substr(0, equals));
        text.remove_prefix(equals + 1);
        const auto value = TakeNumber(&text);
        if (key == "cycles/second" && value.value_or(0) > 0) cycles_a_second = static_cast<double>(*value);
        if (key == "sampling period" && value.value_or(0) > 0) period = static_cast<double>(*value);
        continue;
      }
      const auto cycles = TakeNumber(&text), count = TakeNumber(&text);
      std::vector<uint32_t> frames;
      if (!cycles.has_value() || !count.has_value() || !Take(&text, '@') || !ReadStack(text, &frames)) return false;
      const std::array<int64_t, 2> values = {Rounded(static_cast<double>(*count) * period),
                                             Rounded(static_cast<double>(*cycles) * period * 1e9 / cycles_a_second)};
      profile_.AddSample(frames, values, {});
    }
    profile_.period_type = profile_.sample_types.front();
    profile_.period = Rounded(period);
    return true;
  }

  bool AddHeapSample(std::string_view stack, const HeapValues& read) {
    std::vector<uint32_t> frames;
    if (!ReadStack(stack, &frames)) return false;
    // What was allocated is not counted everywhere: it is at least what is in use.
    const auto [objects, bytes] = Scaled(read.objects, read.bytes);
    const auto [all_objects, all_bytes] = Scaled(read.all_objects, read.all_bytes);
    const std::array<int64_t, 4> values = {std::max(objects, all_objects), std::max(bytes, all_bytes), objects, bytes};
    profile_.AddSample(frames, values, {});
    return true;
  }

  std::pair<int64_t, int64_t> Scaled(uint64_t objects, uint64_t bytes) const {
    const auto count = static_cast<double>(objects), size = static_cast<double>(bytes);
    if (objects == 0 || bytes == 0 || profile_.period <= 1) return {Rounded(count), Rounded(size)};
    const double scale = 1 / (1 - std::exp(-size / count / static_cast<double>(profile_.period)));
    return {Rounded(count * scale), Rounded(size * scale)};
  }

  bool ReadStack(std::string_view text, std::vector<uint32_t>* frames) {
    while (!Trimmed(text).empty()) {
      const auto address = TakeNumber(&text, 16);
      if (!address.has_value()) return false;
      const uint64_t call = *address == 0 ? 0 : *address - 1;
      const auto [place, added] = location_of_.emplace(call, static_cast<uint32_t>(profile_.locations.size()));
      if (added) profile_.locations.push_back({.address = call});
      frames->push_back(place->second);
    }
    return true;
  }

  // Lines of /proc/self/maps: "00400000-00401000 r-xp 00000000 08:01 1234   /usr/bin/app".
  void PlaceLocations() {
    while (NextLine()) {
      std::string_view text = line_;
      Profile::Mapping mapping;
      const auto start = TakeNumber(&text, 16);
      if (!start.has_value() || !Take(&text, '-')) continue;
      const auto limit = TakeNumber(&text, 16);
      text = Trimmed(text);
      const std::string_view rights = text.substr(0, text.find(' '));
      text.remove_prefix(rights.size());
      const auto offset = TakeNumber(&text, 16);
      const size_t path = text.find('/');
      if (!limit.has_value() || !offset.has_value() || rights.find('x') == std::string_view::npos) continue;
      if (path == std::string_view::npos || *limit <= *start) continue;
      mapping.start = *start;
      mapping.limit = *limit;
      mapping.offset = *offset;
      // After the device and the inode.
      const size_t name = text.find(" /");
      mapping.file = profile_.strings.Intern(text.substr(name == std::string_view::npos ? path : name + 1));
      profile_.mappings.push_back(mapping);
    }
    for (Profile::Location& location : profile_.locations) {
      for (uint32_t i = 0; i < profile_.mappings.size(); ++i) {
        if (location.address < profile_.mappings[i].start || location.address >= profile_.mappings[i].limit) continue;
        location.mapping = i;
        break;
      }
    }
  }

  std::string_view rest_, line_;
  const std::string_view name_;
  size_t number_ = 0;
  Profile profile_;
  absl::flat_hash_map<uint64_t, uint32_t> location_of_;
};

}  // namespace

bool IsTextProfile(std::string_view bytes) {
  const std::string_view text = bytes.substr(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
  return text.starts_with(kHeap) || text.starts_with(kJemalloc) || text.starts_with(kContention) ||
         text.starts_with(kMutex);
}

absl::StatusOr<Profile> DecodeTextProfile(std::string_view bytes, std::string_view name) {
  return TextDecoder(bytes, name).Decode();
}

}  // namespace holdfast
