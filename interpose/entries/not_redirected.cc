// Processors other than x86-64: an allocator in the executable stays as it is, and the executable's Module says why.
#include <link.h>

#include "interpose/entries/redirect.h"
#include "sampler/capture/module_table.h"
#include "sampler/contract/dynamic_symbols.h"
#include "sampler/contract/entry_state.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/contract/module_flags.h"
#include "sampler/contract/syscalls.h"
#include "sampler/process/process.h"

namespace holdfast {

void RedirectEntries(void (*)()) {
  if (!process.recording.load(std::memory_order_relaxed) || no_system_calls.load(std::memory_order_relaxed)) return;
  const link_map* map = FirstObject();
  if (map == nullptr) return;
  const DynamicSymbols symbols = SymbolsAt(map->l_ld, map->l_addr);
  if (FindSymbol(symbols, "malloc", IsDefinition) == nullptr) return;
  SetExecutableFlags(ToModuleFlags({EntryReason::kOtherProcessor, 0, 0}));
}

bool PrepareEntryPatches(EntryPatches* patches, EntryOutcome* outcome) {
  *patches = {};
  *outcome = {};
  return true;
}
bool AreAllWritten(const EntryPatches&) { return true; }
bool AreAllUndone(const EntryPatches&) { return true; }
void NoteEntryOutcome() {}

}  // namespace holdfast
