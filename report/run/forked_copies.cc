#include "report/run/forked_copies.h"

#include <dirent.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"
#include "report/run/traced_memory.h"
#include "report/run/traced_stop.h"

namespace holdfast {
namespace {

// The start of glibc's pthread_mutex_t.
struct Lock {
  uint32_t lock, count, owner, users;
};

std::vector<pid_t> YoungProcesses(pid_t but, int64_t since_ticks) {
  std::vector<pid_t> found;
  DIR* const all = opendir("/proc");
  if (all == nullptr) return found;
  while (const dirent* entry = readdir(all)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid) || pid == but || pid == getpid()) continue;
    const auto start = StartTicksOf(pid);
    if (start.has_value() && static_cast<int64_t>(*start) >= since_ticks) found.push_back(pid);
  }
  closedir(all);
  return found;
}

// A child of vfork has its parent's memory. False also if the kernel was built without kcmp.
bool HasOtherMemory(pid_t pid, pid_t other) {
  constexpr int kMemory = 1;  // KCMP_VM
  return syscall(SYS_kcmp, pid, other, kMemory, 0, 0) > 0;
}

bool HasThread(pid_t pid, uint32_t inner_id) {
  const auto threads = ThreadsOf(pid, true);
  return std::any_of(threads.begin(), threads.end(), [&](const auto& thread) { return thread.second == inner_id; });
}

bool IsCopy(pid_t pid, uint64_t address, uint32_t owner) {
  Lock copy{};
  return ReadTraced(pid, address, &copy, sizeof copy) && copy.lock != 0 && copy.owner == owner;
}

// Makes the thread look again at the word for which it waits: the kernel repeats the system call.
void Wake(pid_t thread) {
  if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return;
  ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  constexpr int kLooks = 1000;
  int status = 0;
  for (int i = 0; i < kLooks; ++i) {
    if (AwaitTraced(thread, &status, WNOHANG) != 0) break;
    constexpr timespec kPause = {0, 1'000'000};
    nanosleep(&kPause, nullptr);
  }
  // Not for our own interruption: a signal of the child's came first.
  const bool is_signal = WIFSTOPPED(status) && status >> 16 == 0;
  ptrace(PTRACE_DETACH, thread, nullptr, is_signal ? WSTOPSIG(status) : 0);
}

bool Free(pid_t pid, uint64_t address) {
  // The word `lock` last: from then on another thread may have it.
  const Lock free{};
  if (!WriteTraced(pid, address + sizeof free.lock, &free.count, sizeof free - sizeof free.lock) ||
      !WriteTraced(pid, address, &free.lock, sizeof free.lock))
    return false;
  for (const auto& [thread, name] : ThreadsOf(pid, false)) {
    const auto call = BlockedCallOf(pid, thread);
    if (call.has_value() && call->number == SYS_futex && call->arguments[0] == address) Wake(thread);
  }
  return true;
}

}  // namespace

int64_t TicksNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const int64_t ticks = sysconf(_SC_CLK_TCK);
  return now.tv_sec * ticks + now.tv_nsec * ticks / 1'000'000'000;
}

int FreeForkedCopies(pid_t pid, const HeldLinkerLocks& held) {
  if (held.at[0] == 0 || held.owner == 0) return 0;
  // A fork that still copies the memory excludes readers, and its child appears soon afterwards.
  Lock own{};
  ReadTraced(pid, held.at[0], &own, sizeof own);
  int found = 0;
  for (int round = 0; round < 2; ++round) {
    for (const pid_t child : YoungProcesses(pid, held.since_ticks)) {
      if (!HasOtherMemory(pid, child)) continue;
      bool was_found = false;
      for (const uint64_t at : held.at) {
        if (IsCopy(child, at, held.owner) && !HasThread(child, held.owner)) was_found = Free(child, at) || was_found;
      }
      found += was_found ? 1 : 0;
    }
    constexpr timespec kPause = {0, 10'000'000};
    if (round == 0) nanosleep(&kPause, nullptr);
  }
  return found;
}

}  // namespace holdfast
