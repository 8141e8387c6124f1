// Converts addresses of a mapping to addresses in its ELF file.
#ifndef HOLDFAST_REPORT_NAMES_SYMBOLIZE_MAPPING_LAYOUT_H_
#define HOLDFAST_REPORT_NAMES_SYMBOLIZE_MAPPING_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "report/names/symbolize/module_symbolizer.h"
#include "report/profile/profile.h"

namespace holdfast {

// Returns the ELF address of a mapping's first byte. If the mapping comes from a profile file, the program headers have
// it: by file offset, or by size in a separate debug file, which has the program's addresses but not its offsets.
std::optional<uint64_t> ElfAddressOf(const Profile::Mapping& mapping, const ModuleSymbolizer::Module& module);

// Location.address − bias = ELF address. Without the file the file offset is the best approximation; it equals the ELF
// address in most files.
uint64_t BiasOf(const Profile::Mapping& mapping, const ModuleSymbolizer::Module* module);

// If a build id is missing, the layout must match: the mapping is an executable segment of the file.
bool FitsLayout(const Profile::Mapping& mapping, const ModuleSymbolizer::Module& module);

// Returns whether a name is a placeholder for unnamed code, such as `libfoo.so.1!0x1234`.
bool IsSynthetic(std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_SYMBOLIZE_MAPPING_LAYOUT_H_
