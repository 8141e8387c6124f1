// Finds the entries that enclose an entry: the namespaces, classes and functions that qualify its name.
//
//     DW_TAG_compile_unit
//       DW_TAG_namespace app
//         DW_TAG_subprogram Load            contains a local class, as GCC represents a lambda
//           DW_TAG_structure_type
//             DW_TAG_subprogram operator()  → {app, Load, the structure}
//
// One pass over a unit serves all requested entries. DW_AT_sibling is used to skip subtrees without any.
#ifndef HOLDFAST_REPORT_NAMES_DWARF_ENCLOSING_H_
#define HOLDFAST_REPORT_NAMES_DWARF_ENCLOSING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "report/base/time_budget.h"
#include "report/names/dwarf/unit.h"

namespace holdfast::dwarf {

// `entries`: sorted offsets in .debug_info. Returns the offsets of each entry's enclosing entries, outermost first,
// without the unit's own entry. The result is empty for an entry that was not reached because of damage or the
// deadline.
std::vector<std::vector<uint64_t>> FindEnclosing(Unit* unit, std::span<const uint64_t> entries,
                                                 const Deadline& deadline);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_ENCLOSING_H_
