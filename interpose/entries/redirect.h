// Redirects the functions of an allocator that is linked into the executable: such an executable defines malloc ahead of
// every preloaded library, and calls it directly. sampler/entries/entry_plan.h says what is changed and when not.
#ifndef HOLDFAST_INTERPOSE_ENTRIES_REDIRECT_H_
#define HOLDFAST_INTERPOSE_ENTRIES_REDIRECT_H_

namespace holdfast {

// Call once, in the constructor, when the shim is ready: the program must have one thread. All or nothing: if anything
// fails, the executable is as it was, and the answer is false. The outcome goes into the executable's Module.
bool RedirectEntries();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_ENTRIES_REDIRECT_H_
