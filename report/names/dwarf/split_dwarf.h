// Split DWARF: finds the full unit of a skeleton unit, in a .dwo file or in a package (.dwp).
#ifndef HOLDFAST_REPORT_NAMES_DWARF_SPLIT_DWARF_H_
#define HOLDFAST_REPORT_NAMES_DWARF_SPLIT_DWARF_H_

#include <memory>

#include "report/names/dwarf/unit.h"

namespace holdfast::dwarf {

// Opens the unit of `file` that has the skeleton's dwo_id; null if there is none. A unit with another id belongs to
// another compilation, so its lines would be wrong. `file` and the skeleton's sections must outlive the unit.
std::unique_ptr<Unit> OpenSplitUnit(Sections* file, const Unit& skeleton);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_SPLIT_DWARF_H_
