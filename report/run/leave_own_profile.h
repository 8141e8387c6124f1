// Keeps the tool itself from being profiled, both in a shell with LD_PRELOAD exported and when a profiled program
// starts the tool.
#ifndef HOLDFAST_REPORT_RUN_LEAVE_OWN_PROFILE_H_
#define HOLDFAST_REPORT_RUN_LEAVE_OWN_PROFILE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast {

// Whether this process was started with the library and dropped it. Only the first call may return true. Processes that
// this one starts do not inherit the answer.
bool WasPreloaded();

// If LD_PRELOAD in `environment` contains our library: executes this program again without it and does not return.
// Other preloaded libraries stay. Returns if there is nothing to drop, or on failure.
//
// Called from .preinit_array, before any constructor, so that nothing of the tool is sampled. Therefore the function
// makes only system calls and edits LD_PRELOAD in place.
void LeaveOwnProfile(int argument_count, char** arguments, char** environment);

// Removes every libholdfast.so from the list in [list, list + length); blanks or colons separate its elements. Returns
// the new length, which is `length` if nothing was removed.
size_t DropOwnLibrary(char* list, size_t length);

inline std::string WithoutOwnLibrary(std::string_view list) {
  std::string kept(list);
  kept.resize(DropOwnLibrary(kept.data(), kept.size()));
  return kept;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_LEAVE_OWN_PROFILE_H_
