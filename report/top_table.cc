#include "report/top_table.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "fmt/format.h"

namespace holdfast {
namespace {

// Sums wrap as they do in other readers: a hostile file must not be undefined behaviour.
int64_t Sum(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
uint64_t Magnitude(int64_t a) { return a < 0 ? -static_cast<uint64_t>(a) : static_cast<uint64_t>(a); }

std::string BaseName(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

void AddObject(std::string_view object, std::vector<std::string>* objects) {
  if (object.empty() || objects->size() == TopRow::kMaxObjects) return;
  if (std::find(objects->begin(), objects->end(), object) != objects->end()) return;
  objects->emplace_back(object);
}

// A profile's functions as numbers: which ones each location stands for, innermost first.
struct Nodes {
  struct Node {
    StringId name;  // 0: no name, the object stands for it
    std::vector<StringId> files;
    uint64_t seen = 0;  // number of the last sample that counted it
    int64_t self = 0, total = 0;
  };
  std::vector<Node> nodes;
  std::vector<uint32_t> first;  // locations + 1 of them: nodes of location i lie in at[first[i] … first[i + 1])
  std::vector<uint32_t> at;

  explicit Nodes(const Profile& profile) {
    std::vector<uint32_t> named(profile.strings.size(), Profile::kNone),
        unnamed(profile.strings.size(), Profile::kNone);
    const auto node_of = [&](StringId name, StringId file) {
      uint32_t& index = name != 0 ? named[name] : unnamed[file];
      if (index == Profile::kNone) {
        index = static_cast<uint32_t>(nodes.size());
        nodes.push_back({.name = name, .files = {}});
      }
      auto& files = nodes[index].files;
      if (file != 0 && files.size() < TopRow::kMaxObjects &&
          std::find(files.begin(), files.end(), file) == files.end()) {
        files.push_back(file);
      }
      return index;
    };
    first.reserve(profile.locations.size() + 1);
    for (const Profile::Location& location : profile.locations) {
      first.push_back(static_cast<uint32_t>(at.size()));
      const StringId file = location.mapping == Profile::kNone ? 0 : profile.mappings[location.mapping].file;
      for (const Profile::Line& line : profile.LinesOf(location)) {
        at.push_back(node_of(profile.functions[line.function].name, file));
      }
      if (location.lines == 0) at.push_back(node_of(0, file));
    }
    first.push_back(static_cast<uint32_t>(at.size()));
  }
};

}  // namespace

TopRow* TopTable::RowOf(const std::string& function) {
  const auto [place, added] = by_name_.emplace(function, rows_.size());
  if (added) rows_.push_back({.function = function, .objects = {}});
  return &rows_[place->second];
}

void TopTable::Add(const Profile& profile, size_t metric) {
  Nodes nodes(profile);
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    const int64_t value = profile.ValuesOf(i)[metric];
    if (value == 0) continue;
    total_ = Sum(total_, value);
    const auto frames = profile.FramesOf(profile.samples[i]);
    for (const uint32_t frame : frames) {
      for (uint32_t k = nodes.first[frame]; k < nodes.first[frame + 1]; ++k) {
        auto& node = nodes.nodes[nodes.at[k]];
        if (node.seen == i + 1) continue;
        node.seen = i + 1;
        node.total = Sum(node.total, value);
      }
    }
    if (!frames.empty()) {
      auto& leaf = nodes.nodes[nodes.at[nodes.first[frames[0]]]];
      leaf.self = Sum(leaf.self, value);
    }
  }
  for (const auto& node : nodes.nodes) {
    if (node.self == 0 && node.total == 0) continue;
    std::string name(profile.strings[node.name]);
    if (node.name == 0) {
      name = node.files.empty() ? "<unknown>" : fmt::format("[{}]", BaseName(profile.strings[node.files[0]]));
    }
    TopRow* row = RowOf(name);
    row->self = Sum(row->self, node.self);
    row->total = Sum(row->total, node.total);
    for (const StringId file : node.files) AddObject(profile.strings[file], &row->objects);
  }
}

void TopTable::Add(const TopTable& other) {
  total_ = Sum(total_, other.total_);
  for (const TopRow& from : other.rows_) {
    TopRow* row = RowOf(from.function);
    row->self = Sum(row->self, from.self);
    row->total = Sum(row->total, from.total);
    for (const std::string& object : from.objects) AddObject(object, &row->objects);
  }
}

std::vector<const TopRow*> TopTable::Sorted(bool by_total) const {
  std::vector<const TopRow*> sorted;
  for (const TopRow& row : rows_) {
    if (row.self != 0 || row.total != 0) sorted.push_back(&row);
  }
  std::sort(sorted.begin(), sorted.end(), [by_total](const TopRow* a, const TopRow* b) {
    const auto key = [by_total](const TopRow* row) {
      const uint64_t self = Magnitude(row->self), total = Magnitude(row->total);
      return by_total ? std::pair(total, self) : std::pair(self, total);
    };
    const auto a_key = key(a), b_key = key(b);
    return a_key != b_key ? a_key > b_key : a->function < b->function;
  });
  return sorted;
}

}  // namespace holdfast
