// Formats stacks as table rows: the innermost functions, and as many more as are needed to distinguish rows.
//
//    Grow ← Table::Insert ← Cache::Put ← …          the first functions are enough …
//    Alloc ← Read ← Parse ← Load ← OnOpen ← …       … or two more …
//    Alloc ← Read ← Parse ← Load ← OnClose ← …
//    Alloc ← Read ← Parse ← Load ← … ← main ← …     … or those where they differ
//    Alloc ← Read ← Parse ← Load ← … ← worker ← …
//    Alloc ← Visit ×12 ← Walk ← main                a recursive function
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_DISTINCT_STACKS_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_DISTINCT_STACKS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// Returns one text for each stack (leaf first): `few` functions, at most two more in a row if needed, then those in which it
// differs. If `shorten` gives two stacks the same names (null: names are shown as they are), ShownNames
// (report/analysis/profiles/short_name.h) distinguishes them. Only equal stacks get equal texts. Pure.
std::vector<std::string> DistinctStacks(const std::vector<std::vector<std::string>>& stacks, size_t few,
                                        const std::function<std::string(std::string_view)>& shorten);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_DISTINCT_STACKS_H_
