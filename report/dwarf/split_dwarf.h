// Split DWARF: finds the unit that a skeleton stands for, in a .dwo file or in a package of them (.dwp).
#ifndef HOLDFAST_REPORT_DWARF_SPLIT_DWARF_H_
#define HOLDFAST_REPORT_DWARF_SPLIT_DWARF_H_

#include <memory>

#include "report/dwarf/unit.h"

namespace holdfast::dwarf {

// The unit of `file` that has the skeleton's dwo_id, open; null when there is none. Another id is another compilation:
// its lines would be wrong. `file` and the skeleton's sections must outlive the unit.
std::unique_ptr<Unit> OpenSplitUnit(Sections* file, const Unit& skeleton);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_DWARF_SPLIT_DWARF_H_
