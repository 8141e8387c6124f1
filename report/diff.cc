#include "report/diff.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "report/flat_table.h"
#include "report/metric.h"
#include "report/node_cells.h"
#include "report/printable.h"
#include "report/progress.h"
#include "report/units.h"
#include "report/variance.h"

namespace holdfast {
namespace {

constexpr double kSigmas = 3;

// One side: its files, read and chosen.
struct Side {
  ProfileSet set;
  std::vector<const ProfileFile*> files;
};

absl::StatusOr<Side> ReadSide(const std::vector<std::string>& arguments, const ViewOptions& options,
                              std::ostream& err) {
  Progress progress("reading profile");
  auto set = ReadProfileSet(
      arguments, {.kind = options.kind, .progress = [&](size_t done, size_t all) { progress.Show(done, all); }});
  progress.Clear();
  if (!set.ok()) return set.status();
  Side side{*std::move(set), {}};
  ViewOptions own = options;
  own.files = arguments;
  auto files = FilesThatCount(&side.set, own, err);
  if (!files.ok()) return files.status();
  side.files = *std::move(files);
  return side;
}

// Of one folder: the oldest and the newest snapshot of each process.
absl::StatusOr<std::pair<Side, Side>> FirstAndLast(const ViewOptions& options, std::ostream& err) {
  auto set = ReadProfileSet(options.files, {.keep = Keep::kAll, .kind = options.kind});
  if (!set.ok()) return set.status();
  std::pair<Side, Side> sides;
  std::ostream nowhere(nullptr);  // which files count is another question here
  if (const auto one_kind = FilesThatCount(&*set, options, nowhere); !one_kind.ok()) return one_kind.status();
  for (const ProfileGroup& group : set->groups) {
    if (group.files.size() < 2 || group.process.empty()) continue;
    sides.first.files.push_back(&group.files.front());
    sides.second.files.push_back(&group.files.back());
  }
  if (sides.first.files.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: nothing to compare: no process has two snapshots there. Give a base and a head: holdfast diff BASE HEAD.",
        options.files[0]));
  }
  sides.first.set = *std::move(set);
  return sides;
}

absl::Status AddSide(const Side& side, size_t number, ProfileMerger* merger) {
  for (const ProfileFile* file : side.files) {
    const auto added = merger->Add(*file->profile, VariancesOf(*file->profile), number);
    if (!added.ok())
      return absl::InvalidArgumentError(fmt::format("{}: {}.", file->path, std::string(added.message())));
  }
  return absl::OkStatus();
}

std::string ProcessOf(const Side& side) {
  std::string process = side.files[0]->process;
  for (const ProfileFile* file : side.files) {
    if (file->process != process) return "";
  }
  return process;
}

void Normalize(size_t metric, size_t types, Profile* profile, std::vector<double>* variances) {
  const double base = static_cast<double>(profile->Total(metric)),
               head = static_cast<double>(profile->Total(types + metric));
  if (head == 0) return;
  for (size_t i = 0; i < profile->samples.size(); ++i) {
    int64_t& value = profile->ValuesOf(i)[types + metric];
    value = std::llround(static_cast<double>(value) * (base / head));
    if (!variances->empty()) (*variances)[i * 2 * types + types + metric] *= (base / head) * (base / head);
  }
}

}  // namespace

int64_t Change::self() const { return WrappedDifference(head_self, base_self); }
int64_t Change::total() const { return WrappedDifference(head_total, base_total); }
bool Change::WithinError() const {
  return total_variance > 0 && static_cast<double>(Magnitude(total())) <= kSigmas * std::sqrt(total_variance) &&
         static_cast<double>(Magnitude(self())) <= kSigmas * std::sqrt(std::max(self_variance, total_variance));
}

absl::StatusOr<Comparison> Compare(const ViewOptions& options, const std::vector<std::string>& base, bool normalize,
                                   std::ostream& err) {
  Side base_side, head_side;
  ViewOptions head = options;
  if (base.empty() && options.files.size() == 1) {
    auto sides = FirstAndLast(options, err);
    if (!sides.ok()) return sides.status();
    std::tie(base_side, head_side) = *std::move(sides);
  } else {
    std::vector<std::string> base_files = base;
    if (base.empty()) {
      if (options.files.size() != 2) {
        return absl::InvalidArgumentError(
            "diff: takes a base and a head. Name more than one file of a side with --base FILE … and HEAD ….");
      }
      base_files = {options.files[0]};
      head.files = {options.files[1]};
    }
    auto read_base = ReadSide(base_files, options, err);
    if (!read_base.ok()) return read_base.status();
    auto read_head = ReadSide(head.files, options, err);
    if (!read_head.ok()) return read_head.status();
    base_side = *std::move(read_base);
    head_side = *std::move(read_head);
  }
  if (base_side.files[0]->types != head_side.files[0]->types) {
    return absl::InvalidArgumentError(fmt::format("{}: of another kind ({}) than {} ({}). Give files of one kind.",
                                                  head_side.files[0]->path, head_side.files[0]->kind,
                                                  base_side.files[0]->path, base_side.files[0]->kind));
  }
  auto view = ViewOf({head_side.files[0]}, options);
  if (!view.ok()) return view.status();
  Comparison both{*std::move(view), head_side.files[0]->profile->sample_types.size(), false};
  const std::string process = ProcessOf(base_side);
  both.same_process = !process.empty() && process == ProcessOf(head_side) && base_side.files[0]->cumulative();
  ProfileMerger merger(2);
  if (const auto added = AddSide(base_side, 0, &merger); !added.ok()) return added;
  if (const auto added = AddSide(head_side, 1, &merger); !added.ok()) return added;
  Merged merged = merger.Take();
  if (normalize) Normalize(both.view.metric, both.types, merged.profile.get(), &merged.variances);
  both.view.profile = std::move(merged.profile);
  both.view.variances = std::move(merged.variances);
  return both;
}

