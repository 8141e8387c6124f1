#include "report/views/export_formats.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/flat_table.h"
#include "report/base/huge_pages.h"
#include "report/views/text_table.h"

namespace holdfast {
namespace {

// One line of text, without the character that separates frames.
std::string FrameText(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    if (c == ';') c = ':';
  }
  return text.empty() ? "?" : text;
}

// What is written is longer than what it is made of: 1,000,000 stacks are 1 GB of text. It goes out piece by piece.
class Text {
 public:
  explicit Text(const TextSink& sink) : sink_(sink), buffer_(kPiece, '\0') {}
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  ~Text() { Flush(); }
  Text& operator<<(std::string_view piece) {
    if (piece.size() > buffer_.size() - size_) [[unlikely]] {
      Flush();
      if (piece.size() > buffer_.size()) return sink_(piece), *this;
    }
    std::memcpy(buffer_.data() + size_, piece.data(), piece.size());
    size_ += piece.size();
    return *this;
  }
  Text& operator<<(int64_t number) {
    const fmt::format_int digits(number);
    return *this << std::string_view(digits.data(), digits.size());
  }
  template <typename... Args>
  void Print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::memory_buffer made;
    fmt::format_to(std::back_inserter(made), format, std::forward<Args>(args)...);
    *this << std::string_view(made.data(), made.size());
  }

 private:
  static constexpr size_t kPiece = 1 << 20;
  void Flush() {
    if (size_ > 0) sink_(std::string_view(buffer_).substr(0, size_));
    size_ = 0;
  }
  const TextSink& sink_;
  std::string buffer_;
  size_t size_ = 0;
};

// ";name" of each node, made once.
std::vector<std::string> FrameTexts(const Stacks& stacks) {
  std::vector<std::string> texts;
  for (const FrameNode& node : stacks.nodes()) texts.push_back(";" + FrameText(node.name));
  return texts;
}

// From the root, each with the character that separates it from the one before.
void WriteFrames(std::span<const uint32_t> frames, const std::vector<std::string>& texts, Text* text) {
  if (frames.empty()) return;
  *text << std::string_view(texts[frames.back()]).substr(1);
  for (size_t k = frames.size() - 1; k-- > 0;) *text << texts[frames[k]];
}

// Each path once, in the order of the profile.
void Folded(const Stacks& stacks, Text* text) {
  const auto hash_of = [&](uint32_t stack) {
    const auto frames = stacks.FramesOf(stack);
    return absl::HashOf(absl::MakeConstSpan(frames.data(), frames.size()));
  };
  const auto equal = [&](uint32_t a, uint32_t b) { return std::ranges::equal(stacks.FramesOf(a), stacks.FramesOf(b)); };
  absl::flat_hash_map<uint32_t, uint32_t, decltype(hash_of), decltype(equal)> numbers(0, hash_of, equal);
  numbers.reserve(stacks.size());
  std::vector<std::pair<uint32_t, int64_t>> sums;  // the first stack with that path, and the sum of all
  for (uint32_t i = 0; i < stacks.size(); ++i) {
    const auto [place, added] = numbers.try_emplace(i, static_cast<uint32_t>(sums.size()));
    if (added) sums.emplace_back(i, 0);
    int64_t& sum = sums[place->second].second;
    sum = WrappedSum(sum, stacks.ValuesOf(i)[0]);
  }
  const std::vector<std::string> texts = FrameTexts(stacks);
  for (const auto& [stack, sum] : sums) {
    if (sum == 0 || stacks.FramesOf(stack).empty()) continue;
    WriteFrames(stacks.FramesOf(stack), texts, text);
    *text << " " << sum << "\n";
  }
}

