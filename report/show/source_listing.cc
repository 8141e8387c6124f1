#include "report/show/source_listing.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "fmt/format.h"
#include "report/analysis/flat_table.h"
#include "report/base/pattern.h"
#include "report/base/value_units.h"
#include "report/show/no_match.h"
#include "report/show/node_cells.h"

namespace holdfast {
namespace {

constexpr uintmax_t kMaxSourceBytes = 64 << 20;

// Returns the lines of a source file, or none if the file is not on this machine. Opens only regular files, because
// anybody may have made the file that contains the paths.
std::vector<std::string> ReadSourceFile(const std::string& path, const std::vector<std::string>& folders) {
  std::vector<std::filesystem::path> candidates = {path};
  for (const std::string& folder : folders) {
    // For /build/app/src/a.cc in /home/me/app: try the longest suffix of the path that exists there.
    for (std::filesystem::path rest = std::filesystem::path(path).relative_path(); !rest.empty();) {
      candidates.push_back(std::filesystem::path(folder) / rest);
      std::filesystem::path shorter;
      for (auto part = std::next(rest.begin()); part != rest.end(); ++part) shorter /= *part;
      rest = shorter;
    }
  }
  for (const auto& candidate : candidates) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(candidate, error)) continue;
    if (const auto size = std::filesystem::file_size(candidate, error); error || size > kMaxSourceBytes) continue;
    std::ifstream file(candidate);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
      std::string shown;
      for (const char c : line) shown += c == '\t' ? std::string(8 - shown.size() % 8, ' ') : std::string(1, c);
      lines.push_back(std::move(shown));
    }
    if (!lines.empty()) return lines;
  }
  return {};
}

struct Values {
  int64_t self = 0, total = 0;
  double self_variance = 0, total_variance = 0;
};

struct Listing {
  std::string function, file;
  int64_t start_line = 0;
  std::map<int64_t, Values> lines;
};

}  // namespace

int RunList(const ListOptions& options, std::ostream& out, std::ostream& err) {
  const auto style = StyleOf(options.view);
  if (!style.ok()) return Failed(style.status(), err);
  const auto pattern = Pattern::Compile("list", options.function);
  if (!pattern.ok()) return Failed(pattern.status(), err);
  const auto view = OpenView(options.view, err);
  if (!view.ok()) return Failed(view.status(), err);
  ViewOptions by_line = options.view;
  by_line.stacks.by = "line";
  const auto stacks = StacksOf(*view, by_line);
  if (!stacks.ok()) return Failed(stacks.status(), err);
  const FlatTable flat(*stacks);
  const StringTable& strings = stacks->profile().strings;

  // Functions with one name in several files are listed separately.
  std::map<std::pair<std::string_view, std::string_view>, Listing> listings;
  bool matches = false;
  for (const uint32_t node : flat.Sorted(true)) {
    const FrameNode& made = stacks->nodes()[node];
    if (made.function == 0 || !pattern->Matches(strings[made.function])) continue;
    matches = true;
    if (made.line == 0) continue;
    Listing& listing = listings[{strings[made.function], strings[made.file]}];
    listing.function = strings[made.function];
    listing.file = strings[made.file];
    Values& values = listing.lines[made.line];
    values.self = WrappedSum(values.self, flat.Self(node));
    values.total = WrappedSum(values.total, flat.Total(node));
    values.self_variance += flat.SelfVariance(node);
    values.total_variance += flat.TotalVariance(node);
  }
  if (listings.empty()) {
    if (!matches) return Failed(NoFunctionMatches(options.function, *pattern, options.view), err);
    const std::string why = fmt::format(
        "{}: the profile has no source lines for this function. Add them with holdfast symbolize on a machine with its debug information.",
        options.function);
    return Failed(absl::NotFoundError(why), err);
  }
  for (const Profile::Function& function : stacks->profile().functions) {
    const auto found = listings.find({strings[function.name], strings[function.filename]});
    if (found != listings.end() && function.start_line > 0) found->second.start_line = function.start_line;
  }

  TextTable table;
  AddHeader(*view, *stacks, options.view, &table);
  const char* error_title = options.view.errors ? "±" : "";
  table.columns = {{"function", ""},
                   {"file", ""},
                   {"self", "self", Column::kRight, 5},
                   {"self_error", error_title},
                   {"total", "total", Column::kRight, 5},
                   {"total_error", error_title},
                   {"total_percent", "total%", Column::kRight, 6, 1, kRoomy},
                   {"line", "line", Column::kRight, 5},
                   {"source", "source", Column::kLeft, 0, 2}};
  const int64_t whole = stacks->Whole(0);
  for (const auto& [key, listing] : listings) {
    const std::vector<std::string> source = ReadSourceFile(listing.file, options.source_paths);
    const auto text_row = [&](const std::string& text, bool is_heading = false) {
      if (style->format != Format::kTable) return;
      std::vector<Cell> cells(table.columns.size(), Cell::Text(""));
      cells.back() = Cell::Text(text);
      table.rows.push_back({std::move(cells), 0.005, {}, 0, is_heading});
    };
    text_row(fmt::format("{}  {}{}", listing.function, listing.file.empty() ? "(no file)" : listing.file,
                         source.empty() ? "  (source not found: use --source-path)" : ""),
             true);
    int64_t last = 0;
    const auto context = static_cast<int64_t>(options.context);
    for (auto line = listing.lines.begin(); line != listing.lines.end(); ++line) {
      const auto next = std::next(line);
      const int64_t size = static_cast<int64_t>(source.size());
      int64_t from = line->first, to = line->first;
      if (style->format == Format::kTable && !source.empty()) {
        from = std::max<int64_t>(
            {last + 1, line->first - context, std::min(line->first, std::max<int64_t>(1, listing.start_line))});
        to = std::min(size, line->first + context);
        if (next != listing.lines.end()) to = std::min(to, next->first - 1);
        to = std::max(to, line->first);
        if (last != 0 && from > last + 1) text_row("…");
      }
      for (int64_t number = from; number <= to; ++number) {
        const bool used = number == line->first;
        const std::string text = number >= 1 && number <= size ? source[static_cast<size_t>(number - 1)] : "";
        const Values& v = line->second;
        table.rows.push_back(
            {{Cell::Text(listing.function), Cell::Text(listing.file), used ? view->ValueCell(v.self) : Cell::Text(""),
              used ? view->ErrorCell(v.self_variance) : Cell::Text(""),
              used ? view->ValueCell(v.total) : Cell::Text(""),
              used ? view->ErrorCell(v.total_variance) : Cell::Text(""),
              used ? PercentCell(v.total, whole) : Cell::Text(""), Cell::Number(fmt::format("{}", number), number),
              Cell::Text(text)},
             used && whole != 0 ? static_cast<double>(Magnitude(v.total)) / static_cast<double>(Magnitude(whole))
                                : 0.005});
      }
      last = to;
    }
    text_row("");
  }
  Print(table, *style, out);
  return 0;
}

}  // namespace holdfast
