#include "report/html_data.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "fmt/format.h"
#include "report/json_text.h"
#include "report/lock_list.h"
#include "report/metric.h"

namespace holdfast {
namespace {

constexpr uint32_t kRoot = 0;
constexpr uint32_t kNoFrame = 0xffffffff;

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) *out += static_cast<char>(value | 0x80);
  *out += static_cast<char>(value);
}

uint64_t Zigzag(uint64_t value) { return (value << 1) ^ (value >> 63 != 0 ? ~uint64_t{0} : 0); }

// Differences wrap: any two int64 values have one.
uint64_t Difference(int64_t a, int64_t b) { return static_cast<uint64_t>(a) - static_cast<uint64_t>(b); }

uint64_t Utf16Length(std::string_view valid_utf8) {
  uint64_t length = 0;
  for (const unsigned char c : valid_utf8) length += (c & 0xc0) == 0x80 ? 0 : c >= 0xf0 ? 2 : 1;
  return length;
}

std::string BaseName(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

int64_t At(const std::vector<int64_t>& column, size_t row) { return row < column.size() ? column[row] : 0; }

}  // namespace

HtmlData::HtmlData() {
  parents_.push_back(kRoot);
  node_frames_.push_back(kNoFrame);
}

uint32_t HtmlData::FunctionOf(std::string_view name, std::string_view file, int64_t start_line) {
  const auto [place, added] = function_of_.emplace(RepairUtf8(name), functions_.size());
  if (added) functions_.push_back({.name = place->first, .file = ""});
  Function& function = functions_[place->second];
  if (function.file.empty() && !file.empty()) {
    function.file = RepairUtf8(file);
    function.start_line = start_line;
  }
  return place->second;
}

uint32_t HtmlData::FrameOf(const Frame& frame) {
  const auto [place, added] = frame_of_.emplace(frame.Key(), frames_.size());
  if (added) frames_.push_back(frame);
  return place->second;
}

uint32_t HtmlData::ObjectOf(std::string_view path, std::string_view build_id) {
  if (path.empty()) return 0;
  const auto [place, added] =
      object_of_.emplace(std::pair(std::string(path), std::string(build_id)), objects_.size() + 1);
  if (added) objects_.push_back(place->first);
  return place->second;
}

uint32_t HtmlData::NodeOf(uint32_t parent, uint32_t frame) {
  const auto [place, added] = node_of_.emplace(uint64_t{parent} << 32 | frame, parents_.size());
  if (added) {
    parents_.push_back(parent);
    node_frames_.push_back(frame);
  }
  return place->second;
}

uint32_t HtmlData::LabelSetOf(const Profile& profile, const Profile::Sample& sample) {
  JsonText json;
  json.Open('[');
  for (const Profile::Label& label : profile.LabelsOf(sample)) {
    json.Open('[').String(profile.strings[label.key]);
    if (label.text != 0) {
      json.String(profile.strings[label.text]);
    } else {
      json.Number(label.number).String(profile.strings[label.unit]);
    }
    json.Close(']');
  }
  json.Close(']');
  const auto [place, added] = label_set_of_.emplace(json.text(), label_sets_.size());
  if (added) label_sets_.push_back(place->first);
  return place->second;
}

HtmlData::Series* HtmlData::SeriesOf(const std::string& file, bool is_base, const Profile& profile) {
  const std::string kind = KindOf(profile);
  std::string types;
  for (const auto& type : profile.sample_types) {
    types += fmt::format("{}/{} ", profile.strings[type.type], profile.strings[type.unit]);
  }
  std::string process(profile.CommentValue("process"));
  if (process.empty() || profile.duration_nanos != 0) process = "file " + file;
  for (Series& series : series_) {
    if (std::tie(series.is_base, series.kind, series.types, series.process) ==
        std::tie(is_base, kind, types, process)) {
      return &series;
    }
  }
  Series& series = series_.emplace_back();
  series.is_base = is_base;
  series.kind = kind;
  series.types = types;
  series.process = process;
  for (const auto& type : profile.sample_types) {
    series.metrics.emplace_back(profile.strings[type.type], profile.strings[type.unit]);
  }
  series.default_metric = DefaultMetric(profile);
  return &series;
}

