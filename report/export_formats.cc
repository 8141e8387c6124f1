#include "report/export_formats.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "absl/container/flat_hash_map.h"
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

std::string PathOf(const Stacks& stacks, size_t stack) {
  std::string path;
  const auto frames = stacks.FramesOf(stack);
  for (size_t k = frames.size(); k-- > 0;) {
    if (!path.empty()) path += ';';
    path += FrameText(stacks.nodes()[frames[k]].name);
  }
  return path;
}

std::string Folded(const Stacks& stacks) {
  std::map<std::string, int64_t> sums;
  for (size_t i = 0; i < stacks.size(); ++i) {
    int64_t& sum = sums[PathOf(stacks, i)];
    sum = WrappedSum(sum, stacks.ValuesOf(i)[0]);
  }
  std::string text;
  for (const auto& [path, sum] : sums) {
    if (sum != 0 && !path.empty()) text += fmt::format("{} {}\n", path, sum);
  }
  return text;
}

std::string Speedscope(const View& view, const Stacks& stacks) {
  const Profile& profile = stacks.profile();
  std::string text = "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"holdfast\",";
  text += fmt::format("\"name\":{},\"activeProfileIndex\":{},\"shared\":{{\"frames\":[", JsonString(view.program),
                      view.metric);
  for (size_t i = 0; i < stacks.nodes().size(); ++i) {
    const FrameNode& node = stacks.nodes()[i];
    text += fmt::format("{}{{\"name\":{}", i == 0 ? "" : ",", JsonString(node.name));
    if (node.file != 0) text += fmt::format(",\"file\":{}", JsonString(profile.strings[node.file]));
    if (node.line > 0) text += fmt::format(",\"line\":{}", node.line);
    text += '}';
  }
  text += "]},\"profiles\":[";
  for (size_t c = 0; c < stacks.columns(); ++c) {
    const std::string_view unit = profile.strings[profile.sample_types[c].unit];
    const bool known = unit == "bytes" || unit == "nanoseconds" || unit == "microseconds" || unit == "milliseconds" ||
                       unit == "seconds";
    std::string samples, weights;
    int64_t total = 0;
    for (size_t i = 0; i < stacks.size(); ++i) {
      const int64_t value = stacks.ValuesOf(i)[c];
      if (value == 0) continue;
      total = WrappedSum(total, value);
      samples += samples.empty() ? "[" : ",[";
      const auto frames = stacks.FramesOf(i);
      for (size_t k = frames.size(); k-- > 0;) samples += fmt::format("{}{}", frames[k], k == 0 ? "" : ",");
      samples += ']';
      weights += fmt::format("{}{}", weights.empty() ? "" : ",", value);
    }
    text += fmt::format(
        "{}{{\"type\":\"sampled\",\"name\":{},\"unit\":\"{}\",\"startValue\":0,\"endValue\":{},\"samples\":[{}],"
        "\"weights\":[{}]}}",
        c == 0 ? "" : ",", JsonString(profile.strings[profile.sample_types[c].type]), known ? unit : "none", total,
        samples, weights);
  }
  return text + "]}\n";
}

std::string Joined(std::span<const int64_t> values) { return fmt::format("{}", fmt::join(values, " ")); }

std::string Callgrind(const View& view, const Stacks& stacks) {
  const Profile& profile = stacks.profile();
  const FlatTable flat(stacks);
  const std::vector<CallEdge> edges = CallEdges(stacks, std::vector<bool>(stacks.nodes().size(), true));
  std::vector<std::vector<const CallEdge*>> out_of(stacks.nodes().size());
  for (const CallEdge& edge : edges) out_of[edge.caller].push_back(&edge);
  std::string text = "# callgrind format\nversion: 1\ncreator: holdfast\n";
  text += fmt::format("cmd: {}\npositions: line\nevents:", FrameText(view.program));
  for (const auto& type : profile.sample_types) text += fmt::format(" {}", FrameText(profile.strings[type.type]));
  std::vector<int64_t> totals;
  for (size_t c = 0; c < stacks.columns(); ++c) totals.push_back(stacks.Selected(c));
  text += fmt::format("\nsummary: {}\n", Joined(totals));
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
    text += fmt::format("\nob={}\nfl={}\nfn={}\n{} {}\n", object_of(node), file_of(node), FrameText(node.name),
                        node.line, Joined(self));
    for (const CallEdge* edge : out_of[i]) {
      const FrameNode& callee = stacks.nodes()[edge->callee];
      text += fmt::format("cob={}\ncfi={}\ncfn={}\ncalls=1 {}\n{} {}\n", object_of(callee), file_of(callee),
                          FrameText(callee.name), callee.line, node.line, Joined(edge->values));
    }
  }
  return text + fmt::format("\ntotals: {}\n", Joined(totals));
}

std::string Csv(const Stacks& stacks) {
  const Profile& profile = stacks.profile();
  std::vector<StringId> keys;
  for (size_t i = 0; i < stacks.size(); ++i) {
    for (const Profile::Label& label : profile.LabelsOf(profile.samples[stacks.SampleOf(i)])) {
      if (std::find(keys.begin(), keys.end(), label.key) == keys.end()) keys.push_back(label.key);
    }
  }
  std::string text;
  for (const auto& type : profile.sample_types) text += CsvField(profile.strings[type.type]) + ",";
  for (const StringId key : keys) text += CsvField(fmt::format("label:{}", profile.strings[key])) + ",";
  text += "stack\n";
  for (size_t i = 0; i < stacks.size(); ++i) {
    for (const int64_t value : stacks.ValuesOf(i)) text += fmt::format("{},", value);
    for (const StringId key : keys) {
      std::string shown;
      for (const Profile::Label& label : profile.LabelsOf(profile.samples[stacks.SampleOf(i)])) {
        if (label.key != key) continue;
        if (!shown.empty()) shown += ' ';
        shown += label.text != 0 ? std::string(profile.strings[label.text]) : fmt::format("{}", label.number);
      }
      text += CsvField(shown) + ",";
    }
    text += CsvField(PathOf(stacks, i)) + "\n";
  }
  return text;
}

absl::StatusOr<std::string> HeapText(const Stacks& stacks) {
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
    return fmt::format("{:6}: {:8} [{:6}: {:8}] @", value_of(columns[0]), value_of(columns[1]), value_of(columns[2]),
                       value_of(columns[3]));
  };
  // "heapprofile": numbers that are not to be scaled by any reader.
  std::string text = "heap profile: " + line([&](size_t c) { return stacks.Selected(c); }) + " heapprofile\n";
  for (size_t i = 0; i < stacks.size(); ++i) {
    text += line([&](size_t c) { return stacks.ValuesOf(i)[c]; });
    for (const uint32_t frame : profile.FramesOf(profile.samples[stacks.SampleOf(i)])) {
      text += fmt::format(" 0x{:x}", profile.locations[frame].address + 1);  // return addresses, as its readers expect
    }
    text += '\n';
  }
  text += "\nMAPPED_LIBRARIES:\n";
  for (const Profile::Mapping& mapping : profile.mappings) {
    text += fmt::format("{:08x}-{:08x} r-xp {:08x} 00:00 0          {}\n", mapping.start, mapping.limit, mapping.offset,
                        FrameText(profile.strings[mapping.file]));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> ExportText(std::string_view format, const View& view, const ViewOptions& options) {
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
  if (format == "folded") return Folded(*stacks);
  if (format == "speedscope") return Speedscope(view, *stacks);
  if (format == "callgrind") return Callgrind(view, *stacks);
  if (format == "csv") return Csv(*stacks);
  return HeapText(*stacks);
}

}  // namespace holdfast
