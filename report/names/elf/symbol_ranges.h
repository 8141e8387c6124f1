// Turns symbols that overlap, nest and share addresses into disjoint ranges with one name each, by a sweep.
// report/names/elf/elf_symbols.h has the rules.
//
//     outer  [0x00 ─────────────────── 0x60)          outer  [0x00, 0x10)
//     inner         [0x10 ── 0x20)             ──►    inner  [0x10, 0x20)
//     label                        0x60 (no size)     outer  [0x20, 0x60)
//                                                     label  [0x60, end of section or next symbol)
#ifndef HOLDFAST_REPORT_NAMES_ELF_SYMBOL_RANGES_H_
#define HOLDFAST_REPORT_NAMES_ELF_SYMBOL_RANGES_H_

#include <cstdint>
#include <vector>

namespace holdfast {

class SymbolRanges {
 public:
  struct Symbol {
    uint64_t start, size;
    uint64_t limit;  // end of its section
    uint32_t name;
    int rank;          // 0 global, 1 local, 2 weak
    const char* text;  // the name, for the order; must stay valid until Flatten returns
  };
  struct Range {
    uint64_t start, end;
    uint32_t name;
  };

  void Add(const Symbol& symbol) { symbols_.push_back(symbol); }

  // Returns sorted, disjoint ranges, at most two for each symbol. O(n log n).
  std::vector<Range> Flatten();

 private:
  std::vector<Symbol> symbols_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_SYMBOL_RANGES_H_
