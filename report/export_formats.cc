#include "report/export_formats.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/call_graph.h"
#include "report/flat_table.h"
#include "report/table.h"

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
  explicit Text(const TextSink& sink) : sink_(sink) { buffer_.reserve(2 * kPiece); }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  ~Text() {
    if (!buffer_.empty()) sink_(buffer_);
  }
  Text& operator<<(std::string_view piece) {
    buffer_.append(piece);
    if (buffer_.size() >= kPiece) Flush();
    return *this;
  }
  Text& operator<<(int64_t number) {
    const fmt::format_int digits(number);
    return *this << std::string_view(digits.data(), digits.size());
  }
  template <typename... Args>
  void Print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
    if (buffer_.size() >= kPiece) Flush();
  }

 private:
  static constexpr size_t kPiece = 1 << 20;
  void Flush() {
    sink_(buffer_);
    buffer_.clear();
  }
  const TextSink& sink_;
  std::string buffer_;
};

// The text of each node, made once.
std::vector<std::string> FrameTexts(const Stacks& stacks) {
  std::vector<std::string> texts;
  for (const FrameNode& node : stacks.nodes()) texts.push_back(FrameText(node.name));
  return texts;
}

void WritePath(std::span<const uint32_t> frames, const std::vector<std::string>& texts, Text* text) {
  for (size_t k = frames.size(); k-- > 0;) {
    *text << texts[frames[k]];
    if (k != 0) *text << ";";
  }
}

// Each path once, in the order of the profile.
void Folded(const Stacks& stacks, Text* text) {
  const auto hash_of = [&](uint32_t stack) {
    const auto frames = stacks.FramesOf(stack);
    return absl::HashOf(absl::MakeConstSpan(frames.data(), frames.size()));
  };
  const auto equal = [&](uint32_t a, uint32_t b) {
    return std::ranges::equal(stacks.FramesOf(a), stacks.FramesOf(b));
  };
  absl::flat_hash_map<uint32_t, int64_t, decltype(hash_of), decltype(equal)> sums(stacks.size(), hash_of, equal);
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < stacks.size(); ++i) {
    const auto [place, added] = sums.try_emplace(i, 0);
    if (added) order.push_back(i);
    place->second = WrappedSum(place->second, stacks.ValuesOf(i)[0]);
  }
  const std::vector<std::string> texts = FrameTexts(stacks);
  for (const uint32_t stack : order) {
    const int64_t sum = sums.find(stack)->second;
    if (sum == 0 || stacks.FramesOf(stack).empty()) continue;
    WritePath(stacks.FramesOf(stack), texts, text);
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
    numbers.push_back(fmt::format("{}", i));
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
      const auto frames = stacks.FramesOf(i);
      *text << "[";
      for (size_t k = frames.size(); k-- > 0;) {
        *text << numbers[frames[k]];
        if (k != 0) *text << ",";
      }
      *text << "]";
    });
    *text << "],\"weights\":[";
    each([&](size_t i) { *text << stacks.ValuesOf(i)[c]; });
    *text << "]}";
  }
  *text << "]}\n";
}

std::string Joined(std::span<const int64_t> values) { return fmt::format("{}", fmt::join(values, " ")); }

void Callgrind(const View& view, const Stacks& stacks, Text* text) {
  const Profile& profile = stacks.profile();
  const FlatTable flat(stacks);
  const std::vector<CallEdge> edges = CallEdges(stacks, std::vector<bool>(stacks.nodes().size(), true));
  std::vector<std::vector<const CallEdge*>> out_of(stacks.nodes().size());
  for (const CallEdge& edge : edges) out_of[edge.caller].push_back(&edge);
  *text << "# callgrind format\nversion: 1\ncreator: holdfast\n";
  text->Print("cmd: {}\npositions: line\nevents:", FrameText(view.program));
  for (const auto& type : profile.sample_types) text->Print(" {}", FrameText(profile.strings[type.type]));
  std::vector<int64_t> totals;
  for (size_t c = 0; c < stacks.columns(); ++c) totals.push_back(stacks.Selected(c));
  text->Print("\nsummary: {}\n", Joined(totals));
  const auto object_of = [&](const FrameNode& node) {
    return FrameText(node.objects.empty() ? std::string_view("???") : profile.strings[node.objects[0]]);
  };
  const auto file_of = [&](const FrameNode& node) {
    return FrameText(node.file == 0 ? std::string_view("???") : profile.strings[node.file]);
  };
  std::vector<int64_t> self(stacks.columns());
  for (uint32_t i = 0; i < stacks.nodes().size(); ++i) {
    const FrameNode& node = stacks.nodes()[i];
    for (size_t c = 0; c < self.size(); ++c) self[c] = flat.Self(i, c);
    if (out_of[i].empty() && std::all_of(self.begin(), self.end(), [](int64_t value) { return value == 0; })) continue;
    text->Print("\nob={}\nfl={}\nfn={}\n{} {}\n", object_of(node), file_of(node), FrameText(node.name),
                        node.line, Joined(self));
    for (const CallEdge* edge : out_of[i]) {
      const FrameNode& callee = stacks.nodes()[edge->callee];
      text->Print("cob={}\ncfi={}\ncfn={}\ncalls=1 {}\n{} {}\n", object_of(callee), file_of(callee),
                          FrameText(callee.name), callee.line, node.line, Joined(edge->values));
    }
  }
  text->Print("\ntotals: {}\n", Joined(totals));
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
    const std::string field = CsvField(name);
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
    WritePath(frames, texts, text);
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
