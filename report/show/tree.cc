#include "report/show/tree.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "fmt/format.h"
#include "report/analysis/call_tree.h"
#include "report/base/pattern.h"
#include "report/base/value_units.h"
#include "report/show/no_match.h"
#include "report/show/node_cells.h"

namespace holdfast {
namespace {

// Returns the branches to print: the `count` largest. A parent holds at least as much as its child and has the lower
// number, so every chosen branch has its parent.
std::vector<bool> Largest(const CallTree& tree, size_t count) {
  std::vector<bool> shown(tree.branches().size(), true);
  if (count == 0 || count + 1 >= shown.size()) return shown;
  std::vector<uint32_t> order(shown.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin() + 1, order.end(), [&](uint32_t a, uint32_t b) {
    const uint64_t a_size = Magnitude(tree.Total(a)), b_size = Magnitude(tree.Total(b));
    return a_size != b_size ? a_size > b_size : a < b;
  });
  std::fill(shown.begin(), shown.end(), false);
  for (size_t i = 0; i <= count; ++i) shown[order[i]] = true;
  // In differences, totals have both signs, so a child may be larger than its parent.
  for (uint32_t branch = 1; branch < shown.size(); ++branch) {
    shown[branch] = shown[branch] && shown[tree.branches()[branch].parent];
  }
  return shown;
}

class TreePrinter {
 public:
  TreePrinter(const View& view, const FilteredStacks& stacks, const CallTree& tree, const TreeOptions& options,
              bool bottom_up)
      : view_(view),
        stacks_(stacks),
        tree_(tree),
        options_(options),
        bottom_up_(bottom_up),
        shown_(Largest(tree, options.view.node_count)) {}

  void Fill(TextTable* table) {
    const char* error_title = options_.view.errors ? "±" : "";
    const bool by_label = !bottom_up_ && HasLabels();
    const std::string group_title = bottom_up_ ? "top%" : by_label ? options_.view.stacks.by + "%" : "";
    table->columns = {{"id", ""},
                      {"parent", ""},
                      {"depth", ""},
                      {"total", "total", Column::kRight, 5},
                      {"total_error", error_title},
                      {"total_percent", "total%", Column::kRight, 6},
                      {bottom_up_ ? "top_percent" : "group_percent", group_title, Column::kRight, 6, 1, kRoomy},
                      {"self", bottom_up_ ? "" : "self", Column::kRight, 5, 1, kRoomy},
                      {"children", bottom_up_ ? "" : "children", Column::kRight, 5, 1, kWide},
                      {"", "function  (object)", Column::kLeft, 0, 2, 0, true},
                      {"function", ""},
                      {"file", ""},
                      {"line", ""},
                      {"object", ""}};
    // Depth first without recursion, because stacks may be deep.
    std::vector<uint32_t> open = {CallTree::kRoot};
    std::vector<std::pair<uint32_t, size_t>> rests;  // print the rest of `branch` once `open` has shrunk to `size`
    while (!open.empty() || !rests.empty()) {
      if (!rests.empty() && rests.back().second == open.size()) {
        AddRest(rests.back().first, table);
        rests.pop_back();
        continue;
      }
      const uint32_t branch = open.back();
      open.pop_back();
      if (branch != CallTree::kRoot) AddBranch(branch, table);
      rests.push_back({branch, open.size()});
      const auto& made = tree_.branches()[branch];
      for (uint32_t i = made.children; i-- > 0;) {
        if (shown_[made.first_child + i]) open.push_back(made.first_child + i);
      }
    }
  }

 private:
  bool HasLabels() const {
    return std::any_of(stacks_.nodes().begin(), stacks_.nodes().end(),
                       [](const FrameNode& node) { return node.is_label; });
  }

  // Returns the total of the ancestor of `branch` directly below the root.
  int64_t GroupTotal(uint32_t branch) const {
    while (tree_.branches()[branch].depth > 1) branch = tree_.branches()[branch].parent;
    return tree_.Total(branch);
  }

