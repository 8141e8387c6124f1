// The entries around an entry: the namespaces, classes and functions that qualify a name.
//
//     DW_TAG_compile_unit
//       DW_TAG_namespace app
//         DW_TAG_subprogram Load            a local class of Load, as GCC has lambdas
//           DW_TAG_structure_type
//             DW_TAG_subprogram operator()  → {app, Load, the structure}
//
// One pass over a unit finds them for all entries asked for. Subtrees without any are passed by DW_AT_sibling.
#ifndef HOLDFAST_REPORT_DWARF_ENCLOSING_H_
#define HOLDFAST_REPORT_DWARF_ENCLOSING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "report/base/time_budget.h"
#include "report/dwarf/unit.h"

namespace holdfast::dwarf {

// `entries`: offsets in .debug_info, sorted. Returns the offsets of the entries around each, outermost first, without the unit's
// own entry; none for an entry that was not found before damage or the deadline.
std::vector<std::vector<uint64_t>> FindEnclosing(Unit* unit, std::span<const uint64_t> entries,
                                                 const Deadline& deadline);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_DWARF_ENCLOSING_H_
