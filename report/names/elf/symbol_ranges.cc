#include "report/names/elf/symbol_ranges.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace holdfast {
namespace {

using Symbol = SymbolRanges::Symbol;
using SymbolRange = SymbolRanges::Range;

// Names are compared by their first bytes only: in a hostile file each name may be as long as the string table.
constexpr size_t kCompared = 256;

size_t LeadingUnderscores(const char* text) {
  size_t count = 0;
  while (count < kCompared && text[count] == '_') ++count;
  return count;
}

// Returns whether `a` names their common address better than `b`. A total order, so that results are reproducible.
bool Better(const Symbol& a, const Symbol& b) {
  if (a.rank != b.rank) return a.rank < b.rank;
  const size_t a_underscores = LeadingUnderscores(a.text), b_underscores = LeadingUnderscores(b.text);
  if (a_underscores != b_underscores) return a_underscores < b_underscores;
  const size_t a_length = strnlen(a.text, kCompared), b_length = strnlen(b.text, kCompared);
  if (a_length != b_length) return a_length < b_length;
  if (const int order = std::strncmp(a.text, b.text, kCompared); order != 0) return order < 0;
  return std::tie(a.name, a.size) < std::tie(b.name, b.size);
}

// Handles symbols with a size: the symbol that began last covers the address.
std::vector<SymbolRange> Sized(const std::vector<Symbol>& symbols) {
  std::vector<SymbolRange> ranges;
  std::vector<const Symbol*> open;  // enclosing symbols, innermost last
  uint64_t done = 0;
  const auto emit_until = [&](uint64_t next) {
    while (!open.empty() && done < next) {
      const Symbol& inner = *open.back();
      const uint64_t end = inner.start + inner.size;
      if (done < end) {
        const uint64_t stop = std::min(end, next);
        ranges.push_back({done, stop, inner.name});
        done = stop;
      }
      if (end <= next) open.pop_back();
    }
    while (!open.empty() && open.back()->start + open.back()->size <= next) open.pop_back();
    done = std::max(done, next);
  };
  for (size_t i = 0; i < symbols.size();) {
    const uint64_t start = symbols[i].start;
    emit_until(start);
    // At one address the best name takes what it covers; a worse one takes only the part beyond.
    const size_t group = open.size();
    uint64_t covered = 0;
    for (; i < symbols.size() && symbols[i].start == start; ++i) {
      if (symbols[i].size <= covered) continue;
      covered = symbols[i].size;
      open.push_back(&symbols[i]);
    }
    std::reverse(open.begin() + static_cast<std::ptrdiff_t>(group), open.end());
  }
  emit_until(UINT64_MAX);
  return ranges;
}

}  // namespace

std::vector<SymbolRange> SymbolRanges::Flatten() {
  std::sort(symbols_.begin(), symbols_.end(), [](const Symbol& a, const Symbol& b) {
    if (a.start != b.start) return a.start < b.start;
    return Better(a, b);
  });
  std::vector<Symbol> sized, labels;
  for (const Symbol& symbol : symbols_) (symbol.size != 0 ? sized : labels).push_back(symbol);
  std::vector<SymbolRange> ranges = Sized(sized);

  // Labels fill the gaps, each up to the next start.
  std::vector<SymbolRange> fill;
  size_t next = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (i > 0 && labels[i].start == labels[i - 1].start) continue;  // the better label came first
    size_t after = i;
    while (after < labels.size() && labels[after].start == labels[i].start) ++after;
    uint64_t end = labels[i].limit;
    if (after < labels.size()) end = std::min(end, labels[after].start);
    while (next < ranges.size() && ranges[next].end <= labels[i].start) ++next;
    if (next < ranges.size()) {
      if (ranges[next].start <= labels[i].start) continue;  // covered by a symbol with a size
      end = std::min(end, ranges[next].start);
    }
    if (labels[i].start < end) fill.push_back({labels[i].start, end, labels[i].name});
  }
  const auto middle = static_cast<std::ptrdiff_t>(ranges.size());
  ranges.insert(ranges.end(), fill.begin(), fill.end());
  std::inplace_merge(ranges.begin(), ranges.begin() + middle, ranges.end(),
                     [](const SymbolRange& a, const SymbolRange& b) { return a.start < b.start; });
  return ranges;
}

}  // namespace holdfast
