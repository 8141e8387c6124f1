#include "report/builder/without_rights.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"

namespace holdfast {
namespace {

constexpr rlim_t kMaxCpuSeconds = 10;

// Also works before Linux 5.9, which lacks close_range.
void KeepOnly(std::vector<int> keep) {
  std::sort(keep.begin(), keep.end());
  unsigned next = 0;
  for (const int fd : keep) {
    const auto kept = static_cast<unsigned>(fd);
    for (; next < kept; ++next) close(static_cast<int>(next));
    next = kept + 1;
  }
  closefrom(static_cast<int>(next));  // aborts on failure
}

bool GiveUpRights(uid_t user, gid_t group, uint64_t most_bytes) {
  const auto limit = [](auto resource, rlim_t most) {
    const rlimit both = {most, most};
    return setrlimit(resource, &both) == 0;
  };
  // Groups first, because afterwards this is not permitted.
  return limit(RLIMIT_FSIZE, most_bytes) && limit(RLIMIT_CPU, kMaxCpuSeconds) && limit(RLIMIT_CORE, 0) &&
         setgroups(0, nullptr) == 0 && setresgid(group, group, group) == 0 && setresuid(user, user, user) == 0 &&
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && geteuid() == user &&
         prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
}

}  // namespace

absl::Status RunInChild(const std::function<bool()>& work, int most_ms) {
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "fork");
  if (child == 0) _exit(work() ? 0 : 1);
  int status = 0;
  for (int waited_ms = 0;; waited_ms += 2) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "wait");
    if (waited_ms >= most_ms) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return absl::DeadlineExceededError(absl::StrCat("a child took more than ", most_ms, " ms"));
    }
    const timespec pause = {0, 2'000'000};
    nanosleep(&pause, nullptr);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  if (WIFSIGNALED(status)) return absl::AbortedError(absl::StrCat("a child was killed by signal ", WTERMSIG(status)));
  return absl::InternalError("a child could not do it");
}

absl::Status RunWithoutRights(uid_t user, gid_t group, const std::vector<int>& keep, uint64_t most_bytes,
                              const std::function<bool()>& work, int most_ms) {
  const absl::Status done = RunInChild(
      [&] {
        KeepOnly(keep);
        return GiveUpRights(user, group, most_bytes) && work();
      },
      most_ms);
  return done.ok() ? done : absl::Status(done.code(), absl::StrCat("reading it as user ", user, ": ", done.message()));
}

}  // namespace holdfast
