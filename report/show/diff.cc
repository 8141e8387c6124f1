#include "report/show/diff.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "report/base/value_units.h"
#include "report/show/profile_diff.h"

namespace holdfast {

int RunDiff(const DiffOptions& options, std::ostream& out, std::ostream& err) {
  const auto style = StyleOf(options.view);
  if (!style.ok()) return Failed(style.status(), err);
  auto both = Compare(options.view, options.compare, err);
  if (!both.ok()) return Failed(both.status(), err);
  const View& view = both->view;
  std::vector<Change> changes = std::move(both->changes);
  SortChanges(options.view.by_total, &changes);
  const size_t all = changes.size();
  const auto within = static_cast<size_t>(
      std::count_if(changes.begin(), changes.end(), [](const Change& change) { return change.WithinError(); }));
  if (options.only_significant) std::erase_if(changes, [](const Change& change) { return change.WithinError(); });
  if (options.view.node_count != 0 && changes.size() > options.view.node_count) changes.resize(options.view.node_count);

  TextTable table;
  const int64_t base_total = both->base_total, head_total = both->head_total;
  const int64_t delta = WrappedDifference(head_total, base_total);
  const auto signed_value = [&](int64_t value) { return (value > 0 ? "+" : "") + view.Value(value); };
  const auto labelled = [](const std::string& label) { return label.empty() ? "" : fmt::format("  ({})", label); };
  table.header = {
      fmt::format("program  {}{}", both->base_program == view.program ? "" : both->base_program + " → ", view.program),
      fmt::format("metric   {}{}", view.metric_name, view.kind.empty() ? "" : fmt::format(" ({})", view.kind)),
      fmt::format("base     {}{}", view.Value(base_total), labelled(options.compare.base_label)),
      fmt::format("head     {}{}{}", view.Value(head_total), labelled(options.compare.head_label),
                  options.compare.normalize ? " (scaled to the base)" : ""),
      fmt::format(
          "change   {}{}", signed_value(delta),
          base_total == 0 ? "" : fmt::format(", {}{}", delta < 0 ? "-" : "+", FormatPercent(delta, base_total)))};
  if (both->base_ended > 0) table.header.push_back("ended    base: " + both->base_ended_text);
  if (view.ended > 0) table.header.push_back("ended    head: " + view.EndedText());
  if (!view.sampling.empty()) table.header.push_back(fmt::format("sampled  {}", view.sampling));
  table.header.push_back(fmt::format("showing  {} of {} changed functions, {} of them within the sampling error (≈)",
                                     changes.size(), all, within));
  table.members = {{"program", JsonString(view.program)},
                   {"metric", JsonString(view.metric_name)},
                   {"unit", JsonString(view.unit_name)},
                   {"base_total", fmt::format("{}", base_total)},
                   {"head_total", fmt::format("{}", head_total)},
                   {"within_error", fmt::format("{}", within)},
                   {"base_ended", fmt::format("{}", both->base_ended)},
                   {"head_ended", fmt::format("{}", view.ended)}};
  const bool by_total = options.view.by_total;
  table.columns = {{"base", "base", Column::kRight, 5, 1, kWide},
                   {"head", "head", Column::kRight, 5, 1, kRoomy},
                   {"self_delta", "Δself", Column::kRight, 6, 1, by_total ? kWide : 0},
                   {"total_delta", "Δtotal", Column::kRight, 6, 1, by_total ? 0 : kRoomy},
                   {"total_error", "±", Column::kRight, 0, 1, kWide},
                   {"within_error", ""},
                   {"change", "change", Column::kLeft, 8, 2},
                   {"", "function  (object)", Column::kLeft, 0, 1, 0, true},
                   {"function", ""},
                   {"file", ""},
                   {"line", ""},
                   {"object", ""}};
  for (const Change& change : changes) {
    const bool error = change.WithinError();
    const char* kind = change.base_total == 0                                             ? "added"
                       : change.head_total == 0                                           ? "removed"
                       : change.total() > 0 || (change.total() == 0 && change.self() > 0) ? "grown"
                                                                                          : "shrunk";
    const NodeCells& cells = change.cells;
    const int64_t larger = std::max<int64_t>(1, std::max(base_total, head_total));
    table.rows.push_back({{view.ValueCell(change.base_total), view.ValueCell(change.head_total),
                           Cell::Number(signed_value(change.self()), change.self()),
                           Cell::Number(signed_value(change.total()), change.total()),
                           view.ErrorCell(change.total_variance, both->errors_known), Cell::Text(error ? "yes" : "no"),
                           Cell::Text(fmt::format("{}{}", error ? "≈ " : "", kind), kind), cells.with_object,
                           cells.name, cells.file, cells.line, cells.object},
                          error ? 0 : static_cast<double>(Magnitude(change.total())) / static_cast<double>(larger)});
  }
  Print(table, *style, out);
  return 0;
}

}  // namespace holdfast
