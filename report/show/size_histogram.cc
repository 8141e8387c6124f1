#include "report/show/size_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "report/analysis/profiles/metric.h"
#include "report/base/value_units.h"
#include "report/show/node_cells.h"

namespace holdfast {
namespace {

constexpr uint64_t kLargestRow = uint64_t{1} << 62;
constexpr size_t kBarWidth = 20;

// Returns the label with the size of a sample's objects, or 0 if there is none.
uint64_t LabelledSize(const Profile& profile, const Profile::Sample& sample) {
  for (const Profile::Label& label : profile.LabelsOf(sample)) {
    if (profile.strings[label.key] == "bytes" && label.text == 0 && label.number > 0)
      return static_cast<uint64_t>(label.number);
  }
  return 0;
}

uint64_t MeanSize(std::span<const int64_t> values) {
  if (values.size() < 3 || values[1] == 0) return 0;
  const double mean = std::abs(static_cast<double>(values[2]) / static_cast<double>(values[1]));
  return mean < static_cast<double>(kLargestRow) ? static_cast<uint64_t>(std::ceil(mean)) : kLargestRow;
}

// "inuse_space" and "objects" give "inuse_objects". Plain "space" and "objects" are a pair, too.
std::string Sibling(const std::string& metric, std::string_view ending) {
  const size_t split = metric.rfind('_');
  return (split == std::string::npos ? "" : metric.substr(0, split + 1)) + std::string(ending);
}

std::string Bar(int64_t value, uint64_t largest) {
  constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (largest == 0 || value == 0) return "";
  const auto eighths = static_cast<size_t>(std::max(
      1.0, std::round(8.0 * kBarWidth * static_cast<double>(Magnitude(value)) / static_cast<double>(largest))));
  std::string bar;
  for (size_t i = 0; i < eighths / 8; ++i) bar += "█";
  return bar + std::string(kEighths[eighths % 8]);
}

}  // namespace

std::vector<SizeRow> SizeRowsOf(const FilteredStacks& stacks) {
  const Profile& profile = stacks.profile();
  std::map<uint64_t, SizeRow> rows;
  for (size_t i = 0; i < stacks.size(); ++i) {
    const auto values = stacks.ValuesOf(i);
    uint64_t size = LabelledSize(profile, profile.samples[stacks.SampleOf(i)]);
    if (size == 0) size = MeanSize(values);
    const uint64_t most = size == 0 ? 0 : size >= kLargestRow ? kLargestRow : std::bit_ceil(size);
    SizeRow& row = rows[most];
    row.value = WrappedSum(row.value, values[0]);
    if (values.size() > 1) row.objects = WrappedSum(row.objects, values[1]);
    row.variance += stacks.VarianceOf(i, 0);
  }
  const auto known = rows.upper_bound(0);
  if (known != rows.end()) {
    for (uint64_t most = known->first; most < rows.rbegin()->first; most *= 2) rows[most];
  }
  std::vector<SizeRow> made;
  for (auto& [most, row] : rows) {
    row.most = most;
    made.push_back(row);
  }
  if (!made.empty() && made.front().most == 0) std::rotate(made.begin(), made.begin() + 1, made.end());
  return made;
}

absl::Status PrintSizes(const View& view, const ViewOptions& options, const Style& style, std::ostream& out) {
  const Profile& profile = *view.profile;
  const auto objects = FindMetric(profile, Sibling(view.metric_name, "objects"));
  const auto bytes = FindMetric(profile, Sibling(view.metric_name, "space"));
  const bool has_labels =
      std::any_of(profile.samples.begin(), profile.samples.end(),
                  [&](const Profile::Sample& sample) { return LabelledSize(profile, sample) != 0; });
  if (!has_labels && !(objects.ok() && bytes.ok())) {
    return absl::InvalidArgumentError(fmt::format(
        "--by size: {} has no sizes. Use a profile of kind heap, peak, map or lifetimes.", view.metric_name));
  }
  std::vector<size_t> columns = {view.metric};
  if (objects.ok()) columns.push_back(*objects);
  if (objects.ok() && bytes.ok()) columns.push_back(*bytes);
  ViewOptions by_function = options;
  by_function.stacks.by = "function";
  const auto stacks = StacksOf(view, by_function, columns);
  if (!stacks.ok()) return stacks.status();

  const std::vector<SizeRow> rows = SizeRowsOf(*stacks);
  const int64_t whole = stacks->Whole(0);
  uint64_t largest = 0;
  for (const SizeRow& row : rows) largest = std::max(largest, Magnitude(row.value));
  TextTable table;
  AddHeader(view, *stacks, options, &table);
  if (!has_labels && style.format == Format::kTable)
    table.header.emplace_back("sizes    the file has no sizes: uses the mean size of each stack");
  table.columns = {{"size", "size", Column::kLeft},
                   {"objects", objects.ok() ? "objects" : "", Column::kRight, 7, 2},
                   {"self", "self", Column::kRight, 5, 2},
                   {"self_error", options.errors ? "±" : "", Column::kRight},
                   {"self_percent", "self%", Column::kRight, 6},
                   {"", " ", Column::kLeft, 0, 1, kRoomy}};
  for (const SizeRow& row : rows) {
    const auto most = static_cast<int64_t>(row.most);
    table.rows.push_back(
        {{Cell::Number(row.most == 0 ? "not known" : "up to " + FormatSize(most), most),
          Cell::Number(fmt::format("{}", row.objects), row.objects), view.ValueCell(row.value),
          view.ErrorCell(row.variance), PercentCell(row.value, whole), Cell::Text(Bar(row.value, largest), "")},
         ShareOfWhole(row.value, whole)});
  }
  Print(table, style, out);
  return absl::OkStatus();
}

}  // namespace holdfast