bool HtmlData::Add(const std::string& file, bool is_base, const Profile& profile) {
  Series* series = SeriesOf(file, is_base, profile);
  for (const Snapshot& snapshot : series->snapshots) {
    if (snapshot.time_nanos == profile.time_nanos) return false;
  }
  Snapshot& snapshot = series->snapshots.emplace_back();
  snapshot.file = file;
  snapshot.time_nanos = profile.time_nanos;
  for (size_t m = 0; m < series->metrics.size(); ++m) snapshot.half_widths.push_back(HalfWidth(profile, m));
  snapshot.columns.resize(series->metrics.size());
  const bool is_newest = profile.time_nanos > series->newest_nanos || series->snapshots.size() == 1;
  if (is_newest) {
    series->newest_nanos = profile.time_nanos;
    series->sampling = SamplingOf(profile);
    series->losses = LossesOf(profile);
    series->period = profile.period;
    series->program = profile.CommentValue("program");
    if (series->program.empty() && !profile.mappings.empty()) {
      series->program = BaseName(profile.strings[profile.mappings[0].file]);
    }
    series->pid = profile.CommentValue("pid");
    series->comments.clear();
    for (const StringId comment : profile.comments) series->comments.emplace_back(profile.strings[comment]);
  }

  // Frames of each location, outermost first.
  std::vector<std::vector<uint32_t>> frames(profile.locations.size());
  for (size_t i = 0; i < profile.locations.size(); ++i) {
    const Profile::Location& location = profile.locations[i];
    uint32_t object = 0;
    std::string_view path;
    if (location.mapping != Profile::kNone) {
      const Profile::Mapping& mapping = profile.mappings[location.mapping];
      path = profile.strings[mapping.file];
      object = ObjectOf(path, profile.strings[mapping.build_id]);
    }
    const std::string unnamed = path.empty() ? "<unknown>" : fmt::format("[{}]", BaseName(path));
    const auto lines = profile.LinesOf(location);
    for (size_t k = lines.size(); k-- > 0;) {
      const Profile::Function& function = profile.functions[lines[k].function];
      const std::string_view name = profile.strings[function.name];
      frames[i].push_back(FrameOf({.function = FunctionOf(name.empty() ? std::string_view(unnamed) : name,
                                                          profile.strings[function.filename], function.start_line),
                                   .object = object,
                                   .line = std::max<int64_t>(0, lines[k].line),
                                   .is_inlined = k + 1 < lines.size()}));
    }
    if (lines.empty()) frames[i].push_back(FrameOf({.function = FunctionOf(unnamed, "", 0), .object = object}));
  }
  if (is_newest) AddLocks(profile, frames, series);
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    uint32_t node = kRoot;
    const auto stack = profile.FramesOf(profile.samples[i]);
    for (size_t k = stack.size(); k-- > 0;) {
      for (const uint32_t frame : frames[stack[k]]) node = NodeOf(node, frame);
    }
    const uint32_t labels = LabelSetOf(profile, profile.samples[i]);
    const auto [place, added] = series->row_of.emplace(uint64_t{node} << 32 | labels, series->rows.size());
    if (added) series->rows.emplace_back(node, labels);
    const auto values = profile.ValuesOf(i);
    for (size_t m = 0; m < values.size(); ++m) {
      auto& column = snapshot.columns[m];
      if (column.size() < series->rows.size()) column.resize(series->rows.size());
      column[place->second] =
          static_cast<int64_t>(static_cast<uint64_t>(column[place->second]) + static_cast<uint64_t>(values[m]));
    }
  }
  return true;
}

uint32_t HtmlData::NodeOfStack(const std::vector<std::vector<uint32_t>>& frames, const std::vector<uint32_t>& stack) {
  uint32_t node = kRoot;
  for (size_t k = stack.size(); k-- > 0;) {
    for (const uint32_t frame : frames[stack[k]]) node = NodeOf(node, frame);
  }
  return node;
}

