#include "report/lifetimes/alive_now.h"

#include <filesystem>
#include <string_view>
#include <utility>

namespace holdfast {
namespace {

// All kinds of one snapshot share the rest of their names.
std::string HeapFileBeside(const std::string& path) {
  constexpr std::string_view kEnd = ".lifetimes.pb.gz";
  if (!path.ends_with(kEnd)) return "";
  std::string heap = path.substr(0, path.size() - kEnd.size()) + ".heap.pb.gz";
  std::error_code error;
  return std::filesystem::exists(heap, error) ? heap : "";
}

}  // namespace

std::optional<AliveNow> AliveInHeapProfiles(const View& view, const ViewOptions& options) {
  if (!options.stacks.tag_focus.empty() || !options.stacks.tag_ignore.empty()) return std::nullopt;
  ViewOptions asked = options;
  asked.kind = "heap";
  asked.metric = "inuse_space";
  asked.files.clear();
  for (const std::string& path : view.single_files) asked.files.push_back(HeapFileBeside(path));
  if (asked.files.size() != view.files) return std::nullopt;
  for (const std::string& file : asked.files) {
    if (file.empty()) return std::nullopt;
  }
  const bool rows_are_code = options.stacks.by != "age" && options.stacks.by != "freed";
  if (!rows_are_code) asked.stacks.by = "function";
  std::ostream nowhere(nullptr);
  const auto heap = OpenView(asked, nowhere);
  if (!heap.ok() || heap->files != view.files || heap->profile->time_nanos != view.profile->time_nanos)
    return std::nullopt;
  AliveNow now;
  const auto stacks = StacksOf(*heap, asked);
  if (absl::IsNotFound(stacks.status())) return now;  // the filters leave nothing of it
  if (!stacks.ok()) return std::nullopt;
  for (size_t i = 0; i < stacks->size(); ++i) {
    const auto frames = stacks->FramesOf(i);
    const auto bytes = static_cast<double>(stacks->ValuesOf(i)[0]);
    if (frames.empty() || bytes == 0) continue;
    const uint32_t node = RowNodeOf(*stacks, frames);
    const auto [row, added] = now.rows.try_emplace(stacks->nodes()[node].name);
    if (added) row->second.cells = CellsOf(*stacks, node, options.full_names);
    for (AliveNow::Row* sum : {&row->second, &now.all}) {
      sum->bytes += bytes;
      sum->variance += stacks->VarianceOf(i, 0);
    }
  }
  if (!rows_are_code) now.rows.clear();
  return now;
}

}  // namespace holdfast
