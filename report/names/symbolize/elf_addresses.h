// Profiles with the addresses in ELF files instead of load addresses. Dumps are then equal from run to run, and other
// tools' symbolizers accept the addresses.
#ifndef HOLDFAST_REPORT_NAMES_SYMBOLIZE_ELF_ADDRESSES_H_
#define HOLDFAST_REPORT_NAMES_SYMBOLIZE_ELF_ADDRESSES_H_

#include <string>
#include <vector>

#include "report/names/symbolize/module_symbolizer.h"
#include "report/profile/profile.h"

namespace holdfast {

struct ElfAddresses {
  Profile profile;
  std::vector<std::string> kept;  // files with an unknown layout; their addresses are unchanged
};

// Replaces each mapping by its segment in the file. An address is then unique only within its mapping, and a file that
// was mapped twice (dlopen, dlclose, dlopen) has one mapping. The order of mappings (except the first, the program's),
// locations, functions, samples and strings does not depend on load addresses. Code outside files keeps its addresses.
ElfAddresses UseElfAddresses(const Profile& profile, ModuleSymbolizer& symbolizer);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_SYMBOLIZE_ELF_ADDRESSES_H_
