// Redirects the functions of an allocator that is linked into the executable: such an executable defines malloc ahead
// of every preloaded library, and calls it directly. sampler/entries/entry_plan.h says what is changed and when not.
#ifndef HOLDFAST_INTERPOSE_ENTRIES_REDIRECT_H_
#define HOLDFAST_INTERPOSE_ENTRIES_REDIRECT_H_

#include <cstdint>

#include "sampler/contract/attach_call.h"
#include "sampler/contract/entry_state.h"

namespace holdfast {

// Call once, in the constructor or before the first thread, when the shim is ready: the program must have one thread.
// All or nothing: if anything fails, the executable is as it was. The outcome goes into the executable's Module.
// `before`: called just before the redirection, if nothing is known to prevent it; what it allocates is no block of the
// program's.
void RedirectEntries(void (*before)());

// The same for a library that was loaded late, where other threads run: makes the stubs, which nothing leads to yet. The
// tool writes the patches (attach_call.h). Call it at each attach; what was made stays. False: the executable's malloc
// would not be seen, and the outcome says why.
struct EntryPatches {
  const EntryPatch* list;
  uint32_t count;  // 0: there is nothing to redirect
};
bool PrepareEntryPatches(EntryPatches* patches, EntryOutcome* outcome);
// Whether all of these bytes are in place now; none of them.
bool AreAllWritten(const EntryPatches& patches);
bool AreAllUndone(const EntryPatches& patches);
// Call when all are written, and the table has been made.
void NoteEntryOutcome();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_ENTRIES_REDIRECT_H_
