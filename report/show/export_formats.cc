#include "report/show/export_formats.h"

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
#include "report/show/callgrind.h"
#include "report/show/text_table.h"

namespace holdfast {
namespace {

// Returns ";name" for each node, built once.
std::vector<std::string> FrameTexts(const FilteredStacks& stacks) {
  std::vector<std::string> texts;
  for (const FrameNode& node : stacks.nodes()) texts.push_back(";" + FrameText(node.name));
  return texts;
}

// Writes the frames from the root, each with the character that separates it from the previous one.
void WriteFrames(std::span<const uint32_t> frames, const std::vector<std::string>& texts, TextWriter* text) {
  if (frames.empty()) return;
  *text << std::string_view(texts[frames.back()]).substr(1);
  for (size_t k = frames.size() - 1; k-- > 0;) *text << texts[frames[k]];
}

// Writes each path once, in the order of the profile.
void Folded(const FilteredStacks& stacks, TextWriter* text) {
  const auto hash_of = [&](uint32_t stack) {
    const auto frames = stacks.FramesOf(stack);
    return absl::HashOf(absl::MakeConstSpan(frames.data(), frames.size()));
  };
  const auto equal = [&](uint32_t a, uint32_t b) { return std::ranges::equal(stacks.FramesOf(a), stacks.FramesOf(b)); };
  absl::flat_hash_map<uint32_t, uint32_t, decltype(hash_of), decltype(equal)> numbers(0, hash_of, equal);
  numbers.reserve(stacks.size());
  std::vector<std::pair<uint32_t, int64_t>> sums;  // the first stack with the path, and the sum over all of them
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

void Speedscope(const View& view, const FilteredStacks& stacks, TextWriter* text) {
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

void Csv(const FilteredStacks& stacks, TextWriter* text) {
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
  // A path is quoted if one of its names must be quoted; then quotes in names are doubled.
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

absl::Status HeapText(const FilteredStacks& stacks, TextWriter* text) {
  const Profile& profile = stacks.profile();
  std::vector<size_t> columns;
  for (const std::string_view wanted : {"inuse_objects", "inuse_space", "alloc_objects", "alloc_space"}) {
    for (size_t i = 0; i < profile.sample_types.size(); ++i) {
      if (profile.strings[profile.sample_types[i].type] == wanted) columns.push_back(i);
    }
  }
  if (columns.size() != 4) {
    return absl::InvalidArgumentError(
        "export heap: needs a heap profile (alloc and inuse, objects and space). Give one, or use another format.");
  }
  const auto line = [&](auto value_of) {
    text->Print("{:6}: {:8} [{:6}: {:8}] @", value_of(columns[0]), value_of(columns[1]), value_of(columns[2]),
                value_of(columns[3]));
  };
  // "heapprofile": no reader scales the numbers.
  *text << "heap profile: ";
  line([&](size_t c) { return stacks.Selected(c); });
  *text << " heapprofile\n";
  std::vector<std::string> addresses;
  for (const Profile::Location& location : profile.locations) {
    addresses.push_back(fmt::format(" 0x{:x}", location.address + 1));  // return addresses, as readers expect
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
        fmt::format("--to {}: no such format. Use {}.", format, fmt::join(kExportFormats, ", ")));
  }
  std::vector<size_t> columns = {view.metric};
  if (format != "folded") {
    columns.resize(view.profile->sample_types.size());
    std::iota(columns.begin(), columns.end(), 0);
  }
  const auto stacks = StacksOf(view, options, std::move(columns));
  if (!stacks.ok()) return stacks.status();
  TextWriter text(sink);
  if (format == "heap") return HeapText(*stacks, &text);
  if (format == "folded") Folded(*stacks, &text);
  if (format == "speedscope") Speedscope(view, *stacks, &text);
  if (format == "callgrind") WriteCallgrind(view, *stacks, &text);
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