std::vector<Change> ChangesOf(const Stacks& stacks, bool same_process, bool by_total) {
  const FlatTable flat(stacks);
  // The variance of each difference, stack by stack, as FlatTable counts them.
  std::vector<double> self_variance(stacks.nodes().size()), total_variance(stacks.nodes().size());
  std::vector<uint32_t> seen(stacks.nodes().size());
  for (size_t i = 0; stacks.has_variances() && i < stacks.size(); ++i) {
    const double base = stacks.VarianceOf(i, 0), head = stacks.VarianceOf(i, 1);
    const double variance = same_process ? std::abs(head - base) : base + head;
    const auto frames = stacks.FramesOf(i);
    for (const uint32_t node : frames) {
      if (std::exchange(seen[node], static_cast<uint32_t>(i + 1)) != i + 1) total_variance[node] += variance;
    }
    if (!frames.empty()) self_variance[frames[0]] += variance;
  }
  std::vector<Change> changes;
  for (uint32_t node = 0; node < stacks.nodes().size(); ++node) {
    const Change change{node,
                        flat.Self(node, 0),
                        flat.Total(node, 0),
                        flat.Self(node, 1),
                        flat.Total(node, 1),
                        self_variance[node],
                        total_variance[node]};
    if (change.self() != 0 || change.total() != 0) changes.push_back(change);
  }
  std::sort(changes.begin(), changes.end(), [&](const Change& a, const Change& b) {
    const auto key = [by_total](const Change& change) {
      const uint64_t self = Magnitude(change.self()), total = Magnitude(change.total());
      return by_total ? std::pair(total, self) : std::pair(self, total);
    };
    const auto a_key = key(a), b_key = key(b);
    return a_key != b_key ? a_key > b_key : stacks.nodes()[a.node].name < stacks.nodes()[b.node].name;
  });
  return changes;
}

int RunDiff(const DiffOptions& options, std::ostream& out, std::ostream& err) {
  const auto style = StyleFor(options.view.format, options.view.color);
  if (!style.ok()) return Failed(style.status(), err);
  auto both = Compare(options.view, options.base, options.normalize, err);
  if (!both.ok()) return Failed(both.status(), err);
  const View& view = both->view;
  const auto stacks = StacksOf(view, options.view, {view.metric, both->types + view.metric});
  if (!stacks.ok()) return Failed(stacks.status(), err);
  std::vector<Change> changes = ChangesOf(*stacks, both->same_process, options.view.by_total);
  const size_t all = changes.size();
  const auto within = static_cast<size_t>(
      std::count_if(changes.begin(), changes.end(), [](const Change& change) { return change.WithinError(); }));
  if (options.only_significant) std::erase_if(changes, [](const Change& change) { return change.WithinError(); });
  if (options.view.node_count != 0 && changes.size() > options.view.node_count) changes.resize(options.view.node_count);

  ViewTable table;
  const int64_t base_total = stacks->Selected(0), head_total = stacks->Selected(1);
  const int64_t delta = WrappedDifference(head_total, base_total);
  const auto signed_value = [&](int64_t value) { return (value > 0 ? "+" : "") + view.Value(value); };
  table.header = {
      fmt::format("program  {}", view.program),
      fmt::format("metric   {}{}", view.metric_name, view.kind.empty() ? "" : fmt::format(" ({})", view.kind)),
      fmt::format("base     {}", view.Value(base_total)),
      fmt::format("head     {}{}", view.Value(head_total), options.normalize ? " (scaled to the base)" : ""),
      fmt::format(
          "change   {}{}", signed_value(delta),
          base_total == 0 ? "" : fmt::format(", {}{}", delta < 0 ? "−" : "+", FormatPercent(delta, base_total)))};
  if (!view.sampling.empty()) table.header.push_back(fmt::format("sampled  {}", view.sampling));
  table.header.push_back(
      fmt::format("showing  {} of {} functions that differ, {} of them within the sampling error (≈)", changes.size(),
                  all, within));
  table.members = {{"program", JsonString(view.program)},         {"metric", JsonString(view.metric_name)},
                   {"unit", JsonString(view.unit_name)},          {"base_total", fmt::format("{}", base_total)},
                   {"head_total", fmt::format("{}", head_total)}, {"within_error", fmt::format("{}", within)}};
  table.columns = {{"base", "base", Column::kRight, 5},
                   {"head", "head", Column::kRight, 5},
                   {"self_delta", "Δself", Column::kRight, 6},
                   {"total_delta", "Δtotal", Column::kRight, 6},
                   {"total_error", "±"},
                   {"within_error", ""},
                   {"change", "change", Column::kLeft, 8, 2},
                   {"", "function  (object)", Column::kLeft, 0, 1},
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
    const NodeCells cells = CellsOf(*stacks, change.node);
    const int64_t larger = std::max<int64_t>(1, std::max(base_total, head_total));
    table.rows.push_back(
        {{view.ValueCell(change.base_total), view.ValueCell(change.head_total),
          Cell::Number(signed_value(change.self()), change.self()),
          Cell::Number(signed_value(change.total()), change.total()), view.ErrorCell(change.total_variance),
          Cell::Text(error ? "yes" : "no"), Cell::Text(fmt::format("{}{}", error ? "≈ " : "", kind), kind),
          cells.with_object, cells.name, cells.file, cells.line, cells.object},
         error ? 0 : static_cast<double>(Magnitude(change.total())) / static_cast<double>(larger)});
  }
  Print(table, *style, out);
  return 0;
}

}  // namespace holdfast
