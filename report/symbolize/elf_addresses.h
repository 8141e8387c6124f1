// Profiles whose addresses are those in the ELF files, not where the loader happened to put them: dumps that are equal
// from run to run, and what other tools' symbolizers ask for.
#ifndef HOLDFAST_REPORT_SYMBOLIZE_ELF_ADDRESSES_H_
#define HOLDFAST_REPORT_SYMBOLIZE_ELF_ADDRESSES_H_

#include <string>
#include <vector>

#include "report/pprof/profile.h"
#include "report/symbolize/module_symbolizer.h"

namespace holdfast {

struct ElfAddresses {
  Profile profile;
  std::vector<std::string> kept;  // files whose layout could not be had: their addresses are as they were
};

// Each mapping becomes the segment in its file. An address is then unique in its mapping only, and what was mapped
// twice (dlopen, dlclose, dlopen) is one. Mappings (but for the first, the program's), locations, functions, samples
// and strings come in an order that does not depend on where things lay in memory. Code in no file keeps its addresses.
ElfAddresses UseElfAddresses(const Profile& profile, ModuleSymbolizer& symbolizer);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SYMBOLIZE_ELF_ADDRESSES_H_