void Speedscope(const View& view, const Stacks& stacks, Text* text) {
  const Profile& profile = stacks.profile();
  text->Print("{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"holdfast\",");
  text->Print("\"name\":{},\"activeProfileIndex\":{},\"shared\":{{\"frames\":[", JsonString(view.program), view.metric);
  std::vector<std::string> numbers;
  for (size_t i = 0; i < stacks.nodes().size(); ++i) {
    const FrameNode& node = stacks.nodes()[i];
    text->Print("{}{{\"name\":{}", i == 0 ? "" : ",", JsonString(node.name));
    if (node.file != 0) text->Print(",\"file\":{}", JsonString(profile.strings[node.file]));
    if (node.line > 0) text->Print(",\"line\":{}", node.line);
    *text << "}";
    numbers.push_back(fmt::format(",{}", i));
  }
  *text << "]},\"profiles\":[";
  for (size_t c = 0; c < stacks.columns(); ++c) {
    const std::string_view unit = profile.strings[profile.sample_types[c].unit];
    const bool known = unit == "bytes" || unit == "nanoseconds" || unit == "microseconds" || unit == "milliseconds" ||
                       unit == "seconds";
    int64_t total = 0;
    for (size_t i = 0; i < stacks.size(); ++i) total = WrappedSum(total, stacks.ValuesOf(i)[c]);
    text->Print("{}{{\"type\":\"sampled\",\"name\":{},\"unit\":\"{}\",\"startValue\":0,\"endValue\":{},\"samples\":[",
                c == 0 ? "" : ",", JsonString(profile.strings[profile.sample_types[c].type]), known ? unit : "none",
                total);
    const auto each = [&](auto write) {
      bool first = true;
      for (size_t i = 0; i < stacks.size(); ++i) {
        if (stacks.ValuesOf(i)[c] == 0) continue;
        if (!std::exchange(first, false)) *text << ",";
        write(i);
      }
    };
    each([&](size_t i) {
      *text << "[";
      WriteFrames(stacks.FramesOf(i), numbers, text);
      *text << "]";
    });
    *text << "],\"weights\":[";
    each([&](size_t i) { *text << stacks.ValuesOf(i)[c]; });
    *text << "]}";
  }
  *text << "]}\n";
}

// Who calls whom, one caller after the other. A hash map of all edges would be larger than the profile: stacks of
// unlike paths have as many edges as frames. Entries (callee, stack) are sorted by caller instead, by counting.
class EdgesByCaller {
 public:
  explicit EdgesByCaller(const Stacks& stacks) : stacks_(stacks), first_(stacks.nodes().size() + 1) {
    Each([&](uint32_t caller, uint32_t, uint32_t) { ++first_[caller + 1]; });
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    ReserveHuge(&entries_, first_.back());
    entries_.resize(first_.back());
    std::vector<size_t> next(first_.begin(), first_.end() - 1);
    Each([&](uint32_t caller, uint32_t callee, uint32_t stack) { entries_[next[caller]++] = {callee, stack}; });
    slots_.resize(stacks.nodes().size(), Profile::kNone);
  }

  struct Edge {
    uint32_t callee, latest;  // and the last stack that counted
  };
  // visit(callee, values) for each callee of `caller`.
  template <typename Visit>
  void CalleesOf(uint32_t caller, Visit visit) {
    const size_t columns = stacks_.columns();
    edges_.clear();
    values_.clear();
    const size_t end = first_[caller + 1];
    for (size_t i = first_[caller]; i < end; ++i) {
      // Values of stacks from all over the profile: one by one, waiting for memory would be half of an export's time.
      if (i + kAhead < end) __builtin_prefetch(stacks_.ValuesOf(entries_[i + kAhead].second).data());
      const auto [callee, stack] = entries_[i];
      uint32_t& slot = slots_[callee];
      if (slot == Profile::kNone) {
        slot = static_cast<uint32_t>(edges_.size());
        edges_.push_back({callee, Profile::kNone});
        values_.resize(values_.size() + columns);
      }
      if (std::exchange(edges_[slot].latest, stack) == stack) continue;  // counts a stack once
      const auto values = stacks_.ValuesOf(stack);
      int64_t* sums = values_.data() + slot * columns;
      for (size_t c = 0; c < columns; ++c) sums[c] = WrappedSum(sums[c], values[c]);
    }
    for (size_t i = 0; i < edges_.size(); ++i) {
      slots_[edges_[i].callee] = Profile::kNone;
      visit(edges_[i].callee, std::span<const int64_t>(values_).subspan(i * columns, columns));
    }
  }

 private:
  template <typename Visit>
  void Each(Visit visit) const {
    for (uint32_t i = 0; i < stacks_.size(); ++i) {
      const auto frames = stacks_.FramesOf(i);
      for (size_t k = frames.size(); k-- > 1;) {
        if (frames[k] != frames[k - 1]) visit(frames[k], frames[k - 1], i);
      }
    }
  }

  static constexpr size_t kAhead = 16;