void HtmlData::AddLocks(const Profile& profile, const std::vector<std::vector<uint32_t>>& frames, Series* series) {
  const LockList list = ReadLockList(profile);
  series->locks.clear();
  series->pairs.clear();
  const auto function_of = [&](const std::string& name) { return name == "-" ? kNoFunction : FunctionOf(name, "", 0); };
  for (const LockList::Lock& lock : list.locks) {
    series->locks.push_back({
        .number = lock.number,
        .name = NameOf(profile, list, lock),
        .kind = KindOf(lock),
        .contentions = lock.contentions,
        .delay_ns = lock.delay_ns,
        .longest_ns = lock.longest_ns,
        .holds = lock.holds,
        .hold_ns = lock.hold_ns,
        .top_holder = function_of(TopFunctionOf(profile, list, lock.number, LockSide::kHolder)),
        .top_waiter = function_of(TopFunctionOf(profile, list, lock.number, LockSide::kWaiter)),
    });
  }
  for (const LockList::Pair& pair : list.pairs) {
    if (!std::isfinite(pair.contentions) || !std::isfinite(pair.delay_ns)) continue;
    LockPair& added = series->pairs.emplace_back();
    added.lock = pair.lock;
    added.contentions = pair.contentions;
    added.delay_ns = pair.delay_ns;
    const auto name = [&](int stack, uint32_t* node, uint32_t* function) {
      if (stack < 0 || static_cast<size_t>(stack) >= list.stacks.size()) return;
      *node = NodeOfStack(frames, list.stacks[static_cast<size_t>(stack)]);
      *function = function_of(holdfast::FunctionOf(profile, list.stacks[static_cast<size_t>(stack)]));
    };
    name(pair.holder, &added.holder, &added.holder_function);
    name(pair.waiter, &added.waiter, &added.waiter_function);
  }
}

void HtmlData::AddSources(size_t max_bytes) {
  std::map<std::string, std::set<int64_t>> lines;
  for (const Frame& frame : frames_) {
    const std::string& file = functions_[frame.function].file;
    if (!file.empty() && frame.line > 0) lines[file].insert(frame.line);
  }
  size_t bytes = 0;
  for (const auto& [file, wanted] : lines) {
    SourceText source = ReadSource(file, wanted);
    if (source.chunks.empty() || bytes + source.bytes > max_bytes) continue;
    bytes += source.bytes;
    sources_.push_back(std::move(source));
  }
}

void HtmlData::AddGrowths(Growths growths) {
  for (GrowingStack& stack : growths.stacks) {
    for (const std::string& name : stack.frames) stack.functions.push_back(FunctionOf(name, "", 0));
    stack.frames.clear();
  }
  growths_.push_back(std::move(growths));
}

// By name, so that siblings of the tree stand in the order in which a page shows them and compress well.
void HtmlData::SortFunctionsAndFrames() {
  std::vector<uint32_t> order(functions_.size()), rank(functions_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return functions_[a].name < functions_[b].name; });
  std::vector<Function> functions;
  for (size_t i = 0; i < order.size(); ++i) {
    rank[order[i]] = static_cast<uint32_t>(i);
    functions.push_back(std::move(functions_[order[i]]));
  }
  functions_ = std::move(functions);
  for (Frame& frame : frames_) frame.function = rank[frame.function];
  for (Series& series : series_) {
    const auto renumber = [&](uint32_t* function) {
      if (*function != kNoFunction) *function = rank[*function];
    };
    for (Lock& lock : series.locks) {
      renumber(&lock.top_holder);
      renumber(&lock.top_waiter);
    }
    for (LockPair& pair : series.pairs) {
      renumber(&pair.holder_function);
      renumber(&pair.waiter_function);
    }
  }
  for (Growths& growths : growths_) {
    for (GrowingStack& stack : growths.stacks) {
      for (uint32_t& function : stack.functions) function = rank[function];
    }
  }

  order.resize(frames_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return frames_[a].Key() < frames_[b].Key(); });
  rank.resize(frames_.size());
  std::vector<Frame> frames;
  for (size_t i = 0; i < order.size(); ++i) {
    rank[order[i]] = static_cast<uint32_t>(i);
    frames.push_back(frames_[order[i]]);
  }
  frames_ = std::move(frames);
  for (uint32_t& frame : node_frames_) {
    if (frame != kNoFrame) frame = rank[frame];
  }
}

