// The tool is never profiled itself: not in a shell with LD_PRELOAD exported, not when a profiled program starts it.
#ifndef HOLDFAST_REPORT_UNPROFILED_H_
#define HOLDFAST_REPORT_UNPROFILED_H_

namespace holdfast {

// If LD_PRELOAD holds our library: executes this program again without it (other preloads stay). Then it does not
// return; otherwise, or where that is not possible, it does, and nothing has changed.
// First thing in main: it uses no memory but the stack and what it needs for the new environment.
void LeaveOwnProfile(char** arguments);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_UNPROFILED_H_
