// The binary half of ReportBuilder: the tree, the rows and their values.
#include <algorithm>
#include <numeric>

#include "report/analysis/profiles/frame_origin.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/base_name.h"
#include "report/base/utf8.h"
#include "report/page/report_builder.h"

namespace holdfast {
namespace {

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) *out += static_cast<char>(value | 0x80);
  *out += static_cast<char>(value);
}

uint64_t Zigzag(uint64_t value) { return (value << 1) ^ (value >> 63 != 0 ? ~uint64_t{0} : 0); }

// Differences wrap, so any two int64 values have one.
uint64_t Difference(int64_t a, int64_t b) { return static_cast<uint64_t>(a) - static_cast<uint64_t>(b); }

uint64_t Utf16Length(std::string_view valid_utf8) {
  uint64_t length = 0;
  for (const unsigned char c : valid_utf8) length += (c & 0xc0) == 0x80 ? 0 : c >= 0xf0 ? 2 : 1;
  return length;
}

int64_t ValueAt(const std::vector<int64_t>& column, size_t row) { return row < column.size() ? column[row] : 0; }

}  // namespace

// Sorts by name, so that siblings of the tree are in display order and compress well.
void ReportBuilder::SortFunctionsAndFrames() {
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
    for (PairOfStacks& pair : series.pairs) {
      renumber(&pair.holder_function);
      renumber(&pair.waiter_function);
    }
  }
  for (Growths& growths : growths_) {
    for (GrowingStack& stack : growths.stacks) {
      for (uint32_t& function : stack.functions) function = rank[function];
    }
    for (uint32_t& function : growths.largest) function = rank[function];
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
std::vector<uint32_t> ReportBuilder::SortTree(std::string* tree) {
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

// Whether the object is the main program of a process in the report.
bool ReportBuilder::IsProgram(std::string_view object) const {
  return std::any_of(series_.begin(), series_.end(), [&](const Series& series) {
    const auto& process = series.records.process;
    const bool has_executable = process.has_value() && !process->executable.empty();
    return BaseName(object) == (has_executable ? BaseName(process->executable) : std::string_view(series.program));
  });
}

// Appends the names of files and packages to `strings`, after those of the functions.
std::string ReportBuilder::FunctionColumns(std::vector<std::string>* strings) const {
  absl::flat_hash_map<std::string, size_t> place_of;
  const auto string_of = [&](const std::string& string) {
    const auto [place, added] = place_of.emplace(string, strings->size());
    if (added) strings->push_back(string);
    return place->second;
  };
  std::vector<uint32_t> object_of(functions_.size());  // the first of several
  for (const Frame& frame : frames_) {
    if (object_of[frame.function] == 0) object_of[frame.function] = frame.object;
  }
  std::vector<bool> is_program = {false};
  for (const auto& [path, build_id] : objects_) is_program.push_back(IsProgram(path));
  std::vector<std::string> names;
  for (const Function& function : functions_) names.push_back(function.name);
  const std::vector<std::string> shown = ShownNames(names);
  std::string files, start_lines, objects, packages, origins, short_names;
  for (size_t i = 0; i < functions_.size(); ++i) {
    const Function& function = functions_[i];
    const uint32_t object = object_of[i];
    const std::string_view path = object == 0 ? std::string_view() : objects_[object - 1].first;
    const std::string_view name = function.nameless ? std::string_view() : function.name;
    PutVarint(function.file.empty() ? 0 : string_of(function.file) + 1, &files);
    PutVarint(static_cast<uint64_t>(std::max<int64_t>(0, function.start_line)), &start_lines);
    PutVarint(object, &objects);
    const auto called = called_.find(std::string(path));
    const std::string_view object_name = called == called_.end() ? path : std::string_view(called->second);
    PutVarint(string_of(RepairUtf8(PackageOf(name, object_name, function.file))), &packages);
    // 0: the name itself; odd: another string; even: the beginning of the name, which most are.
    if (shown[i] == function.name || function.nameless) {
      PutVarint(0, &short_names);
    } else if (function.name.starts_with(shown[i])) {
      PutVarint(2 * (Utf16Length(shown[i]) + 1), &short_names);
    } else {
      PutVarint(2 * string_of(shown[i]) + 1, &short_names);
    }
    PutVarint(static_cast<uint64_t>(OriginOf(name, path, is_program[object])), &origins);
  }
  return files + start_lines + objects + packages + origins + short_names;
}

std::string ReportBuilder::FrameColumns() const {
  // A function is system code if either its name or its object says so.
  std::vector<bool> system_functions, system_objects = {false};
  for (const Function& function : functions_) system_functions.push_back(IsSystemFrame(function.name, ""));
  for (const auto& [path, build_id] : objects_) system_objects.push_back(IsSystemFrame("", path));
  std::string functions, lines, objects;
  uint32_t before = 0;
  for (const Frame& frame : frames_) {
    PutVarint(frame.function - before, &functions);  // sorted by function
    before = frame.function;
    PutVarint(static_cast<uint64_t>(frame.line), &lines);
    const bool is_system = system_functions[frame.function] || system_objects[frame.object];
    const bool is_plumbing = is_system || functions_[frame.function].plumbing;
    PutVarint(uint64_t{frame.object} << 3 | (is_plumbing ? 4 : 0) | (is_system ? 2 : 0) | (frame.is_inlined ? 1 : 0),
              &objects);
  }
  return functions + lines + objects;
}

std::string ReportBuilder::Encode() {
  for (const Series& series : series_) {
    for (const uint32_t function : series.plumbing) functions_[function].plumbing = true;
  }
  SortFunctionsAndFrames();
  std::vector<std::string> sections, strings;
  for (const Function& function : functions_) strings.push_back(function.name);
  const std::string function_columns = FunctionColumns(&strings);
  std::string lengths, text;
  for (const std::string& string : strings) {
    PutVarint(Utf16Length(string), &lengths);
    text += string;
  }
  sections.push_back(std::move(lengths));
  sections.push_back(std::move(text));
  sections.push_back(function_columns);
  sections.push_back(FrameColumns());

  const std::vector<uint32_t> numbers = SortTree(&sections.emplace_back());

  for (Series& series : series_) {
    for (auto& [node, labels] : series.rows) node = numbers[node];
    for (PairOfStacks& pair : series.pairs) {
      pair.holder = numbers[pair.holder];
      pair.waiter = numbers[pair.waiter];
    }
    std::vector<uint32_t> order(series.rows.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return series.rows[a] < series.rows[b]; });
    std::string nodes, labels, ranks;
    uint32_t last_node = 0;
    for (const uint32_t row : order) {
      PutVarint(series.rows[row].first - last_node, &nodes);
      last_node = series.rows[row].first;
      PutVarint(series.rows[row].second, &labels);
    }
    for (const uint32_t row : order) {
      const auto rank = series.ranks.find(row);
      PutVarint(static_cast<uint64_t>(rank == series.ranks.end() ? WaitRank::kLock : rank->second), &ranks);
    }
    nodes.append(labels).append(ranks);
    sections.push_back(std::move(nodes));
    const Snapshot* previous = nullptr;
    for (const Snapshot& snapshot : series.snapshots) {
      for (size_t m = 0; m < series.metrics.size(); ++m) {
        std::string& column = sections.emplace_back();
        uint64_t zeros = 0;
        for (const uint32_t row : order) {
          const int64_t from = previous == nullptr ? 0 : ValueAt(previous->columns[m], row);
          const uint64_t difference = Difference(ValueAt(snapshot.columns[m], row), from);
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

}  // namespace holdfast
