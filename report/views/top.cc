#include "report/views/top.h"

#include <algorithm>

#include "fmt/format.h"
#include "report/analysis/call_edges.h"
#include "report/analysis/flat_table.h"
#include "report/base/pattern.h"
#include "report/base/value_units.h"
#include "report/views/node_cells.h"

namespace holdfast {
int RunTop(const TopOptions& options, std::ostream& out, std::ostream& err) {
  const auto style = StyleFor(options.format, options.color);
  if (!style.ok()) return Failed(style.status(), err);
  const auto view = OpenView(options, err);
  if (!view.ok()) return Failed(view.status(), err);
  const auto stacks = StacksOf(*view, options);
  if (!stacks.ok()) return Failed(stacks.status(), err);
  const FlatTable flat(*stacks);
  std::vector<uint32_t> nodes = flat.Sorted(options.by_total);
  // By a label: its values, what they hold in all.
  const bool by_label =
      std::any_of(stacks->nodes().begin(), stacks->nodes().end(), [](const FrameNode& n) { return n.is_label; });
  if (by_label) std::erase_if(nodes, [&](uint32_t node) { return !stacks->nodes()[node].is_label; });
  const size_t all = nodes.size();
  if (options.node_count != 0 && nodes.size() > options.node_count) nodes.resize(options.node_count);

  TextTable table;
  AddHeader(*view, *stacks, options, &table);
  const std::string what = by_label || options.stacks.by != "function" ? options.stacks.by : "function";
  table.header.push_back(
      fmt::format("showing  {} of {} {}", nodes.size(), all, what == "function" ? "functions" : "rows"));
  const char* error_title = options.errors ? "±" : "";
  table.columns = {{"self", "self", Column::kRight, 5},
                   {"self_error", error_title},
                   {"self_percent", "self%", Column::kRight, 6},
                   {"total", "total", Column::kRight, 5},
                   {"total_error", error_title},
                   {"total_percent", "total%", Column::kRight, 6},
                   {"", by_label || what == "object" ? what : what + "  (object)", Column::kLeft, 0, 2},
                   {what, "", Column::kLeft},
                   {"file", ""},
                   {"line", ""},
                   {"object", ""}};
  for (size_t i = 8; i < table.columns.size(); ++i) {
    if (table.columns[i].key == what) table.columns[i].key.clear();  // said by the name itself
  }
  const int64_t whole = stacks->Whole(0);
  for (const uint32_t node : nodes) {
    const int64_t self = by_label ? flat.Total(node) : flat.Self(node), total = flat.Total(node);
    const double self_variance = by_label ? flat.TotalVariance(node) : flat.SelfVariance(node);
    const NodeCells cells = CellsOf(*stacks, node);
    table.rows.push_back({{view->ValueCell(self), view->ErrorCell(self_variance), PercentCell(self, whole),
                           view->ValueCell(total), view->ErrorCell(flat.TotalVariance(node)), PercentCell(total, whole),
                           cells.with_object, cells.name, cells.file, cells.line, cells.object},
                          ShareOfWhole(options.by_total ? total : self, whole)});
  }
  // One width for both columns of values.
  size_t widest = 5;
  for (const TableRow& row : table.rows)
    widest = std::max({widest, row.cells[0].shown.size(), row.cells[3].shown.size()});
  table.columns[0].min_width = table.columns[3].min_width = widest;
  Print(table, *style, out);
  return 0;
}

int RunPeek(const ViewOptions& options, const std::string& pattern_text, std::ostream& out, std::ostream& err) {
  const auto style = StyleFor(options.format, options.color);
  if (!style.ok()) return Failed(style.status(), err);
  const auto pattern = Pattern::Compile("peek", pattern_text);
  if (!pattern.ok()) return Failed(pattern.status(), err);
  const auto view = OpenView(options, err);
  if (!view.ok()) return Failed(view.status(), err);
  const auto stacks = StacksOf(*view, options);
  if (!stacks.ok()) return Failed(stacks.status(), err);
  const FlatTable flat(*stacks);
  std::vector<uint32_t> nodes = flat.Sorted(true);
  std::erase_if(nodes, [&](uint32_t node) { return !pattern->Matches(stacks->nodes()[node].name); });
  if (nodes.empty()) {
    return Failed(absl::NotFoundError(fmt::format(
                      "{}: no function of the profile matches. Look at the names with holdfast top.", pattern_text)),
                  err);
  }
  const size_t all = nodes.size();
  if (options.node_count != 0 && nodes.size() > options.node_count) nodes.resize(options.node_count);
  std::vector<bool> chosen(stacks->nodes().size());
  for (const uint32_t node : nodes) chosen[node] = true;
  const std::vector<CallEdge> edges = CallEdgesAround(*stacks, chosen);
  std::vector<std::vector<const CallEdge*>> into(chosen.size()), out_of(chosen.size());
  for (const CallEdge& edge : edges) {
    if (chosen[edge.callee]) into[edge.callee].push_back(&edge);
    if (chosen[edge.caller]) out_of[edge.caller].push_back(&edge);
  }

  TextTable table;
  AddHeader(*view, *stacks, options, &table);
  table.header.push_back(fmt::format("showing  {} of {} functions that match", nodes.size(), all));
  table.columns = {{"function", ""},
                   {"role", ""},
                   {"self", "self", Column::kRight, 5},
                   {"self_percent", "self%", Column::kRight, 6},
                   {"total", "total", Column::kRight, 5},
                   {"total_percent", "total%", Column::kRight, 6},
                   {"flow", "flow", Column::kRight, 5},
                   {"flow_percent", "flow%", Column::kRight, 6},
                   {"", "callers ↓  function  ↓ callees", Column::kLeft, 0, 2},
                   {"other", ""}};
  const int64_t whole = stacks->Whole(0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const uint32_t node = nodes[i];
    const std::string& name = stacks->nodes()[node].name;
    const auto add_edge = [&](const CallEdge& edge, const char* role, uint32_t other) {
      const int64_t flow = edge.values[0];
      const std::string& other_name = stacks->nodes()[other].name;
      table.rows.push_back(
          {{Cell::Text(name), Cell::Text(role), Cell::Text("", ""), Cell::Text("", ""), Cell::Text("", ""),
            Cell::Text("", ""), view->ValueCell(flow), PercentCell(flow, flat.Total(node)),
            Cell::Text(fmt::format("    {}", other_name)), Cell::Text(other_name)},
           ShareOfWhole(flow, whole)});
    };
    for (const CallEdge* edge : into[node]) add_edge(*edge, "caller", edge->caller);
    table.rows.push_back(
        {{Cell::Text(name), Cell::Text("function"), view->ValueCell(flat.Self(node)),
          PercentCell(flat.Self(node), whole), view->ValueCell(flat.Total(node)), PercentCell(flat.Total(node), whole),
          Cell::Text("", ""), Cell::Text("", ""), CellsOf(*stacks, node).with_object, Cell::Text("")},
         ShareOfWhole(flat.Total(node), whole)});
    for (const CallEdge* edge : out_of[node]) add_edge(*edge, "callee", edge->callee);
    if (i + 1 < nodes.size() && style->format == Format::kTable) {
      table.rows.push_back({std::vector<Cell>(table.columns.size(), Cell::Text("")), 1e-3});
    }
  }
  Print(table, *style, out);
  return 0;
}

}  // namespace holdfast
