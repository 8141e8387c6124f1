#include "report/run/leave_own_profile.h"

#include <cstdlib>

#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"

namespace holdfast {
namespace {

constexpr char kLibrary[] = "libholdfast.so";
constexpr char kVariable[] = "LD_PRELOAD=";
constexpr char kLeft[] = "HOLDFAST_LEFT=1";

bool IsDivider(char c) { return c == ' ' || c == ':'; }

// Whether the file name of the path in [start, end) is our library's.
bool IsOwnLibrary(const char* start, const char* end) {
  const char* name = end;
  while (name > start && name[-1] != '/') --name;
  if (static_cast<size_t>(end - name) != sizeof kLibrary - 1) return false;
  for (size_t i = 0; i + 1 < sizeof kLibrary; ++i) {
    if (name[i] != kLibrary[i]) return false;
  }
  return true;
}

}  // namespace

size_t DropOwnLibrary(char* list, size_t length) {
  size_t kept = 0;
  bool dropped = false;
  for (size_t at = 0; at < length;) {
    size_t end = at;
    while (end < length && !IsDivider(list[end])) ++end;
    if (IsOwnLibrary(list + at, list + end)) {
      dropped = true;
      ++end;  // drop its separator, too
    } else {
      if (end < length) ++end;
      // kept <= at, so copying forwards is safe.
      for (; at < end; ++at) list[kept++] = list[at];
    }
    at = end;
  }
  while (dropped && kept > 0 && IsDivider(list[kept - 1])) --kept;
  return kept;
}

bool WasPreloaded() {
  const bool was = getenv("HOLDFAST_LEFT") != nullptr;
  unsetenv("HOLDFAST_LEFT");
  return was;
}

void LeaveOwnProfile(int, char** arguments, char** environment) {
  for (char** entry = environment; *entry != nullptr; ++entry) {
    if (!TextStartsWith(*entry, kVariable)) continue;
    char* list = *entry + sizeof kVariable - 1;
    const size_t length = TextLength(list);
    const size_t kept = DropOwnLibrary(list, length);
    if (kept == length) return;
    list[kept] = '\0';
    // If the list is empty, drop the variable as well. Its place takes the one that says that the library was
    // preloaded.
    if (kept == 0) *entry = const_cast<char*>(kLeft);
    char own_path[4096];
    const long bytes = RawSyscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", own_path, sizeof own_path - 1);
    if (SyscallFailed(bytes)) return;
    own_path[bytes] = '\0';
    RawSyscall(SYS_execve, own_path, arguments, environment);
    return;
  }
}

}  // namespace holdfast
