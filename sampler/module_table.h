// The modules (executable, shared libraries, vdso) that stacks pass through, recorded in the table file so that names
// can be found after the process is gone, and after a module was unloaded.
//
// Any thread; no lock, no allocation, no loader call but _dl_find_object (lock-free).
#ifndef HOLDFAST_SAMPLER_MODULE_TABLE_H_
#define HOLDFAST_SAMPLER_MODULE_TABLE_H_

#include <cstdint>

struct dl_find_object;

namespace holdfast {

// The tag of the loaded module that `found` (from _dl_find_object) describes; records it in the current table at first
// sight: path, build id, executable segments, read from the module's own mapped headers.
// Full table: counted as kModuleTableFull, tag 0.
uint8_t TagOfModule(const dl_find_object& found);

// After a dlclose returned: marks the recorded modules that are no longer loaded.
void MarkUnloadedModules();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_MODULE_TABLE_H_
