// How the addresses of a mapping lead to those in its ELF file.
#ifndef HOLDFAST_REPORT_SYMBOLIZE_MAPPING_LAYOUT_H_
#define HOLDFAST_REPORT_SYMBOLIZE_MAPPING_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "report/pprof/profile.h"
#include "report/symbolize/module_symbolizer.h"

namespace holdfast {

// Where the first byte of a mapping lies in the ELF file. A mapping that came from a file of profiles does not say; the
// program headers do: by file offset, or in a separate debug file, which has the program's addresses but not its
// offsets, by size.
std::optional<uint64_t> ElfAddressOf(const Profile::Mapping& mapping, const ModuleSymbolizer::Module& module);

// Location.address − bias = ELF address. Without a file the file offset is the best there is (and equal to the ELF
// address in most files).
uint64_t BiasOf(const Profile::Mapping& mapping, const ModuleSymbolizer::Module* module);

// Without a build id on both sides the layout must be the same: what was mapped is an executable segment of the file.
bool FitsLayout(const Profile::Mapping& mapping, const ModuleSymbolizer::Module& module);

// `libfoo.so.1!0x1234`: the name of what nothing names.
bool IsSynthetic(std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SYMBOLIZE_MAPPING_LAYOUT_H_
