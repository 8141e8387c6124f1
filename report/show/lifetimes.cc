#include "report/show/lifetimes.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/variance.h"
#include "report/base/value_units.h"
#include "report/profile/typed_records.h"
#include "report/show/age_sums.h"
#include "report/show/node_cells.h"

namespace holdfast {
namespace {

// As kWide: widths at which the function column still has about 20 characters.
constexpr size_t kWider = 124, kWidest = 136;
constexpr size_t kFreedColumn = 0, kObjectsColumn = 1, kAliveColumn = 3;  // of kLifetimesTypes
constexpr int64_t kMicrosecondNs = 1000, kMillisecondNs = 1'000'000, kSecondNs = 1'000'000'000;

struct RowOf {
  NodeCells cells;
  int64_t number;  // for a label
  AgeSums sums;
};

absl::StatusOr<double (*)(const AgeSums&)> SortKey(const std::string& sort) {
  const std::pair<const char*, double (*)(const AgeSums&)> keys[] = {
      {"freed", [](const AgeSums& sums) { return sums.bytes; }},
      {"objects", [](const AgeSums& sums) { return sums.objects; }},
      {"temporary", [](const AgeSums& sums) { return sums.temporary; }},
      {"mean", [](const AgeSums& sums) { return static_cast<double>(sums.MeanNs()); }},
      {"alive", [](const AgeSums& sums) { return sums.alive; }}};
  for (const auto& [name, key] : keys) {
    if (sort == name) return key;
  }
  return absl::InvalidArgumentError(
      fmt::format("--sort {}: no such order. Use freed, objects, temporary, mean or alive.", sort));
}

// Returns the node for a stack's row: the function that used the memory directly, or the requested label.
uint32_t RowNodeOf(const FilteredStacks& stacks, std::span<const uint32_t> frames) {
  return stacks.nodes()[frames.back()].is_label ? frames.back() : frames.front();
}

std::vector<RowOf> RowsOf(const View& view, const FilteredStacks& stacks, bool full_names, AgeSums* all) {
  std::vector<RowOf> rows;
  absl::flat_hash_map<uint32_t, size_t> index;
  for (size_t i = 0; i < stacks.size(); ++i) {
    const auto frames = stacks.FramesOf(i);
    if (frames.empty()) continue;
    const uint32_t node = RowNodeOf(stacks, frames);
    const auto [place, added] = index.emplace(node, rows.size());
    if (added) rows.push_back({CellsOf(stacks, node, full_names), stacks.nodes()[node].number, {}});
    for (AgeSums* sums : {&rows[place->second].sums, all}) {
      sums->Add(stacks.profile(), stacks.SampleOf(i), stacks.ValuesOf(i), AgesAreDrawn(*view.profile),
                stacks.VarianceOf(i, kObjectsColumn));
      sums->variance += stacks.VarianceOf(i, kFreedColumn);
      sums->alive_variance += stacks.VarianceOf(i, kAliveColumn);
    }
  }
  return rows;
}

Cell ShareCell(double part, double whole) {
  const double percent = whole > 0 ? part * 100 / whole : 0;
  if (!(whole > 0)) return Cell::Real("-", std::nan(""));
  const int digits = percent >= 99.95 || percent < 0.05 ? 0 : 1;
  return Cell::Real(fmt::format("{:.{}f}%", percent, digits), percent);
}

Cell AgeCell(int64_t ns) {
  return ns < 0 ? Cell::Real(FormatRoughTimeNs(ns), std::nan("")) : Cell::Number(FormatRoughTimeNs(ns), ns);
}

int64_t Whole(double value) { return static_cast<int64_t>(std::min(9e18, std::round(value))); }

// A JSON value; null if unknown.
std::string TimeOrNull(int64_t ns) { return ns < 0 ? "null" : fmt::format("{}", ns); }
std::string WholeOrNull(double value) { return std::isfinite(value) ? fmt::format("{}", Whole(value)) : "null"; }

Cell AgeErrorCell(const AgeSums& sums) {
  const double error = sums.AgeErrorPercent();
  return std::isnan(error) ? Cell::Real("-", error) : Cell::Real(fmt::format("{:.0f}%", error), error);
}

std::vector<Cell> CellsOfSums(const View& view, const AgeSums& sums, double whole) {
  const double within_s = sums.ShareWithin(kSecondNs);
  const int64_t freed = Whole(sums.bytes);
  const double known = sums.KnownBytes() > 0 ? 1 : 0;
  return {view.ValueCell(freed),
          view.ErrorCell(sums.variance, !view.variances.empty()),
          ShareCell(sums.bytes, whole),
          Cell::Number(fmt::format("{}", Whole(sums.objects)), Whole(sums.objects)),
          ShareCell(sums.ShareWithin(kMicrosecondNs), known),
          ShareCell(sums.ShareWithin(kMillisecondNs), known),
          ShareCell(within_s, known),
          ShareCell(1 - within_s, known),
          AgeErrorCell(sums),
          AgeCell(sums.MedianNs()),
          AgeCell(sums.MeanNs()),
          ShareCell(sums.temporary, sums.KnownObjects()),
          ShareCell(sums.other_thread, sums.KnownObjects()),
          view.ValueCell(Whole(sums.alive)),
          view.ErrorCell(sums.alive_variance, !view.variances.empty())};
}

// Returns whether the error of the shares must be shown.
bool HasAgeErrors(const View& view, const AgeSums& all) {
  return all.AgeErrorPercent() > 0 || (AgesAreDrawn(*view.profile) && all.KnownObjects() > 0);
}

void AddLines(const View& view, const AgeSums& all, TextTable* table) {
  const double error = all.AgeErrorPercent();
  if (const std::string_view known = AgesKnownIn(*view.profile); !known.empty()) {
    table->header.push_back(fmt::format("ages     {}", known));
    if (HasAgeErrors(view, all)) table->header.back().text += fmt::format("; each share ± {:.0f} points (95 %)", error);
  }
  const double known = all.KnownObjects();
  table->header.push_back(fmt::format("freed    {} blocks", Whole(all.objects)));
  if (known > 0) {
    table->header.back().text +=
        fmt::format("{}: half lived at most {}, {:.0f}% temporary, {:.0f}% by another thread",
                    all.unknown_objects > 0 ? fmt::format("; of the {} of known age", Whole(known)) : "",
                    FormatRoughTimeNs(all.MedianNs()), 100 * all.temporary / known, 100 * all.other_thread / known);
  } else if (all.objects > 0) {
    table->header.back().text += " of unknown age";
  }
  const auto add = [table](const char* key, std::string value) { table->members.push_back({key, std::move(value)}); };
  const auto share = [known](double part) { return JsonNumber(known > 0 ? 100 * part / known : std::nan("")); };
  const auto text_or_null = [](std::string_view text) { return text.empty() ? std::string("null") : JsonString(text); };
  const record::Process& process = view.profile->process();
  add("sampled", JsonString(view.sampling));
  add("ages_known", text_or_null(AgesKnownIn(*view.profile)));
  add("started", text_or_null(process.started_ns == 0 ? "" : FormatWallTime(process.started_ns)));
  add("elapsed",
      text_or_null(process.elapsed_ns == 0 ? ""
                                           : fmt::format("{:.3f}s", static_cast<double>(process.elapsed_ns) / 1e9)));
  add("objects", fmt::format("{}", Whole(all.objects)));
  add("objects_of_unknown_age", fmt::format("{}", Whole(all.unknown_objects)));
  add("ages_error_percent", JsonNumber(error));
  add("median_ns", TimeOrNull(all.MedianNs()));
  add("mean_ns", TimeOrNull(all.MeanNs()));
  add("temporary_percent", share(all.temporary));
  add("other_thread_percent", share(all.other_thread));
  // Live blocks are censored: the ages do not include them.
  add("alive", fmt::format("{}", Whole(all.alive)));
  add("alive_error", WholeOrNull(view.variances.empty() ? std::nan("") : HalfWidthOf(all.alive_variance)));
  add("alive_of_unknown_age", fmt::format("{}", Whole(all.alive_of_unknown_age)));
  add("alive_longer_than_1s", WholeOrNull(all.AliveLongerThan(kSecondNs)));
  add("alive_longer_than_100s", WholeOrNull(all.AliveLongerThan(100 * kSecondNs)));
  // Live blocks would make the ages longer, by an unknown amount.
  if (all.alive > 0) {
    const auto share = [&all](double part) { return 100 * part / all.alive; };
    std::string text = "alive    " + view.Value(Whole(all.alive));
    if (!view.variances.empty())
      text += fmt::format(" ± {} (95 %)", view.Value(Whole(HalfWidthOf(all.alive_variance))));
    text += " in live blocks (not included above)";
    if (std::isfinite(all.AliveLongerThan(kSecondNs)))
      text += fmt::format(": {:.0f}% older than 1s, {:.0f}% older than 100s", share(all.AliveLongerThan(kSecondNs)),
                          share(all.AliveLongerThan(100 * kSecondNs)));
    if (all.alive_of_unknown_age > 0)
      text += fmt::format("; age unknown of {}, {}", view.Value(Whole(all.alive_of_unknown_age)),
                          FormatPercent(Whole(all.alive_of_unknown_age), Whole(all.alive)));
    table->header.push_back(text + " (holdfast top --by age)");
  }
}

}  // namespace

int RunLifetimes(const LifetimesOptions& given, std::ostream& out, std::ostream& err) {
  ViewOptions options = given.view;
  options.kind = "lifetimes";
  options.metric = kLifetimesTypes[0];
  options.errors = true;
  const auto style = StyleOf(options);
  if (!style.ok()) return Failed(style.status(), err);
  const auto key = SortKey(given.sort);
  if (!key.ok()) return Failed(key.status(), err);
  const auto view = OpenView(options, err);
  if (!view.ok()) return Failed(view.status(), err);
  std::vector<size_t> columns;
  for (const char* type : kLifetimesTypes) {
    const auto metric = FindMetric(*view->profile, type);
    if (!metric.ok()) return Failed(metric.status(), err);
    columns.push_back(*metric);
  }
  const auto stacks = StacksOf(*view, options, columns);
  if (!stacks.ok()) return Failed(stacks.status(), err);
  AgeSums all;
  std::vector<RowOf> rows = RowsOf(*view, *stacks, options.full_names, &all);
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const RowOf& a, const RowOf& b) { return (*key)(a.sums) > (*key)(b.sums); });
  if (options.stacks.by == "age") {
    // Unknown ages are last.
    const auto unknown_last = [](const RowOf& row) { return std::pair(row.number == 0, row.number); };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const RowOf& a, const RowOf& b) { return unknown_last(a) < unknown_last(b); });
  }
  const size_t count = rows.size();
  if (options.node_count != 0 && rows.size() > options.node_count) rows.resize(options.node_count);

  TextTable table;
  AddHeader(*view, *stacks, options, &table);
  AddLines(*view, all, &table);
  table.header.push_back(fmt::format("showing  {} of {} rows", rows.size(), count));
  const std::string what = options.stacks.by;
  const bool has_object = what == "function" || what == "line" || what == "file" || what == "package";
  // The column that determines the order is always shown.
  const auto from = [&given](const char* sort, size_t width) { return given.sort == sort ? 0 : width; };
  table.columns = {{"freed", "freed", Column::kRight, 5},
                   {"freed_error", "±", Column::kRight, 0, 1, kWider},
                   {"freed_percent", "freed%", Column::kRight, 6, 1, kRoomy},
                   {"objects", "blocks", Column::kRight, 5, 1, from("objects", kWider)},
                   {"within_1us_percent", "≤1us", Column::kRight, 5, 1, kWide},
                   {"within_1ms_percent", "≤1ms", Column::kRight, 5},
                   {"within_1s_percent", "≤1s", Column::kRight, 5},
                   {"longer_percent", ">1s", Column::kRight, 5, 1, kWide},
                   {"ages_error_percent", HasAgeErrors(*view, all) ? "±ages" : "", Column::kRight, 0, 1, kRoomy},
                   {"median_ns", "median", Column::kRight, 6},
                   {"mean_ns", "mean", Column::kRight, 5, 1, from("mean", kWide)},
                   {"temporary_percent", "temp%", Column::kRight, 5},
                   {"other_thread_percent", "other%", Column::kRight, 6, 1, kWide},
                   {"alive", "alive", Column::kRight, 5, 1, from("alive", kRoomy)},
                   {"alive_error", all.alive_variance > 0 ? "±" : "", Column::kRight, 0, 1, kWidest},
                   {"", has_object ? what + "  (object)" : what, Column::kLeft, 0, 2, 0, true},
                   {what == "freed" ? "freed_by" : what, "", Column::kLeft}};  // `freed` is the bytes
  for (const RowOf& row : rows) {
    TableRow& made = table.rows.emplace_back();
    made.cells = CellsOfSums(*view, row.sums, all.bytes);
    made.cells.push_back(row.cells.with_object);
    made.cells.push_back(row.cells.name);
    made.heat = all.bytes > 0 ? row.sums.bytes / all.bytes : 0;
  }
  Print(table, *style, out);
  return 0;
}

}  // namespace holdfast
