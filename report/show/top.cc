#include "report/show/top.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "report/analysis/call_edges.h"
#include "report/analysis/flat_table.h"
#include "report/analysis/locks/idle_waits.h"
#include "report/analysis/owners.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/pattern.h"
#include "report/base/value_units.h"
#include "report/profile/profile_kind.h"
#include "report/show/no_match.h"
#include "report/show/node_cells.h"
#include "report/show/size_histogram.h"

namespace holdfast {
namespace {

std::vector<WaitRank> RanksOfSamples(const Profile& profile, const IdleWaits& idle) {
  std::vector<WaitRank> ranks(idle.any() ? profile.samples.size() : 0);
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = idle.RankOf(profile.samples[i]);
  return ranks;
}

// Per node: time waited for locks, and for events. By total or self.
using OfRank = std::array<int64_t, 2>;

// Sorts contended locks first, then work that waits for events (nobody holds those), then idle threads. Keeps the order
// within each group.
std::vector<OfRank> IdleLast(const FilteredStacks& stacks, const std::vector<WaitRank>& ranks, bool by_total,
                             std::vector<uint32_t>* nodes) {
  std::vector<OfRank> values(stacks.nodes().size());
  for (size_t i = 0; i < stacks.size(); ++i) {
    const auto rank = static_cast<size_t>(ranks[stacks.SampleOf(i)]);
    if (rank >= std::tuple_size_v<OfRank>) continue;
    const auto frames = stacks.FramesOf(i);
    std::set<uint32_t> once(frames.begin(), by_total || frames.empty() ? frames.end() : frames.begin() + 1);
    for (const uint32_t node : once) values[node][rank] = WrappedSum(values[node][rank], stacks.ValuesOf(i)[0]);
  }
  const auto key = [&](uint32_t node) {
    const OfRank& of = values[node];
    return std::pair(Magnitude(of[0]), of[0] == 0 ? Magnitude(of[1]) : 0);
  };
  std::stable_sort(nodes->begin(), nodes->end(), [&](uint32_t a, uint32_t b) { return key(a) > key(b); });
  return values;
}

bool HasThreadLabel(const Profile& profile) {
  return std::any_of(profile.samples.begin(), profile.samples.end(), [&](const Profile::Sample& sample) {
    const auto labels = profile.LabelsOf(sample);
    return std::any_of(labels.begin(), labels.end(),
                       [&](const Profile::Label& label) { return profile.strings[label.key] == "thread"; });
  });
}

// The shown name of each function of these stacks, by its whole name: no two are alike.
using NamesShown = std::map<std::string, std::string, std::less<>>;
NamesShown NamesShownOf(const FilteredStacks& stacks) {
  std::vector<std::string> names;
  for (const FrameNode& node : stacks.nodes()) {
    if (!node.is_label) names.push_back(node.name);
  }
  const std::vector<std::string> shown = ShownNames(names);
  NamesShown by_name;
  for (size_t i = 0; i < names.size(); ++i) by_name.emplace(names[i], shown[i]);
  return by_name;
}

std::string ShownBy(const NamesShown& names, const std::string& name) {
  const auto found = names.find(name);
  return found == names.end() ? ShortName(name) : found->second;
}

// Adds a "biggest" line above the table unless the first row already says it. If some waits are for something that nobody
// holds, the line covers only the others, which have the column `locks`.
void AddBiggest(const View& view, const FilteredStacks& stacks, const FlatTable& flat, const Owners& owners,
                std::string_view first_row, const NamesShown& names, TextTable* table) {
  const bool is_part = owners.unheld() != 0 || owners.idle() != 0;
  const std::optional<Biggest> biggest = owners.BiggestOf(flat, IsMemoryKind(view.kind));
  if (biggest.has_value() && (is_part || biggest->name != first_row)) {
    table->header.push_back(fmt::format("biggest  {}: {}{}, {}{}", ShownBy(names, biggest->name),
                                        view.Value(biggest->value), is_part ? " for locks" : "",
                                        FormatPercent(biggest->value, stacks.Whole(0)),
                                        biggest->other.empty() ? ""
                                                               : fmt::format(", mostly {} {}",
                                                                             biggest->is_branch      ? "by"
                                                                             : IsWaitKind(view.kind) ? "called by"
                                                                                                     : "for",
                                                                             ShownBy(names, biggest->other))));
  }
  if (!is_part) return;
  const int64_t locks = WrappedDifference(stacks.Selected(0), WrappedSum(owners.unheld(), owners.idle()));
  table->header.push_back(fmt::format("locks    {} of it: waits for held locks, shown first", view.Value(locks)));
  if (owners.unheld() != 0) {
    table->header.push_back(
        fmt::format("events   {} of it: waits for events, shown after the locks", view.Value(owners.unheld())));
  }
  if (owners.idle() != 0) {
    table->header.push_back(fmt::format("idle     {} of it: idle threads, shown last", view.Value(owners.idle())));
  }
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
  const FlatTable flat(*stacks);
  std::vector<uint32_t> nodes = flat.Sorted(options.by_total);
  const auto made = PlumbingOf(*view, options);
  if (!made.ok()) return Failed(made.status(), err);
  Plumbing* const plumbing = made->get();
  // By a label: show the totals of the label's values.
  const bool by_label =
      std::any_of(stacks->nodes().begin(), stacks->nodes().end(), [](const FrameNode& n) { return n.is_label; });
  if (by_label) std::erase_if(nodes, [&](uint32_t node) { return !stacks->nodes()[node].is_label; });
  const IdleWaits idle = view->contends.has_value() ? IdleWaits(*view->profile, plumbing, *view->contends)
                                                    : IdleWaits(*view->profile, plumbing);
  const std::vector<WaitRank> ranks = RanksOfSamples(*view->profile, idle);
  std::vector<OfRank> waited;
  if (idle.any()) waited = IdleLast(*stacks, ranks, options.by_total || by_label, &nodes);
  const Owners owners(*stacks, ranks, plumbing);
  // Oldest first: memory that is never freed is at the top.
  if (by_label && options.stacks.by == "age") {
    std::stable_sort(nodes.begin(), nodes.end(),
                     [&](uint32_t a, uint32_t b) { return stacks->nodes()[a].number > stacks->nodes()[b].number; });
  }
  const size_t all = nodes.size();
  if (options.node_count != 0 && nodes.size() > options.node_count) nodes.resize(options.node_count);

  const NamesShown names = NamesShownOf(*stacks);
  TextTable table;
  AddHeader(*view, *stacks, options, &table);
  const std::string what = by_label || options.stacks.by != "function" ? options.stacks.by : "function";
  table.header.push_back(
      fmt::format("showing  {} of {} {}", nodes.size(), all, what == "function" ? "functions" : "rows"));
  if (by_label && what == "age" && style->format == Format::kTable)
    table.header.emplace_back("age      upper bound per row, oldest first");
  if (by_label && options.stacks.by == "thread" && style->format == Format::kTable && !HasThreadLabel(*view->profile)) {
    table.header.emplace_back("threads  by start function; in brackets their names at a snapshot");
  }
  if (style->format == Format::kTable) {
    AddMissingNames(*view, options, plumbing, &table);
    AddBiggest(*view, *stacks, flat, owners, nodes.empty() ? "" : stacks->nodes()[nodes[0]].name, names, &table);
  }
  const char* error_title = options.errors ? "±" : "";
  // If there is no room, drop the columns that the table is not sorted by.
  const size_t self_from = options.by_total ? kRoomy : 0, total_from = options.by_total ? 0 : kRoomy;
  table.columns = {{"self", "self", Column::kRight, 5, 1, self_from},
                   {"self_error", error_title, Column::kRight, 0, 1, self_from},
                   {"self_percent", "self%", Column::kRight, 6, 1, self_from},
                   {"total", "total", Column::kRight, 5, 1, total_from},
                   {"total_error", error_title, Column::kRight, 0, 1, total_from},
                   {"total_percent", "total%", Column::kRight, 6, 1, total_from},
                   {"", by_label || what == "object" ? what : what + "  (object)", Column::kLeft, 0, 2, 0, true},
                   {what, "", Column::kLeft},
                   {"file", ""},
                   {"line", ""},
                   {"object", ""}};
  constexpr size_t kNameCell = 6;
  for (size_t i = kNameCell + 2; i < table.columns.size(); ++i) {
    if (table.columns[i].key == what) table.columns[i].key.clear();  // the name itself says it
  }
  // The column that the rows are sorted by, if it is only a part of the value.
  const bool with_locks = owners.unheld() != 0 || owners.idle() != 0;
  const int64_t whole = stacks->Whole(0);
  for (const uint32_t node : nodes) {
    const int64_t self = by_label ? flat.Total(node) : flat.Self(node), total = flat.Total(node);
    const double self_variance = by_label ? flat.TotalVariance(node) : flat.SelfVariance(node);
    NodeCells cells = CellsOf(*stacks, node, options.full_names);
    if (by_label) cells.with_object.shown = WithThreadNames(cells.with_object.shown, view->thread_names);
    const FrameNode& function = stacks->nodes()[node];
    if (const std::string objects = ObjectsOf(*stacks, function);
        !by_label && !options.full_names && objects != function.name) {
      cells.with_object.shown = fmt::format("{}  ({})", ShownBy(names, function.name), objects);
    }
    table.rows.push_back({{view->ValueCell(self), view->ErrorCell(self_variance), PercentCell(self, whole),
                           view->ValueCell(total), view->ErrorCell(flat.TotalVariance(node)), PercentCell(total, whole),
                           cells.with_object, cells.name, cells.file, cells.line, cells.object},
                          ShareOfWhole(options.by_total ? total : self, whole)});
    if (with_locks) table.rows.back().cells.push_back(view->ValueCell(waited[node][0]));
  }
  // One width for both columns of values.
  size_t widest = 5;
  for (const TableRow& row : table.rows)
    widest = std::max({widest, row.cells[0].shown.size(), row.cells[3].shown.size()});
  table.columns[0].min_width = table.columns[3].min_width = widest;
  if (with_locks) {
    table.columns.push_back({"locks", "locks"});
    std::rotate(table.columns.begin(), table.columns.end() - 1, table.columns.end());
    for (TableRow& row : table.rows) std::rotate(row.cells.begin(), row.cells.end() - 1, row.cells.end());
  }
  Print(table, *style, out);
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
