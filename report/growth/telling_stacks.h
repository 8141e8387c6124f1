// Formats stacks as table rows: the innermost functions, and as many more as are needed to distinguish rows.
//
//    Grow ← Table::Insert ← Cache::Put ← …          the first functions are enough …
//    Alloc ← Read ← Parse ← Load ← OnOpen ← …       … or two more …
//    Alloc ← Read ← Parse ← Load ← OnClose ← …
//    Alloc ← Read ← Parse ← Load ← … ← main ← …     … or those where they differ
//    Alloc ← Read ← Parse ← Load ← … ← worker ← …
//    Alloc ← Visit ×12 ← Walk ← main                a recursive function
#ifndef HOLDFAST_REPORT_GROWTH_TELLING_STACKS_H_
#define HOLDFAST_REPORT_GROWTH_TELLING_STACKS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// Returns texts for stacks (leaf first), in the same order: `few` functions of each, at most two more in a row, then
// those that differ. If `shorten` makes two stacks equal, full names distinguish them; null: do not shorten names. Only
// equal stacks get equal texts. Pure.
std::vector<std::string> TellingStacks(const std::vector<std::vector<std::string>>& stacks, size_t few,
                                       const std::function<std::string(std::string_view)>& shorten);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_GROWTH_TELLING_STACKS_H_