// Writes the tree and returns the new number of each node.
std::vector<uint32_t> HtmlData::SortTree(std::string* tree) {
  const size_t nodes = parents_.size();
  std::vector<uint32_t> by_frame(nodes - 1);
  std::iota(by_frame.begin(), by_frame.end(), 1);
  std::sort(by_frame.begin(), by_frame.end(),
            [&](uint32_t a, uint32_t b) { return std::tie(node_frames_[a], a) < std::tie(node_frames_[b], b); });
  // Children as linked lists, filled from the back.
  std::vector<uint32_t> first(nodes, kRoot), next(nodes, kRoot), numbers(nodes);
  for (size_t i = by_frame.size(); i-- > 0;) {
    const uint32_t node = by_frame[i];
    next[node] = first[parents_[node]];
    first[parents_[node]] = node;
  }
  std::string frames;
  uint32_t count = 1, climbed = 0, node = kRoot;
  while (true) {
    if (first[node] != kRoot) {
      node = first[node];
    } else {
      while (node != kRoot && next[node] == kRoot) {
        node = parents_[node];
        ++climbed;
      }
      if (node == kRoot) break;
      node = next[node];
      ++climbed;
    }
    numbers[node] = count++;
    PutVarint(climbed, tree);
    PutVarint(node_frames_[node], &frames);
    climbed = 0;
  }
  *tree += frames;
  return numbers;
}

std::string HtmlData::Encode() {
  SortFunctionsAndFrames();
  std::vector<std::string> sections;
  absl::flat_hash_map<std::string, uint32_t> file_of;
  std::string lengths, text, files, start_lines;
  const auto put_string = [&](const std::string& string) {
    PutVarint(Utf16Length(string), &lengths);
    text += string;
  };
  for (const Function& function : functions_) put_string(function.name);
  for (const Function& function : functions_) {
    uint32_t file = 0;
    if (!function.file.empty()) {
      const auto [place, added] = file_of.emplace(function.file, functions_.size() + file_of.size());
      if (added) put_string(function.file);
      file = place->second + 1;
    }
    PutVarint(file, &files);
    PutVarint(static_cast<uint64_t>(std::max<int64_t>(0, function.start_line)), &start_lines);
  }
  sections.push_back(std::move(lengths));
  sections.push_back(std::move(text));
  sections.push_back(files + start_lines);

  std::string functions, lines, objects;
  uint32_t before = 0;
  for (const Frame& frame : frames_) {
    PutVarint(frame.function - before, &functions);  // sorted by it
    before = frame.function;
    PutVarint(static_cast<uint64_t>(frame.line), &lines);
    PutVarint(uint64_t{frame.object} << 1 | (frame.is_inlined ? 1 : 0), &objects);
  }
  sections.push_back(functions + lines + objects);

  const std::vector<uint32_t> numbers = SortTree(&sections.emplace_back());

  for (Series& series : series_) {
    std::sort(series.snapshots.begin(), series.snapshots.end(), [](const Snapshot& a, const Snapshot& b) {
      return std::tie(a.time_nanos, a.file) < std::tie(b.time_nanos, b.file);
    });
    for (auto& [node, labels] : series.rows) node = numbers[node];
    for (LockPair& pair : series.pairs) {
      pair.holder = numbers[pair.holder];
      pair.waiter = numbers[pair.waiter];
    }
    std::vector<uint32_t> order(series.rows.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return series.rows[a] < series.rows[b]; });
    std::string nodes, labels;
    uint32_t last_node = 0;
    for (const uint32_t row : order) {
      PutVarint(series.rows[row].first - last_node, &nodes);
      last_node = series.rows[row].first;
      PutVarint(series.rows[row].second, &labels);
    }
    sections.push_back(nodes + labels);
    const Snapshot* previous = nullptr;
    for (const Snapshot& snapshot : series.snapshots) {
      for (size_t m = 0; m < series.metrics.size(); ++m) {
        std::string& column = sections.emplace_back();
        uint64_t zeros = 0;
        for (const uint32_t row : order) {
          const int64_t from = previous == nullptr ? 0 : At(previous->columns[m], row);
          const uint64_t difference = Difference(At(snapshot.columns[m], row), from);
          if (difference == 0) {
            ++zeros;
            continue;
          }
          if (zeros > 0) {
            column += '\0';
            PutVarint(zeros, &column);
            zeros = 0;
          }
          PutVarint(Zigzag(difference), &column);
        }
      }
      previous = &snapshot;
    }
  }

  std::vector<size_t> section_lengths;
  for (const std::string& section : sections) section_lengths.push_back(section.size());
  const std::string meta = Meta(section_lengths);
  std::string encoded = "HFR1";
  for (int shift = 0; shift < 32; shift += 8) encoded += static_cast<char>(meta.size() >> shift);
  encoded += meta;
  for (const std::string& section : sections) encoded += section;
  return encoded;
}

