#include "report/show/call_graph.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>

#include "fmt/format.h"
#include "report/analysis/call_edges.h"
#include "report/analysis/flat_table.h"
#include "report/base/atomic_file.h"
#include "report/base/base_name.h"
#include "report/base/printable.h"
#include "report/base/utf8.h"
#include "report/base/value_units.h"
#include "report/show/export_formats.h"
#include "report/show/node_cells.h"

namespace holdfast {
namespace {

constexpr size_t kLongestName = 80;

std::string DotText(std::string_view text) {
  std::string made;
  for (const char c : Printable(text)) {
    if (c == '"' || c == '\\') made += '\\';
    made += c;
  }
  return made;
}

std::string CutName(const std::string& name) {
  if (name.size() <= kLongestName) return name;
  const size_t valid = ValidUtf8Prefix(std::string_view(name).substr(0, kLongestName));
  return name.substr(0, valid) + "…";
}

// Returns a colour from grey to red for a fraction of the total.
std::string ColorOf(double share) {
  const double strength = std::pow(std::min(1.0, share), 0.6);
  return fmt::format("#{:02x}{:02x}{:02x}", static_cast<int>(0xee + 0x11 * strength),
                     static_cast<int>(0xee - 0x78 * strength), static_cast<int>(0xee - 0x90 * strength));
}

// Starts at the largest root and always follows the largest arrow.
std::set<const CallEdge*> HeaviestPath(const std::vector<CallEdge>& edges, uint32_t from) {
  std::set<const CallEdge*> path;
  std::set<uint32_t> visited = {from};
  while (true) {
    const auto next = std::find_if(edges.begin(), edges.end(), [&](const CallEdge& edge) {
      return edge.caller == from && !visited.contains(edge.callee);
    });
    if (next == edges.end()) return path;
    path.insert(&*next);
    from = next->callee;
    visited.insert(from);
  }
}

// Runs `dot` from PATH. It reads a temporary file, so that neither process waits for the other's pipe.
absl::StatusOr<std::string> Drawn(const std::string& dot, const std::string& format) {
  FILE* source = tmpfile();
  if (source == nullptr) return absl::InternalError("graph: cannot create a temporary file. Check TMPDIR.");
  fwrite(dot.data(), 1, dot.size(), source);
  fflush(source);
  rewind(source);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    fclose(source);
    return absl::InternalError("graph: cannot create a pipe. Raise the limit of open files (ulimit -n).");
  }
  const std::string wanted = "-T" + format;
  const pid_t child = fork();
  if (child == 0) {
    dup2(fileno(source), STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    execlp("dot", "dot", wanted.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  std::string drawing;
  char buffer[65536];
  for (ssize_t n; child > 0 && (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    drawing.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  fclose(source);
  int status = -1;
  if (child > 0) waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    return absl::NotFoundError(
        fmt::format("graph: dot is not installed, but draws {}. Install graphviz, or use --format dot.", format));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || drawing.empty()) {
    return absl::InternalError("graph: dot failed. Use --format dot, or a smaller --nodecount.");
  }
  return drawing;
}

constexpr std::string_view kFormats[] = {"dot", "svg", "png", "pdf", "callgrind"};
constexpr std::string_view kNextFormat = "Use dot, svg, png, pdf or callgrind.";

// Returns the format by the extension of the file; "" means dot. A file named as a picture must not contain text.
absl::StatusOr<std::string> FormatFor(const GraphOptions& options) {
  const auto known = [](std::string_view format) {
    return std::count(std::begin(kFormats), std::end(kFormats), format) > 0;
  };
  if (!options.format.empty()) {
    if (known(options.format)) return options.format;
    return absl::InvalidArgumentError(fmt::format("--format {}: no such format. {}", options.format, kNextFormat));
  }
  const std::string_view name = BaseName(options.output);
  const size_t point = name.rfind('.');
  if (options.output == "-" || point == std::string_view::npos || point == 0) return "dot";
  std::string ending(name.substr(point + 1));
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (ending == "gv" || ending == "txt") return "dot";
  if (known(ending)) return ending;
  return absl::InvalidArgumentError(
      fmt::format("graph -o {}: .{} is not a known format. Name another file, or give --format. {}", options.output,
                  ending, kNextFormat));
}

}  // namespace

std::string DotOf(const View& view, const FilteredStacks& stacks, const GraphOptions& options) {
  const FlatTable flat(stacks);
  std::vector<uint32_t> nodes = flat.Sorted(true);
  const int64_t whole = stacks.Whole(0);
  std::erase_if(nodes, [&](uint32_t node) { return ShareOfWhole(flat.Total(node), whole) < options.node_fraction; });
  if (options.view.node_count != 0 && nodes.size() > options.view.node_count) nodes.resize(options.view.node_count);
  std::vector<bool> kept(stacks.nodes().size());
  for (const uint32_t node : nodes) kept[node] = true;
  std::vector<CallEdge> edges = CallEdges(stacks, kept);
  std::erase_if(edges,
                [&](const CallEdge& edge) { return ShareOfWhole(edge.values[0], whole) < options.edge_fraction; });

  std::string dot = "digraph profile {\n  node [shape=box style=filled fontname=\"sans-serif\"];\n";
  dot += fmt::format("  label=\"{}: {}, {} of {}\";\n", DotText(view.program), DotText(view.metric_name),
                     view.Value(stacks.Selected(0)), view.Value(whole));
  for (const uint32_t node : nodes) {
    const double self_share = ShareOfWhole(flat.Self(node), whole);
    dot += fmt::format("  n{} [label=\"{}\\n{} ({})\\nof {} ({})\" fontsize={:.0f} fillcolor=\"{}\" tooltip=\"{}\"];\n",
                       node, DotText(CutName(stacks.nodes()[node].name)), view.Value(flat.Self(node)),
                       FormatPercent(flat.Self(node), whole), view.Value(flat.Total(node)),
                       FormatPercent(flat.Total(node), whole), 8 + 16 * std::sqrt(std::min(1.0, self_share)),
                       ColorOf(ShareOfWhole(flat.Total(node), whole)), DotText(stacks.nodes()[node].name));
  }
  const auto heaviest = nodes.empty() ? std::set<const CallEdge*>() : HeaviestPath(edges, nodes[0]);
  for (const CallEdge& edge : edges) {
    dot += fmt::format("  n{} -> n{} [label=\"{}\" penwidth={:.1f}{}{}];\n", edge.caller, edge.callee,
                       view.Value(edge.values[0]), 1 + 4 * std::min(1.0, ShareOfWhole(edge.values[0], whole)),
                       heaviest.contains(&edge) ? " color=\"#c00000\" fontcolor=\"#c00000\"" : "",
                       edge.residual ? " style=dashed" : "");
  }
  return dot + "}\n";
}

int RunGraph(const GraphOptions& options, std::ostream& out, std::ostream& err) {
  const auto format = FormatFor(options);
  if (!format.ok()) return Failed(format.status(), err);
  const auto view = OpenView(options.view, err);
  if (!view.ok()) return Failed(view.status(), err);
  std::string text;
  if (*format == "callgrind") {
    const auto made = ExportText("callgrind", *view, options.view);
    if (!made.ok()) return Failed(made.status(), err);
    text = *made;
  } else {
    const auto stacks = StacksOf(*view, options.view);
    if (!stacks.ok()) return Failed(stacks.status(), err);
    text = DotOf(*view, *stacks, options);
    if (*format != "dot") {
      const auto drawing = Drawn(text, *format);
      if (!drawing.ok()) return Failed(drawing.status(), err);
      text = *drawing;
    }
  }
  const auto written = WriteAtomically(options.output, text, out);
  return written.ok() ? 0 : Failed(written, err);
}

}  // namespace holdfast
