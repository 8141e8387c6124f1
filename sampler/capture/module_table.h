// The modules (executable, shared libraries, vdso) that stacks pass through, recorded in the table file, so that names
// can be found after the process has ended, and after a module was unloaded.
//
// Besides the records in the table there is a mirror in private memory, which answers "is it known?" without reading
// shared pages: kMaxModules modules, hashed by the address of the dynamic section. An entry is published once, and
// then only its atomic words change. An entry stays when its module is unloaded, because stacks refer to its addresses;
// the next module there gets another tag. Modules beyond the limit have no record, and their frames no names; each is
// counted as kModuleTableFull. A lock guards recording; a thread waits for it about 20 ms at most. A thread that does
// not get it continues without a record (counted as kModuleTableFull) and tries again at the next miss. A module that
// is loaded again at the same addresses (same path, same build id) gets its old record back, so a program that loads
// and unloads a plugin a million times fills nothing.
//
// Any thread, signal handlers; no allocation, no loader call but FindObject (find_object.h).
#ifndef HOLDFAST_SAMPLER_CAPTURE_MODULE_TABLE_H_
#define HOLDFAST_SAMPLER_CAPTURE_MODULE_TABLE_H_

#include <cstdint>

#include "sampler/unwind/address_range.h"

struct dl_find_object;

namespace holdfast {

// A module, as a walk needs it.
struct ModuleSight {
  uint16_t tag = 0;        // kNoModuleTag: there is no room for another record
  bool settled = false;    // false: it could not be recorded now; nothing about it may be cached
  AddressRange readable;   // the mapped part with its unwind tables
  AddressRange elsewhere;  // see ModuleImage
};

// Returns the loaded module that `found` (from FindObject) describes. Records it in the current table when first
// seen: path, build id, executable segments, read from the module's own mapped headers, which must not go away
// meanwhile (see module_reading.h). Full table: counted as kModuleTableFull, tag 0.
ModuleSight SightModule(const dl_find_object& found);

// Call after a dlclose: marks the recorded modules that are no longer loaded.
void MarkUnloadedModules();
// The same after a time when dlclose was not seen: another module may have been loaded at the same place since, and
// may go away while this looks at it.
void MarkModulesUnloadedUnseen();

// Flags of the executable's record (module_flags.h). Before the first sample, and from any thread.
void SetExecutableFlags(uint32_t flags);
// The executable's redirected allocator returned a block that counts as live.
void NoteLiveBlockReturned();
// It freed blocks that count as live.
void NoteManyFreed();

// Checks modules again that had not yet bound free (free_calls.h). The calling thread is muted. `now`: in any case;
// otherwise one call in 16 checks.
void LookAtFreeCallsAgain(bool now);

// For a child of fork, which has a new table without modules. Forgets the unwind rows too.
void ForgetModules();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_MODULE_TABLE_H_