// [class, slope, half width, slope of objects, bytes now, objects now, functions, course] for each stack.
std::string HtmlData::GrowthsAsJson() const {
  JsonText json;
  const auto finite = [](double value) { return std::isfinite(value) ? value : 0; };
  json.Open('[');
  for (const Growths& growths : growths_) {
    json.Open('{').Key("process").String(growths.process);
    json.Key("snapshots").Number(static_cast<int64_t>(growths.snapshots)).Key("hours").Real(growths.hours);
    json.Key("slope").Real(finite(growths.total.slope)).Key("halfWidth").Real(finite(growths.total.half_width));
    json.Key("shape").String(NameOf(growths.total.growth_class)).Key("now").Number(growths.total_now);
    json.Key("growing").Number(static_cast<int64_t>(growths.growing)).Key("stacks").Open('[');
    for (const GrowingStack& stack : growths.stacks) {
      json.Open('[').String(NameOf(stack.bytes.growth_class)).Real(finite(stack.bytes.slope));
      json.Real(finite(stack.bytes.half_width)).Real(finite(stack.objects.slope));
      json.Number(stack.bytes_now).Number(stack.objects_now).Open('[');
      for (const uint32_t function : stack.functions) json.Number(function);
      json.Close(']').Open('[');
      for (const int64_t bytes : stack.course) json.Number(bytes);
      json.Close(']').Close(']');
    }
    json.Close(']').Close('}');
  }
  return json.Close(']').text();
}

std::string HtmlData::Meta(const std::vector<size_t>& section_lengths) const {
  JsonText json;
  json.Open('{').Key("version").String(HOLDFAST_VERSION);
  json.Key("functions").Number(static_cast<int64_t>(functions_.size()));
  json.Key("frames").Number(static_cast<int64_t>(frames_.size()));
  json.Key("nodes").Number(static_cast<int64_t>(parents_.size()));
  json.Key("objects").Open('[');
  for (const auto& [path, build_id] : objects_) json.Open('[').String(path).String(build_id).Close(']');
  json.Close(']').Key("labels").Open('[');
  for (const std::string& labels : label_sets_) json.Raw(labels);
  const auto function_or_none = [&json](uint32_t function) {
    json.Number(function == kNoFunction ? -1 : static_cast<int64_t>(function));
  };
  json.Close(']').Key("series").Open('[');
  for (const Series& series : series_) {
    json.Open('{').Key("base").Bool(series.is_base).Key("kind").String(series.kind);
    json.Key("process").String(series.process).Key("program").String(series.program).Key("pid").String(series.pid);
    json.Key("sampling").String(series.sampling).Key("period").Number(series.period);
    json.Key("rows").Number(static_cast<int64_t>(series.rows.size()));
    json.Key("default").Number(static_cast<int64_t>(series.default_metric)).Key("metrics").Open('[');
    for (const auto& [name, unit] : series.metrics) json.Open('[').String(name).String(unit).Close(']');
    json.Close(']').Key("snapshots").Open('[');
    for (const Snapshot& snapshot : series.snapshots) {
      json.Open('{').Key("file").String(BaseName(snapshot.file)).Key("ms");
      json.Real(static_cast<double>(snapshot.time_nanos) / 1e6).Key("totals").Open('[');
      for (const auto& column : snapshot.columns) {
        uint64_t total = 0;
        for (const int64_t value : column) total += static_cast<uint64_t>(value);
        json.Number(static_cast<int64_t>(total));
      }
      json.Close(']').Key("halfWidths").Open('[');
      for (const auto& half_width : snapshot.half_widths) {
        if (half_width.has_value() && std::isfinite(*half_width)) {
          json.Real(*half_width);
        } else {
          json.Null();
        }
      }
      json.Close(']').Close('}');
    }
    json.Close(']').Key("comments").Open('[');
    for (const std::string& comment : series.comments) {
      // Single locks stand in tables of their own.
      if (!comment.starts_with("lock ")) json.String(comment);
    }
    json.Close(']').Key("losses").Open('[');
    for (const std::string& loss : series.losses) json.String(loss);
    json.Close(']').Key("locks").Open('[');
    for (const Lock& lock : series.locks) {
      json.Open('[').Number(lock.number).String(lock.name).String(lock.kind).Number(lock.contentions);
      json.Number(lock.delay_ns).Number(lock.longest_ns).Number(lock.holds).Number(lock.hold_ns);
      function_or_none(lock.top_holder);
      function_or_none(lock.top_waiter);
      json.Close(']');
    }
    json.Close(']').Key("pairs").Open('[');
    for (const LockPair& pair : series.pairs) {
      json.Open('[').Number(pair.lock).Number(pair.holder).Number(pair.waiter);
      json.Real(pair.contentions).Real(pair.delay_ns);
      function_or_none(pair.holder_function);
      function_or_none(pair.waiter_function);
      json.Close(']');
    }
    json.Close(']').Close('}');
  }
  json.Close(']').Key("sources").Open('[');
  for (const SourceText& source : sources_) {
    json.Open('[').String(source.file);
    for (const auto& [first, text] : source.chunks) json.Number(first).String(text);
    json.Close(']');
  }
  json.Close(']').Key("growths").Raw(GrowthsAsJson()).Key("sections").Open('[');
  for (const size_t length : section_lengths) json.Number(static_cast<int64_t>(length));
  json.Close(']').Close('}');
  return json.text();
}

