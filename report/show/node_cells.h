// Formats a node as cells of a table, with its short name unless full names are asked for. Any thread.
#ifndef HOLDFAST_REPORT_SHOW_NODE_CELLS_H_
#define HOLDFAST_REPORT_SHOW_NODE_CELLS_H_

#include <string>

#include "fmt/format.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/value_units.h"
#include "report/show/text_table.h"

namespace holdfast {

// Terminals with at least this many columns have room for secondary columns.
inline constexpr size_t kRoomy = 72, kWide = 100;

struct NodeCells {
  Cell name, with_object, file, line, object;
};

inline std::string ObjectsOf(const FilteredStacks& stacks, const FrameNode& node) {
  if (node.objects.empty()) return "-";
  std::string object(stacks.object_names().Of(stacks.profile().strings[node.objects[0]]));
  if (node.objects.size() > 1) object += fmt::format(" +{}", node.objects.size() - 1);
  return object;
}

inline NodeCells CellsOf(const FilteredStacks& stacks, uint32_t index, bool full_names) {
  const FrameNode& node = stacks.nodes()[index];
  const StringTable& strings = stacks.profile().strings;
  const std::string objects = node.is_label ? node.name : ObjectsOf(stacks, node);
  const std::string shown = node.is_label || full_names ? node.name : ShortName(node.name);
  return {Cell::Text(node.name),
          Cell::Text(objects == node.name ? node.name : fmt::format("{}  ({})", shown, objects), node.name),
          Cell::Text(strings[node.file]), Cell::Number(fmt::format("{}", node.line), node.line),
          Cell::Text(node.objects.empty() ? std::string_view() : strings[node.objects[0]])};
}

inline double ShareOfWhole(int64_t value, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(Magnitude(value)) / static_cast<double>(Magnitude(whole));
}

inline Cell PercentCell(int64_t value, int64_t whole) {
  return Cell::Real(FormatPercent(value, whole),
                    whole == 0 ? 0 : static_cast<double>(value) * 100 / static_cast<double>(whole));
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_NODE_CELLS_H_
