#include "report/profile/text_profile.h"

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
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr std::string_view kHeap = "heap profile:", kJemalloc = "heap_v2/", kContention = "--- contention",
                           kJavaHeap = "--- heapz", kMutex = "--- mutex", kBlank = " \t\r";
constexpr double kMax = 9.2e18;
constexpr uint64_t kUsualStart = 0x400000;  // of programs that are not position-independent

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

// Removes a number, and blanks before it, from the front of the text.
std::optional<uint64_t> TakeNumber(std::string_view* text, int base = 10) {
  text->remove_prefix(std::min(text->find_first_not_of(kBlank), text->size()));
  if (base == 16 && text->starts_with("0x")) text->remove_prefix(2);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number, base);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return number;
}

bool TakeChar(std::string_view* text, char c) {
  text->remove_prefix(std::min(text->find_first_not_of(kBlank), text->size()));
  if (!text->starts_with(c)) return false;
  text->remove_prefix(1);
  return true;
}

// Memory in use may be negative, because blocks allocated before the profile began are freed in it.
std::optional<int64_t> TakeSigned(std::string_view* text) {
  const bool is_negative = TakeChar(text, '-');
  const auto number = TakeNumber(text);
  if (!number.has_value() || *number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return is_negative ? -static_cast<int64_t>(*number) : static_cast<int64_t>(*number);
}

struct HeapValues {
  int64_t objects = 0, bytes = 0, all_objects = 0, all_bytes = 0;
};

// Reads "2: 1024 [6: 3072]".
std::optional<HeapValues> TakeHeapValues(std::string_view* text) {
  const auto objects = TakeSigned(text);
  if (!objects.has_value() || !TakeChar(text, ':')) return std::nullopt;
  const auto bytes = TakeSigned(text);
  if (!bytes.has_value() || !TakeChar(text, '[')) return std::nullopt;
  const auto all_objects = TakeSigned(text);
  if (!all_objects.has_value() || !TakeChar(text, ':')) return std::nullopt;
  const auto all_bytes = TakeSigned(text);
  if (!all_bytes.has_value() || !TakeChar(text, ']')) return std::nullopt;
  return HeapValues{*objects, *bytes, *all_objects, *all_bytes};
}

// Truncates, as go tool pprof does.
int64_t WithoutFraction(double value) { return static_cast<int64_t>(std::clamp(value, -kMax, kMax)); }

class TextDecoder {
 public:
  TextDecoder(std::string_view bytes, std::string_view name) : rest_(bytes), name_(name) {}

  absl::StatusOr<Profile> Decode() {
    while (line_.empty() && NextLine()) {
    }
    is_java_ = line_.starts_with(kJavaHeap);
    const bool is_read = is_java_                       ? false
                         : line_.starts_with(kHeap)     ? ReadHeap()
                         : line_.starts_with(kJemalloc) ? ReadJemalloc()
                                                        : ReadContention();
    if (is_java_) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: a Java profile, which holdfast cannot read. Convert it with: go tool pprof -proto -output app.pb.gz {}",
          name_, name_));
    }
    if (!is_read) {
      return absl::DataLossError(fmt::format(
          "{}: damaged at line {} (a text profile of gperftools or jemalloc). Create it again.", name_, number_));
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

  // Whether the line is the heading of the mappings, which are the last part.
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
    profile_.mutable_process()->kind = "heap";
  }

  bool ReadHeap() {
    std::string_view text = line_.substr(kHeap.size());
    const auto total = TakeHeapValues(&text);
    if (!total.has_value() || !TakeChar(&text, '@')) return false;
    has_allocated_ = (total->all_objects != 0 && total->all_objects != total->objects) ||
                     (total->all_bytes != 0 && total->all_bytes != total->bytes);
    text = Trimmed(text);
    const size_t slash = std::min(text.find('/'), text.size());
    const std::string_view how = text.substr(0, slash);
    text.remove_prefix(std::min(slash + 1, text.size()));
    const uint64_t stated = TakeNumber(&text).value_or(1);
    // "heap" states twice the mean; "heapprofile" contains every block.
    const uint64_t interval = how.ends_with("v2") ? stated : how == "heap" ? stated / 2 : 1;
    DescribeHeap(std::max<uint64_t>(1, interval));
    is_sampled_ = interval > 1;
    while (NextLine() && !IsMaps()) {
      if (line_.empty() || line_.starts_with('#')) continue;
      text = line_;
      const auto values = TakeHeapValues(&text);
      if (!values.has_value() || !TakeChar(&text, '@')) return false;
      if (!AddHeapSample(text, *values)) return false;
    }
    return true;
  }

  // The line for all threads, t*, follows its stack. Lines for single threads are parts of it.
  bool ReadJemalloc() {
    std::string_view text = line_.substr(kJemalloc.size());
    const auto interval = TakeNumber(&text);
    if (!interval.has_value()) return false;
    DescribeHeap(std::max<uint64_t>(1, *interval));
    is_sampled_ = *interval > 1;
    std::optional<std::string_view> stack;
    while (NextLine() && !IsMaps()) {
      text = line_;
      if (TakeChar(&text, '@')) {
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
    profile_.mutable_process()->kind = line_.starts_with(kMutex) ? "mutex" : "block";
    double cycles_a_second = 0, period = 1;
    while (NextLine() && !IsMaps()) {
      if (line_.empty() || line_.starts_with('#')) continue;
      std::string_view text = line_;
      if (const size_t equals = line_.find('='); equals != std::string_view::npos) {
        const std::string_view key = Trimmed(line_.substr(0, equals));
        text.remove_prefix(equals + 1);
        const auto value = TakeNumber(&text);
        is_java_ = is_java_ || key == "format" || key == "resolution";
        if (key == "cycles/second" && value.value_or(0) > 0) cycles_a_second = static_cast<double>(*value);
        if (key == "sampling period" && value.value_or(0) > 0) period = static_cast<double>(*value);
        continue;
      }
      const auto cycles = TakeNumber(&text), count = TakeNumber(&text);
      std::vector<uint32_t> frames;
      if (!cycles.has_value() || !count.has_value() || !TakeChar(&text, '@') || !ReadStack(text, &frames)) return false;
      // A file without a clock has nanoseconds, for all waits.
      const double delay = cycles_a_second == 0 ? static_cast<double>(*cycles)
                                                : static_cast<double>(*cycles) * period / (cycles_a_second / 1e9);
      const std::array<int64_t, 2> values = {WithoutFraction(static_cast<double>(*count) * period),
                                             WithoutFraction(delay)};
      profile_.AddSample(frames, values, {});
    }
    profile_.period_type = profile_.sample_types.front();
    profile_.period = WithoutFraction(period);
    return true;
  }

  bool AddHeapSample(std::string_view stack, const HeapValues& read) {
    std::vector<uint32_t> frames;
    if (!ReadStack(stack, &frames)) return false;
    // Not every file counts allocations. Then what was allocated is at least what is in use.
    const auto [objects, bytes] = Scaled(read.objects, read.bytes);
    const auto [all_objects, all_bytes] = Scaled(read.all_objects, read.all_bytes);
    const std::array<int64_t, 4> values = {has_allocated_ ? all_objects : std::max(objects, all_objects),
                                           has_allocated_ ? all_bytes : std::max(bytes, all_bytes), objects, bytes};
    const int64_t size = read.objects != 0       ? read.bytes / read.objects
                         : read.all_objects != 0 ? read.all_bytes / read.all_objects
                                                 : 0;
    const Profile::Label label{
        .key = profile_.strings.Intern("bytes"), .number = size, .unit = profile_.strings.Intern("bytes")};
    profile_.AddSample(frames, values, {&label, 1});
    return true;
  }

  std::pair<int64_t, int64_t> Scaled(int64_t objects, int64_t bytes) const {
    if (!is_sampled_) return {objects, bytes};
    if (objects == 0 || bytes == 0) return {0, 0};
    const auto count = static_cast<double>(objects), size = static_cast<double>(bytes);
    const double scale = 1 / (1 - std::exp(-(size / count) / static_cast<double>(profile_.period)));
    return {WithoutFraction(count * scale), WithoutFraction(size * scale)};
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

  // Reads lines of /proc/self/maps, "00400000-00401000 r-xp 00000000 08:01 1234   /usr/bin/app", or shorter ones,
  // "00400000-00401000: $build/app (@1000) BUILD-ID". "build=/usr/bin" defines $build for the following lines.
  void PlaceLocations() {
    std::vector<std::pair<std::string, std::string>> names;
    while (NextLine()) {
      std::string line(line_);
      for (const auto& [name, value] : names) {
        for (size_t at = 0; (at = line.find(name, at)) != std::string::npos; at += value.size())
          line.replace(at, name.size(), value);
      }
      if (const auto mapping = MappingIn(line); mapping.has_value()) {
        if (mapping->limit > mapping->start) profile_.mappings.push_back(*mapping);
      } else if (const size_t equals = line.find('='); equals != std::string::npos) {
        names.emplace_back("$" + std::string(Trimmed(std::string_view(line).substr(0, equals))),
                           Trimmed(std::string_view(line).substr(equals + 1)));
      }
    }
    if (!profile_.mappings.empty()) {
      Profile::Mapping& main = profile_.mappings[0];
      if (main.offset != 0 && main.start - main.offset == kUsualStart) main.start = kUsualStart, main.offset = 0;
    }
    for (Profile::Location& location : profile_.locations) {
      const auto has_it = [&](const Profile::Mapping& mapping) {
        return location.address >= mapping.start && location.address < mapping.limit;
      };
      auto found = std::find_if(profile_.mappings.begin(), profile_.mappings.end(), has_it);
      if (found == profile_.mappings.end()) {
        // Some writers omit the first part of a file that is mapped in parts.
        found = std::find_if(profile_.mappings.begin(), profile_.mappings.end(), [&](const Profile::Mapping& mapping) {
          return mapping.offset != 0 && mapping.start - mapping.offset <= location.address &&
                 location.address < mapping.start;
        });
        if (found == profile_.mappings.end()) continue;
        found->start -= found->offset;
        found->offset = 0;
      }
      location.mapping = static_cast<uint32_t>(found - profile_.mappings.begin());
    }
  }

  // Returns nothing if the line is no mapping. A mapping that ends where it starts holds no code.
  std::optional<Profile::Mapping> MappingIn(std::string_view text) {
    Profile::Mapping mapping;
    const auto start = TakeNumber(&text, 16);
    if (!start.has_value() || !TakeChar(&text, '-')) return std::nullopt;
    const auto limit = TakeNumber(&text, 16);
    if (!limit.has_value()) return std::nullopt;
    TakeChar(&text, ':');
    const auto word = [&] {
      text = Trimmed(text);
      const std::string_view one = text.substr(0, text.find_first_of(kBlank));
      text.remove_prefix(one.size());
      return one;
    };
    std::string_view rest = text;
    if (const std::string_view rights = word(); rights.find_first_not_of("rwxps-") == std::string_view::npos) {
      if (!rights.empty() && rights.find('x') == std::string_view::npos) return mapping;
      rest = text;
    }
    mapping.start = *start;
    mapping.limit = *limit;
    text = rest;
    std::string_view name;
    auto offset = TakeNumber(&text, 16);
    if (offset.has_value() && word().find(':') != std::string_view::npos) {
      word();                // skips the inode
      name = Trimmed(text);  // a path may contain blanks
    } else {
      text = rest;
      name = word();
      text = Trimmed(text);
      offset = 0;
      if (text.starts_with("(@")) {
        text.remove_prefix(2);
        offset = TakeNumber(&text, 16);
        TakeChar(&text, ')');
      }
      mapping.build_id = profile_.strings.Intern(word());
    }
    mapping.offset = offset.value_or(0);
    mapping.file = profile_.strings.Intern(name);
    return mapping;
  }

  std::string_view rest_, line_;
  const std::string_view name_;
  size_t number_ = 0;
  bool is_sampled_ = false;     // values are estimates, scaled up from what was read
  bool has_allocated_ = false;  // the file states allocations separately from what is in use
  bool is_java_ = false;
  Profile profile_;
  absl::flat_hash_map<uint64_t, uint32_t> location_of_;
};

}  // namespace

bool IsTextProfile(std::string_view bytes) {
  const std::string_view text = bytes.substr(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
  return text.starts_with(kHeap) || text.starts_with(kJemalloc) || text.starts_with(kContention) ||
         text.starts_with(kMutex) || text.starts_with(kJavaHeap);
}

absl::StatusOr<Profile> DecodeTextProfile(std::string_view bytes, std::string_view name) {
  return TextDecoder(bytes, name).Decode();
}

}  // namespace holdfast
