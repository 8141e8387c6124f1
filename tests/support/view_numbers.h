// The numbers of `go tool pprof` and of our own views as maps, to be compared row by row. Values of 0 are left out:
// both sides print some of them.
#ifndef HOLDFAST_TESTS_SUPPORT_VIEW_NUMBERS_H_
#define HOLDFAST_TESTS_SUPPORT_VIEW_NUMBERS_H_

#include <cstdint>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::testing {

struct ViewNumbers {
  std::map<std::string, std::pair<int64_t, int64_t>> nodes;      // name → self, total
  std::map<std::pair<std::string, std::string>, int64_t> edges;  // caller, callee → what flows along

  void DropZeros() {
    std::erase_if(nodes, [](const auto& node) { return node.second == std::pair(int64_t{0}, int64_t{0}); });
    std::erase_if(edges, [](const auto& edge) { return edge.second == 0; });
  }
  bool operator==(const ViewNumbers&) const = default;
};

// Of `go tool pprof -tree` or `-peek`, in plain units.
inline ViewNumbers ParseGoTree(const std::string& text) {
  static const std::regex node(
      R"(^ *(-?\d+)[A-Za-z]* +\S+% +\S+% +(-?\d+)[A-Za-z]* +\S+% +\| (.*?)(?: \((?:partial-)?inline\))?$)");
  static const std::regex edge(R"(^ +(-?\d+)[A-Za-z]* +\S+% \|   (.*?)(?: \((?:partial-)?inline\))?$)");
  ViewNumbers numbers;
  std::istringstream lines(text);
  std::vector<std::pair<std::string, int64_t>> callers;
  std::string current;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (line.starts_with("-----")) {
      callers.clear();
      current.clear();
    } else if (std::regex_match(line, match, node)) {
      current = match[3];
      numbers.nodes[current] = {std::stoll(match[1]), std::stoll(match[2])};
      for (const auto& [caller, value] : callers) numbers.edges[{caller, current}] = value;
    } else if (std::regex_match(line, match, edge)) {
      if (current.empty()) {
        callers.push_back({match[2], std::stoll(match[1])});
      } else {
        numbers.edges[{current, match[2]}] = std::stoll(match[1]);
      }
    }
  }
  numbers.DropZeros();
  return numbers;
}

// Rows of `--format csv`, each by the name of its column.
inline std::vector<std::map<std::string, std::string>> ParseCsv(const std::string& text) {
  std::vector<std::vector<std::string>> records(1, std::vector<std::string>(1));
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    std::string& field = records.back().back();
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      field += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      records.back().emplace_back();
    } else if (c == '\n' && !quoted) {
      records.emplace_back(1);
    } else {
      field += c;
    }
  }
  records.pop_back();
  std::vector<std::map<std::string, std::string>> rows;
  for (size_t i = 1; i < records.size(); ++i) {
    std::map<std::string, std::string> row;
    for (size_t c = 0; c < records[i].size() && c < records[0].size(); ++c) row[records[0][c]] = records[i][c];
    rows.push_back(std::move(row));
  }
  return rows;
}

inline int64_t NumberIn(const std::map<std::string, std::string>& row, const std::string& column) {
  const auto found = row.find(column);
  return found == row.end() || found->second.empty() ? 0 : std::strtoll(found->second.c_str(), nullptr, 10);
}

inline ViewNumbers ParseOurTop(const std::string& csv) {
  ViewNumbers numbers;
  for (const auto& row : ParseCsv(csv))
    numbers.nodes[row.at("function")] = {NumberIn(row, "self"), NumberIn(row, "total")};
  numbers.DropZeros();
  return numbers;
}

inline ViewNumbers ParseOurPeek(const std::string& csv) {
  ViewNumbers numbers;
  for (const auto& row : ParseCsv(csv)) {
    const std::string& function = row.at("function");
    if (row.at("role") == "function") numbers.nodes[function] = {NumberIn(row, "self"), NumberIn(row, "total")};
    if (row.at("role") == "caller") numbers.edges[{row.at("other"), function}] = NumberIn(row, "flow");
    if (row.at("role") == "callee") numbers.edges[{function, row.at("other")}] = NumberIn(row, "flow");
  }
  numbers.DropZeros();
  return numbers;
}

// Sums up a call tree as pprof does for stacks: a function or call that occurs twice in a path counts once.
inline ViewNumbers ParseOurTree(const std::string& csv) {
  ViewNumbers numbers;
  std::vector<std::string> path;
  for (const auto& row : ParseCsv(csv)) {
    path.resize(static_cast<size_t>(NumberIn(row, "depth")) - 1);
    const std::string function = row.at("function");
    const int64_t total = NumberIn(row, "total");
    numbers.nodes[function].first += NumberIn(row, "self");
    bool seen = false, call_seen = path.empty() || path.back() == function;
    for (size_t i = 0; i < path.size(); ++i) {
      seen = seen || path[i] == function;
      call_seen = call_seen || (i > 0 && path[i] == function && path[i - 1] == path.back());
    }
    if (!seen) numbers.nodes[function].second += total;
    if (!call_seen) numbers.edges[{path.back(), function}] += total;
    path.push_back(function);
  }
  numbers.DropZeros();
  return numbers;
}

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SUPPORT_VIEW_NUMBERS_H_