std::string HtmlData::Title() const {
  // The program with the largest newest total comes first, of memory where there is a heap profile.
  const bool has_heap = std::any_of(series_.begin(), series_.end(), [](const Series& s) { return s.kind == "heap"; });
  std::vector<std::pair<uint64_t, std::string>> programs;
  std::set<std::string> processes;
  std::string pid;
  for (const Series& series : series_) {
    processes.insert(series.process);
    pid = series.pid;
    const std::string& program = series.program.empty() ? series.snapshots[0].file : series.program;
    uint64_t total = 0;
    if (has_heap ? series.kind == "heap" : series.kind == series_[0].kind) {
      for (const int64_t value : series.snapshots.back().columns[series.default_metric]) {
        total += static_cast<uint64_t>(value);
      }
    }
    const auto known =
        std::find_if(programs.begin(), programs.end(), [&](const auto& p) { return p.second == program; });
    if (known == programs.end()) {
      programs.emplace_back(total, program);
    } else {
      known->first += total;
    }
  }
  if (programs.empty()) return "no profile";
  std::stable_sort(programs.begin(), programs.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const std::string& largest = programs[0].second;
  if (programs.size() > 1) return fmt::format("{} and {} more", largest, programs.size() - 1);
  if (processes.size() > 1) return fmt::format("{}, {} processes", largest, processes.size());
  return pid.empty() ? largest : fmt::format("{} (pid {})", largest, pid);
}

bool HtmlData::CanCompare() const {
  std::set<std::pair<std::string, std::string>> base;
  for (const Series& series : series_) {
    if (series.is_base) base.insert(series.metrics.begin(), series.metrics.end());
  }
  return base.empty() || std::any_of(series_.begin(), series_.end(), [&](const Series& series) {
           return !series.is_base && std::any_of(series.metrics.begin(), series.metrics.end(),
                                                 [&](const auto& metric) { return base.contains(metric); });
         });
}

std::vector<std::string> HtmlData::NewestFiles() const {
  std::vector<std::string> files;
  for (const Series& series : series_) {
    if (series.is_base) continue;
    const auto newest =
        std::max_element(series.snapshots.begin(), series.snapshots.end(), [](const Snapshot& a, const Snapshot& b) {
          return std::tie(a.time_nanos, a.file) < std::tie(b.time_nanos, b.file);
        });
    files.push_back(newest->file);
  }
  return files;
}

}  // namespace holdfast
