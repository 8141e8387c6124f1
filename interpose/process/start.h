// What must happen before the program has a second thread.
#ifndef HOLDFAST_INTERPOSE_PROCESS_START_H_
#define HOLDFAST_INTERPOSE_PROCESS_START_H_

#include "sampler/contract/attributes.h"
#include "sampler/hot_path/this_thread.h"

namespace holdfast {

// Whether an allocator in the executable is redirected, or known to stay as it is.
extern HOLDFAST_HIDDEN bool entries_decided;
void DecideEntries();

// Call before a thread is created. Usually the library's constructor has decided; but constructors of libraries that are
// needed by others run before it, and one of them may create a thread: jemalloc with background_thread:true does so at its
// first allocation, which is libstdc++'s.
inline void BeforeThread() {
  if (UNLIKELY(!entries_decided)) DecideEntries();
}

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_PROCESS_START_H_