  const Stacks& stacks_;
  std::vector<size_t> first_;  // of each caller
  std::vector<std::pair<uint32_t, uint32_t>> entries_;
  std::vector<Edge> edges_;
  std::vector<int64_t> values_;
  std::vector<uint32_t> slots_;
};

// Names of one kind (files, functions …) in callgrind's short form: "(7) main" the first time, "(7)" from then on.
class ShortNames {
 public:
  std::string Of(uint32_t id, std::string_view name) {
    if (id >= known_.size()) known_.resize(id + 1);
    if (known_[id]) return fmt::format("({})", id + 1);
    known_[id] = true;
    return fmt::format("({}) {}", id + 1, FrameText(name));
  }

 private:
  std::vector<bool> known_;
};

// What callgrind says of a function that calls, and of one that is called. The latter is the same text again and again
// from its second time on, and is made once.
class CallLines {
 public:
  explicit CallLines(const Stacks& stacks) : stacks_(stacks), callees_(stacks.nodes().size()) {}

  std::string Caller(uint32_t node) { return Names("\nob={}\nfl={}\nfn={}\n", node); }
  std::string_view Callee(uint32_t node) {
    std::string& known = callees_[node];
    if (!known.empty()) return known;
    const auto made = [&] {
      return Names("cob={}\ncfi={}\ncfn={}\n", node) + fmt::format("calls=1 {}\n", stacks_.nodes()[node].line);
    };
    first_ = made();
    known = made();
    return first_;
  }

 private:
  std::string Names(fmt::format_string<std::string, std::string, std::string> format, uint32_t index) {
    const FrameNode& node = stacks_.nodes()[index];
    const auto text = [&](StringId id) { return id == 0 ? "???" : stacks_.profile().strings[id]; };
    const StringId object = node.objects.empty() ? 0 : node.objects[0];
    return fmt::format(format, objects_.Of(object, text(object)), files_.Of(node.file, text(node.file)),
                       functions_.Of(index, node.name));
  }

  const Stacks& stacks_;
  ShortNames objects_, files_, functions_;
  std::vector<std::string> callees_;
  std::string first_;
};

void Callgrind(const View& view, const Stacks& stacks, Text* text) {
  const Profile& profile = stacks.profile();
  const FlatTable flat(stacks);
  EdgesByCaller edges(stacks);
  *text << "# callgrind format\nversion: 1\ncreator: holdfast\n";
  text->Print("cmd: {}\npositions: line\nevents:", FrameText(view.program));
  for (const auto& type : profile.sample_types) text->Print(" {}", FrameText(profile.strings[type.type]));
  *text << "\nsummary:";
  const auto numbers = [&](auto value_of) {
    for (size_t c = 0; c < stacks.columns(); ++c) *text << " " << value_of(c);
    *text << "\n";
  };
  const auto totals = [&](size_t c) { return stacks.Selected(c); };
  numbers(totals);
  CallLines calls(stacks);
  for (uint32_t i = 0; i < stacks.nodes().size(); ++i) {
    const std::string line = fmt::format("{}", stacks.nodes()[i].line);
    bool begun = false;
    const auto begin = [&] {
      if (std::exchange(begun, true)) return;
      *text << calls.Caller(i) << line;
      numbers([&](size_t c) { return flat.Self(i, c); });
    };
    for (size_t c = 0; c < stacks.columns(); ++c) {
      if (flat.Self(i, c) != 0) begin();
    }
    edges.CalleesOf(i, [&](uint32_t callee, std::span<const int64_t> values) {
      begin();
      *text << calls.Callee(callee) << line;
      numbers([&](size_t c) { return values[c]; });
    });
  }
  *text << "\ntotals:";
  numbers(totals);
}

