// The modules (executable, shared libraries, vdso) that stacks pass through, recorded in the table file so that names
// can be found after the process is gone, and after a module was unloaded.
//
// Beside the records in the table there is a mirror in private memory, which answers "is it known?" without a look at
// shared pages: kMostModules modules, hashed by the address of the dynamic section, entries that are published once and then
// only change in atomic words. An entry stays when its module goes, as stacks name its addresses: what comes to lie there gets
// another tag. For later ones there is no record, and their frames have no names; each is counted as kModuleTableFull.
// Recording is under a lock that is waited for, 20 ms or so at most; who does not get it goes on without (counted as
// kModuleTableFull) and asks again at the next miss.
// A module that is loaded again where it lay before (same path, same build id) gets its old record back, so a program
// that loads and unloads a plugin a million times fills nothing.
//
// Any thread, signal handlers; no allocation, no loader call but _dl_find_object (lock-free).
#ifndef HOLDFAST_SAMPLER_STACKS_MODULE_TABLE_H_
#define HOLDFAST_SAMPLER_STACKS_MODULE_TABLE_H_

#include <cstdint>

#include "sampler/unwind/address_range.h"

struct dl_find_object;

namespace holdfast {

// What a walk needs to know of a module.
struct ModuleSight {
  uint16_t tag = 0;       // kNoModuleTag: there is no room for another record
  bool settled = false;   // false: could not be recorded just now; nothing about it may be cached
  AddressRange readable;  // the mapped part that holds its unwind tables
};

// The loaded module that `found` (from _dl_find_object) describes; records it in the current table at first sight:
// path, build id, executable segments, read from the module's own mapped headers, which must not go away meanwhile (see
// module_reading.h). Full table: counted as kModuleTableFull, tag 0.
ModuleSight SightModule(const dl_find_object& found);

// After a dlclose returned: marks the recorded modules that are no longer loaded.
void MarkUnloadedModules();

// Looks again at modules if it was not known where their calls of free go (free_calls.h). The calling thread is muted. `now`: at any rate;
// otherwise one call in 16 looks.
void LookAtFreeCallsAgain(bool now);

// In a child of fork, whose table is a new one: nothing is recorded yet. Forgets the unwind rows too.
void ForgetModules();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_MODULE_TABLE_H_
