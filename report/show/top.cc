#include "report/show/top.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "report/analysis/call_edges.h"
#include "report/analysis/flat_table.h"
#include "report/analysis/profiles/short_name.h"
#include "report/analysis/top_answer.h"
#include "report/base/pattern.h"
#include "report/base/value_units.h"
#include "report/profile/profile_kind.h"
#include "report/show/no_match.h"
#include "report/show/node_cells.h"
#include "report/show/size_histogram.h"

namespace holdfast {
namespace {

// Adds a "biggest" line above the table unless the first row already says it. If some waits are for something that nobody
// holds, the line covers only the others, which have the column `locks`.
void AddBiggest(const View& view, const TopAnswer& answer, int64_t whole, TextTable* table) {
  const bool is_part = answer.has_unheld_waits();
  if (const std::optional<Biggest>& biggest = answer.biggest; biggest.has_value()) {
    const char* const relation = biggest->is_branch ? "by" : IsWaitKind(view.kind) ? "called by" : "for";
    table->header.emplace_back(
        fmt::format("biggest  {}: {}{}, {}{}", answer.biggest_name, view.Value(biggest->value),
                    is_part ? " for locks" : "", FormatPercent(biggest->value, whole),
                    biggest->other.empty() ? "" : fmt::format(", mostly {} {}", relation, answer.biggest_other)),
        HeaderLine::kAnswer);
  }
  if (!is_part) return;
  table->header.push_back(
      fmt::format("locks    {} of it: waits for held locks, shown first", view.Value(answer.locks)));
  if (answer.events != 0) {
    table->header.push_back(
        fmt::format("events   {} of it: waits for events, shown after the locks", view.Value(answer.events)));
  }
  if (answer.idle != 0)
    table->header.push_back(fmt::format("idle     {} of it: idle threads, shown last", view.Value(answer.idle)));
}

// `row_name`: what a row is.
std::vector<Column> TopColumns(const TopAnswer& answer, const TopOptions& options, const std::string& row_name) {
  const char* const error_title = options.errors ? "±" : "";
  // If there is no room, drop the columns that the table is not sorted by.
  const size_t self_from = options.by_total ? kRoomy : 0, total_from = options.by_total ? 0 : kRoomy;
  std::vector<Column> columns = {
      {"self", "self", Column::kRight, 5, 1, self_from},
      {"self_error", error_title, Column::kRight, 0, 1, self_from},
      {"self_percent", "self%", Column::kRight, 6, 1, self_from},
      {"total", "total", Column::kRight, 5, 1, total_from},
      {"total_error", error_title, Column::kRight, 0, 1, total_from},
      {"total_percent", "total%", Column::kRight, 6, 1, total_from},
      {"", answer.by_label || row_name == "object" ? row_name : row_name + "  (object)", Column::kLeft, 0, 2, 0, true},
      {row_name, "", Column::kLeft},
      {"file", ""},
      {"line", ""},
      {"object", ""}};
  constexpr size_t kNameCell = 7;
  for (size_t i = kNameCell + 1; i < columns.size(); ++i) {
    if (columns[i].key == row_name) columns[i].key.clear();  // the name itself says it
  }
  return columns;
}

TableRow TopRow(const TopAnswer::Row& row, bool by_label, const View& view, const FilteredStacks& stacks,
                const TopOptions& options) {
  const int64_t whole = stacks.Whole(0);
  const FrameNode& node = stacks.nodes()[row.node];
  NodeCells cells = CellsOf(stacks, row.node, options.full_names);
  if (by_label) {
    cells.with_object.shown = WithThreadNames(cells.with_object.shown, view.thread_names);
  } else if (const std::string objects = ObjectsOf(stacks, node); !options.full_names && objects != node.name) {
    cells.with_object.shown = fmt::format("{}  ({})", row.short_name, objects);
  }
  return {{view.ValueCell(row.self), view.ErrorCell(row.self_variance), PercentCell(row.self, whole),
           view.ValueCell(row.total), view.ErrorCell(row.total_variance), PercentCell(row.total, whole),
           cells.with_object, cells.name, cells.file, cells.line, cells.object},
          ShareOfWhole(options.by_total ? row.total : row.self, whole)};
}

TextTable TopTable(const TopAnswer& answer, const View& view, const FilteredStacks& stacks, Plumbing* plumbing,
                   const TopOptions& options, bool is_for_people) {
  TextTable table;
  AddHeader(view, stacks, options, &table);
  const std::string& row_name = options.stacks.by;
  table.header.push_back(fmt::format("showing  {} of {} {}", answer.rows.size(), answer.all_rows,
                                     row_name == "function" ? "functions" : "rows"));
  if (is_for_people) {
    if (answer.by_label && row_name == "age") table.header.emplace_back("age      upper bound per row, oldest first");
    if (answer.by_thread_start)
      table.header.emplace_back("threads  by start function; in brackets their names at a snapshot");
    AddMissingNames(view, options, plumbing, &table);
    AddBiggest(view, answer, stacks.Whole(0), &table);
  }
  table.columns = TopColumns(answer, options, row_name);
  size_t widest = 5;  // one width for both columns of values
  for (const TopAnswer::Row& row : answer.rows) {
    table.rows.push_back(TopRow(row, answer.by_label, view, stacks, options));
    const std::vector<Cell>& cells = table.rows.back().cells;
    widest = std::max({widest, cells[0].shown.size(), cells[3].shown.size()});
  }
  table.columns[0].min_width = table.columns[3].min_width = widest;
  if (answer.has_unheld_waits()) {  // the column that the rows are sorted by
    table.columns.insert(table.columns.begin(), {"locks", "locks"});
    for (size_t i = 0; i < answer.rows.size(); ++i)
      table.rows[i].cells.insert(table.rows[i].cells.begin(), view.ValueCell(answer.rows[i].for_locks));
  }
  return table;
}

}  // namespace

int RunTop(const TopOptions& options, std::ostream& out, std::ostream& err) {
  const auto style = StyleOf(options);
  if (!style.ok()) return Failed(style.status(), err);
  const auto view = OpenView(options, err);
  if (!view.ok()) return Failed(view.status(), err);
  if (options.stacks.by == "size") {
    const absl::Status printed = PrintSizes(*view, options, *style, out);
    return printed.ok() ? 0 : Failed(printed, err);
  }
  const auto stacks = StacksOf(*view, options);
  if (!stacks.ok()) return Failed(stacks.status(), err);
  const auto plumbing = PlumbingOf(*view, options);
  if (!plumbing.ok()) return Failed(plumbing.status(), err);
  const TopAnswer answer = AnswerTop(*stacks,
                                     {.by = options.stacks.by,
                                      .by_total = options.by_total,
                                      .with_branches = IsMemoryKind(view->kind),
                                      .max_rows = options.node_count,
                                      .contends = view->contends},
                                     plumbing->get());
  const bool is_for_people = style->format == Format::kTable;
  Print(TopTable(answer, *view, *stacks, plumbing->get(), options, is_for_people), *style, out);
  return 0;
}

int RunPeek(const ViewOptions& options, const std::string& pattern_text, std::ostream& out, std::ostream& err) {
  const auto style = StyleOf(options);
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
    return Failed(NoFunctionMatches(pattern_text, *pattern, options), err);
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
                   {"self", "self", Column::kRight, 5, 1, kRoomy},
                   {"self_percent", "self%", Column::kRight, 6, 1, kRoomy},
                   {"total", "total", Column::kRight, 5},
                   {"total_percent", "total%", Column::kRight, 6, 1, kRoomy},
                   {"flow", "flow", Column::kRight, 5},
                   {"flow_percent", "flow%", Column::kRight, 6},
                   {"", "callers ↓  function  ↓ callees", Column::kLeft, 0, 2, 0, true},
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
            Cell::Text(options.full_names ? other_name : ShortName(other_name), other_name), Cell::Text(other_name)},
           ShareOfWhole(flow, whole),
           {},
           2});
    };
    for (const CallEdge* edge : into[node]) add_edge(*edge, "caller", edge->caller);
    table.rows.push_back({{Cell::Text(name), Cell::Text("function"), view->ValueCell(flat.Self(node)),
                           PercentCell(flat.Self(node), whole), view->ValueCell(flat.Total(node)),
                           PercentCell(flat.Total(node), whole), Cell::Text("", ""), Cell::Text("", ""),
                           CellsOf(*stacks, node, options.full_names).with_object, Cell::Text("")},
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
