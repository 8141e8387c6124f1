#include "report/names/symbolize/mapping_layout.h"

namespace holdfast {

std::optional<uint64_t> ElfAddressOf(const Profile::Mapping& mapping, const ModuleSymbolizer::Module& module) {
  if (mapping.has_bias) return mapping.start - mapping.bias;
  if (module.is_program()) return module.elf().AddressOfOffset(mapping.offset);
  return module.elf().AddressOfMapping(mapping.limit - mapping.start);
}

uint64_t BiasOf(const Profile::Mapping& mapping, const ModuleSymbolizer::Module* module) {
  if (mapping.has_bias) return mapping.bias;
  if (module != nullptr) {
    if (const auto address = ElfAddressOf(mapping, *module)) return mapping.start - *address;
  }
  return mapping.start - mapping.offset;
}

bool FitsLayout(const Profile::Mapping& mapping, const ModuleSymbolizer::Module& module) {
  if (!module.is_program()) return ElfAddressOf(mapping, module).has_value();
  if (!module.elf().build_id().empty()) return true;
  const auto address = module.elf().AddressOfOffset(mapping.offset);
  return address.has_value() && (!mapping.has_bias || *address == mapping.start - mapping.bias);
}

bool IsSynthetic(std::string_view name) {
  const size_t mark = name.rfind("!0x");
  return mark != std::string_view::npos &&
         name.find_first_not_of("0123456789abcdef", mark + 3) == std::string_view::npos;
}

}  // namespace holdfast
