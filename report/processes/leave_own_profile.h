// The tool is never profiled itself: not in a shell with LD_PRELOAD exported, not when a profiled program starts it.
#ifndef HOLDFAST_REPORT_PROCESSES_LEAVE_OWN_PROFILE_H_
#define HOLDFAST_REPORT_PROCESSES_LEAVE_OWN_PROFILE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast {

// Whether this process was started with the library and left it; once, as it is not for those that it starts.
bool WasPreloaded();

// If LD_PRELOAD in `environment` holds our library: executes this program again without it (other preloads stay), and
// does not return. Otherwise, or where that is not possible, it does.
// For .preinit_array: before any constructor, so that nothing of the tool is sampled; so it makes system calls only,
// and changes LD_PRELOAD where it lies.
void LeaveOwnProfile(int argument_count, char** arguments, char** environment);

// Takes every libholdfast.so out of the list (parts divided by blanks or colons) in [list, list + length); the new
// length, which is `length` if there was none.
size_t DropOwnLibrary(char* list, size_t length);

inline std::string WithoutOwnLibrary(std::string_view list) {
  std::string kept(list);
  kept.resize(DropOwnLibrary(kept.data(), kept.size()));
  return kept;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_LEAVE_OWN_PROFILE_H_
