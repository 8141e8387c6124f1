#include "report/analysis/growth/distinct_stacks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "fmt/format.h"
#include "report/analysis/profiles/short_name.h"

namespace holdfast {
namespace {

constexpr size_t kMoreInARow = 2;

using FunctionNames = std::vector<std::string>;

// Merges consecutive calls of one function, with their number.
FunctionNames WithCounts(const FunctionNames& names) {
  FunctionNames made;
  for (size_t i = 0; i < names.size();) {
    size_t end = i + 1;
    while (end < names.size() && names[end] == names[i]) ++end;
    made.push_back(end == i + 1 ? names[i] : fmt::format("{} ×{}", names[i], end - i));
    i = end;
  }
  return made;
}

// Joins the first `most` names and those at `further`, with a mark for each gap.
std::string NamesText(const FunctionNames& names, size_t most, const std::set<size_t>& further) {
  std::string text;
  size_t next = 0;
  const auto add = [&text](std::string_view part) {
    if (!text.empty()) text += " ← ";
    text += part;
  };
  for (; next < std::min(most, names.size()); ++next) add(names[next]);
  for (const size_t at : further) {
    if (at < next) continue;
    if (at > next) add("…");
    add(names[at]);
    next = at + 1;
  }
  if (next < names.size()) add("…");
  return text;
}

// Returns the index of the first name that differs; a.size() if `a` is a prefix of `b`.
size_t PartsAt(const FunctionNames& a, const FunctionNames& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

// Sets texts for `rows` of `names`, which have the same text so far.
void SetTexts(const std::vector<FunctionNames>& names, const std::vector<size_t>& rows, size_t most, size_t least_most,
              std::vector<std::string>* texts) {
  std::map<std::string, std::vector<size_t>> same;
  for (const size_t row : rows) same[(*texts)[row] = NamesText(names[row], most, {})].push_back(row);
  for (const auto& [text, alike] : same) {
    if (alike.size() < 2) continue;
    if (most < least_most + kMoreInARow) {
      SetTexts(names, alike, most + 1, least_most, texts);
      continue;
    }
    for (const size_t row : alike) {
      std::set<size_t> further;
      for (const size_t other : alike) {
        const size_t at = PartsAt(names[row], names[other]);
        // A stack that is a prefix of another differs at its own last name.
        if (other != row) further.insert(std::min(at, names[row].size() - 1));
      }
      (*texts)[row] = NamesText(names[row], least_most, further);
    }
  }
}

}  // namespace

std::vector<std::string> DistinctStacks(const std::vector<std::vector<std::string>>& stacks, size_t few,
                                        const std::function<std::string(std::string_view)>& shorten) {
  std::vector<FunctionNames> names = stacks;
  std::map<FunctionNames, std::vector<size_t>> by_names;
  for (size_t i = 0; i < names.size(); ++i) {
    for (std::string& name : names[i]) name = shorten ? shorten(name) : name;
    by_names[names[i]].push_back(i);
  }
  for (const auto& same : by_names) {
    const std::vector<size_t>& rows = same.second;
    for (size_t at = 0; rows.size() > 1 && at < same.first.size(); ++at) {
      const auto differs = [&](size_t row) { return stacks[row][at] != stacks[rows[0]][at]; };
      if (!std::any_of(rows.begin(), rows.end(), differs)) continue;
      std::vector<std::string> whole;
      for (const size_t row : rows) whole.push_back(stacks[row][at]);
      const std::vector<std::string> apart = ShownNames(whole);
      for (size_t i = 0; i < rows.size(); ++i) names[rows[i]][at] = apart[i];
    }
  }
  for (FunctionNames& of_stack : names) of_stack = WithCounts(of_stack);
  std::vector<std::string> texts(stacks.size());
  std::vector<size_t> all(stacks.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  SetTexts(names, all, few, few, &texts);
  // Show stacks in full if merged recursion makes them look the same.
  std::map<std::string, std::vector<size_t>> same;
  for (size_t i = 0; i < texts.size(); ++i) same[texts[i]].push_back(i);
  for (const auto& [text, rows] : same) {
    for (size_t i = 0; rows.size() > 1 && i < rows.size(); ++i)
      texts[rows[i]] = NamesText(names[rows[i]], SIZE_MAX, {});
  }
  return texts;
}

}  // namespace holdfast