void Csv(const Stacks& stacks, Text* text) {
  const Profile& profile = stacks.profile();
  std::vector<StringId> keys;
  for (size_t i = 0; i < stacks.size(); ++i) {
    for (const Profile::Label& label : profile.LabelsOf(profile.samples[stacks.SampleOf(i)])) {
      if (std::find(keys.begin(), keys.end(), label.key) == keys.end()) keys.push_back(label.key);
    }
  }
  for (const auto& type : profile.sample_types) *text << CsvField(profile.strings[type.type]) << ",";
  for (const StringId key : keys) *text << CsvField(fmt::format("label:{}", profile.strings[key])) << ",";
  *text << "stack\n";
  // A path is quoted when one of its names has to be; quotes in names are doubled then.
  std::vector<std::string> texts = FrameTexts(stacks);
  std::vector<bool> quoted;
  for (std::string& name : texts) {
    const std::string field = CsvField(name);  // ";" alone needs no quotes
    quoted.push_back(field != name);
    if (field != name) name = field.substr(1, field.size() - 2);
  }
  for (size_t i = 0; i < stacks.size(); ++i) {
    for (const int64_t value : stacks.ValuesOf(i)) *text << value << ",";
    for (const StringId key : keys) {
      std::string shown;
      for (const Profile::Label& label : profile.LabelsOf(profile.samples[stacks.SampleOf(i)])) {
        if (label.key != key) continue;
        if (!shown.empty()) shown += ' ';
        shown += label.text != 0 ? std::string(profile.strings[label.text]) : fmt::format_int(label.number).str();
      }
      *text << CsvField(shown) << ",";
    }
    const auto frames = stacks.FramesOf(i);
    const bool quote = std::any_of(frames.begin(), frames.end(), [&](uint32_t node) { return quoted[node]; });
    if (quote) *text << "\"";
    WriteFrames(frames, texts, text);
    *text << (quote ? "\"\n" : "\n");
  }
}

absl::Status HeapText(const Stacks& stacks, Text* text) {
  const Profile& profile = stacks.profile();
  std::vector<size_t> columns;
  for (const std::string_view wanted : {"inuse_objects", "inuse_space", "alloc_objects", "alloc_space"}) {
    for (size_t i = 0; i < profile.sample_types.size(); ++i) {
      if (profile.strings[profile.sample_types[i].type] == wanted) columns.push_back(i);
    }
  }
  if (columns.size() != 4) {
    return absl::InvalidArgumentError(
        "export heap: takes a heap profile (alloc and inuse, objects and space). Give one, or take another format.");
  }
  const auto line = [&](auto value_of) {
    text->Print("{:6}: {:8} [{:6}: {:8}] @", value_of(columns[0]), value_of(columns[1]), value_of(columns[2]),
                value_of(columns[3]));
  };
  // "heapprofile": numbers that are not to be scaled by any reader.
  *text << "heap profile: ";
  line([&](size_t c) { return stacks.Selected(c); });
  *text << " heapprofile\n";
  std::vector<std::string> addresses;
  for (const Profile::Location& location : profile.locations) {
    addresses.push_back(fmt::format(" 0x{:x}", location.address + 1));  // return addresses, as its readers expect
  }
  for (size_t i = 0; i < stacks.size(); ++i) {
    line([&](size_t c) { return stacks.ValuesOf(i)[c]; });
    for (const uint32_t frame : profile.FramesOf(profile.samples[stacks.SampleOf(i)])) *text << addresses[frame];
    *text << "\n";
  }
  *text << "\nMAPPED_LIBRARIES:\n";
  for (const Profile::Mapping& mapping : profile.mappings) {
    text->Print("{:08x}-{:08x} r-xp {:08x} 00:00 0          {}\n", mapping.start, mapping.limit, mapping.offset,
                FrameText(profile.strings[mapping.file]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ExportTo(std::string_view format, const View& view, const ViewOptions& options, const TextSink& sink) {
  if (std::find(std::begin(kExportFormats), std::end(kExportFormats), format) == std::end(kExportFormats)) {
    return absl::InvalidArgumentError(
        fmt::format("--to {}: no such format. Take {}.", format, fmt::join(kExportFormats, ", ")));
  }
  std::vector<size_t> columns = {view.metric};
  if (format != "folded") {
    columns.resize(view.profile->sample_types.size());
    std::iota(columns.begin(), columns.end(), 0);
  }
  const auto stacks = StacksOf(view, options, std::move(columns));
  if (!stacks.ok()) return stacks.status();
  Text text(sink);
  if (format == "heap") return HeapText(*stacks, &text);
  if (format == "folded") Folded(*stacks, &text);
  if (format == "speedscope") Speedscope(view, *stacks, &text);
  if (format == "callgrind") Callgrind(view, *stacks, &text);
  if (format == "csv") Csv(*stacks, &text);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ExportText(std::string_view format, const View& view, const ViewOptions& options) {
  std::string text;
  const auto made = ExportTo(format, view, options, [&](std::string_view piece) { text += piece; });
  if (!made.ok()) return made;
  return text;
}

}  // namespace holdfast