  void AddBranch(uint32_t branch, TextTable* table) {
    const auto& made = tree_.branches()[branch];
    const NodeCells cells = CellsOf(stacks_, made.node, options_.view.full_names);
    const int64_t total = tree_.Total(branch), self = tree_.Self(branch);
    table->rows.push_back({{Cell::Number("", branch), Cell::Number("", made.parent), Cell::Number("", made.depth),
                            view_.ValueCell(total), view_.ErrorCell(tree_.Variance(branch)),
                            PercentCell(total, stacks_.Whole(0)), PercentCell(total, GroupTotal(branch)),
                            view_.ValueCell(self), view_.ValueCell(WrappedDifference(total, self)), cells.with_object,
                            cells.name, cells.file, cells.line, cells.object},
                           Heat(total),
                           {},
                           made.depth - 1});
  }

  // Adds a row for everything below `branch` that has no row of its own.
  void AddRest(uint32_t branch, TextTable* table) {
    const auto& made = tree_.branches()[branch];
    int64_t rest = tree_.Small(branch);
    uint64_t count = made.small;
    for (uint32_t i = 0; i < made.children; ++i) {
      if (shown_[made.first_child + i]) continue;
      rest = WrappedSum(rest, tree_.Total(made.first_child + i));
      ++count;
    }
    if (count == 0) return;
    // These are below the fraction, beyond the depth, or not among the largest.
    const std::string text = fmt::format("({} more {}{})", count, bottom_up_ ? "caller" : "branch",
                                         count == 1   ? ""
                                         : bottom_up_ ? "s"
                                                      : "es");
    const int64_t group = branch == CallTree::kRoot ? rest : GroupTotal(branch);
    table->rows.push_back(
        {{Cell::Number("", -1), Cell::Number("", branch), Cell::Number("", made.depth + 1), view_.ValueCell(rest),
          Cell::Text(""), PercentCell(rest, stacks_.Whole(0)), PercentCell(rest, group), Cell::Text("", ""),
          Cell::Text("", ""), Cell::Text(text), Cell::Text(text), Cell::Text(""), Cell::Number("", 0), Cell::Text("")},
         Heat(0),
         {},
         made.depth});
  }

  double Heat(int64_t value) const {
    const int64_t whole = stacks_.Whole(0);
    return whole == 0 ? 0 : static_cast<double>(Magnitude(value)) / static_cast<double>(Magnitude(whole));
  }

  const View& view_;
  const FilteredStacks& stacks_;
  const CallTree& tree_;
  const TreeOptions& options_;
  const bool bottom_up_;
  const std::vector<bool> shown_;
};

int PrintTree(const TreeOptions& options, bool bottom_up, std::ostream& out, std::ostream& err) {
  const auto style = StyleOf(options.view);
  if (!style.ok()) return Failed(style.status(), err);
  const auto pattern = Pattern::Compile("--of", options.of);
  if (!pattern.ok()) return Failed(pattern.status(), err);
  const auto view = OpenView(options.view, err);
  if (!view.ok()) return Failed(view.status(), err);
  const auto stacks = StacksOf(*view, options.view);
  if (!stacks.ok()) return Failed(stacks.status(), err);
  CallTreeOptions tree_options{.bottom_up = bottom_up, .min_fraction = options.node_fraction};
  if (options.depth != 0) tree_options.max_depth = options.depth;
  if (!pattern->empty()) {
    bool any = false;
    for (const FrameNode& node : stacks->nodes()) {
      tree_options.begin_at.push_back(pattern->Matches(node.name));
      any = any || tree_options.begin_at.back();
    }
    if (!any) {
      return Failed(NoFunctionMatches("--of " + options.of, *pattern, options.view), err);
    }
  }
  const CallTree tree(*stacks, tree_options);
  TextTable table;
  AddHeader(*view, *stacks, options.view, &table);
  if (!pattern->empty())
    table.header.push_back(fmt::format("callers  of {}: {}", options.of, view->Value(tree.Total(CallTree::kRoot))));
  TreePrinter(*view, *stacks, tree, options, bottom_up).Fill(&table);
  Print(table, *style, out);
  return 0;
}

}  // namespace

int RunTree(const TreeOptions& options, std::ostream& out, std::ostream& err) {
  return PrintTree(options, false, out, err);
}
int RunCallers(const TreeOptions& options, std::ostream& out, std::ostream& err) {
  return PrintTree(options, true, out, err);
}

}  // namespace holdfast
