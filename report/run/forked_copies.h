// Children that a process forks while a thread of it loads the library. The thread holds the locks of the dynamic linker, and
// a child has a copy of each, but not the thread that would unlock it: the child's first dlopen would wait for ever. (glibc's
// fork frees one of the two.) Handlers of fork come only with the library, so the tool frees these copies from outside.
//
// The processes are untrusted: only data is read, and written only to a lock that has the form and the owner of that copy.
#ifndef HOLDFAST_REPORT_RUN_FORKED_COPIES_H_
#define HOLDFAST_REPORT_RUN_FORKED_COPIES_H_

#include <sys/types.h>

#include <array>
#include <cstdint>

namespace holdfast {

struct HeldLinkerLocks {
  std::array<uint64_t, 2> at{};  // addresses; 0: none
  uint32_t owner = 0;            // the thread, as the process numbers it
  int64_t since_ticks = 0;       // since boot: no child of interest is older
};
// As HeldLinkerLocks::since_ticks.
int64_t TicksNow();

// Call when the thread has unlocked them. Takes about 10 ms. Returns in how many processes there were copies.
int FreeForkedCopies(pid_t pid, const HeldLinkerLocks& held);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_FORKED_COPIES_H_
