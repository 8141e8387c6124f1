// Redirects the functions of an allocator that is linked into the executable: such an executable defines malloc ahead
// of every preloaded library, and calls it directly. sampler/entries/entry_plan.h says what is changed and when not.
#ifndef HOLDFAST_INTERPOSE_ENTRIES_REDIRECT_H_
#define HOLDFAST_INTERPOSE_ENTRIES_REDIRECT_H_

namespace holdfast {

// Call once, in the constructor or before the first thread, when the shim is ready: the program must have one thread.
// All or nothing: if anything fails, the executable is as it was. The outcome goes into the executable's Module.
// `before`: called just before the redirection, if nothing is known to prevent it; what it allocates is no block of the
// program's.
void RedirectEntries(void (*before)());

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_ENTRIES_REDIRECT_H_
