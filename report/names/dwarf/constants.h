// The DWARF constants that we read, from elfutils: versions 2 to 5, and GNU's extensions to version 4 (split DWARF, dwz).
#ifndef HOLDFAST_REPORT_NAMES_DWARF_CONSTANTS_H_
#define HOLDFAST_REPORT_NAMES_DWARF_CONSTANTS_H_

#include <dwarf.h>

#include <cstdint>

namespace holdfast::dwarf {

// C and assembler: function names are not qualified.
inline constexpr uint64_t kLanguagesOfC[] = {0x01, 0x02, 0x0c, 0x1d, 0x2c, 0x3e, 0x8001};

inline constexpr uint8_t kLnsExtended = 0;  // a line opcode that the standard leaves without a name

// Columns in the index of a package of split units (.dwp); old versions of dwarf.h lack them. A column that exists in
// both versions of the format has the same number.
enum PackageSection : uint32_t {
  kSectInfo = 1,
  kSectAbbrev = 3,
  kSectStrOffsets = 6,
  kSectRnglists = 8,
};

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_CONSTANTS_H_
