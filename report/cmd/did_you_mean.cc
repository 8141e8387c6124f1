#include "report/cmd/did_you_mean.h"

#include <algorithm>

#include "fmt/format.h"

namespace holdfast {
namespace {

// Counts typing errors (optimal string alignment distance): each pair of neighbours is swapped at most once.
size_t Slips(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> slips(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      size_t& here = slips[i][j] = std::max(i, j);
      if (i == 0 || j == 0) continue;
      const bool same = a[i - 1] == b[j - 1];
      here = std::min({slips[i - 1][j] + 1, slips[i][j - 1] + 1, slips[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        here = std::min(here, slips[i - 2][j - 2] + 1);
    }
  }
  return slips[a.size()][b.size()];
}

}  // namespace

std::string NearestName(std::string_view typed, const std::vector<std::string>& known) {
  constexpr size_t kMaxLetters = 40, kMinBeginning = 3;
  if (typed.empty() || typed.size() > kMaxLetters) return {};
  std::string nearest;
  size_t fewest = 1 + std::max<size_t>(1, typed.size() / 3);
  for (const std::string& name : known) {
    if (name.size() > kMaxLetters) continue;
    const bool begins = typed.size() >= kMinBeginning && name.starts_with(typed);
    const size_t slips = begins ? 1 : Slips(typed, name);
    if (slips >= fewest) continue;
    fewest = slips;
    nearest = name;
  }
  return nearest;
}

std::string DidYouMean(std::string_view typed, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(typed, known);
  return nearest.empty() ? std::string() : fmt::format(" Did you mean {}?", nearest);
}

}  // namespace holdfast
