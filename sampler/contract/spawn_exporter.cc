#include "sampler/contract/spawn_exporter.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"

// From the linker: where this shared object (or the tool) begins and ends.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];
extern "C" __attribute__((visibility("hidden"))) const char _end[];

namespace holdfast {
namespace {

constexpr size_t kStackBytes = 8 << 10;
constexpr int kMaxArguments = 14;
// How often a middle that stays starts a killed exporter again, and after which pause.
constexpr int kMaxRestarts = 20;
constexpr timespec kRestartPause = {1, 0};

enum class Way {
  kHandOver,  // the middle ends once the exporter has answered
  kAsk,       // as kHandOver, but the exporter only answers
  kStay,
};

struct Spawn {
  // Copies: in the middle that stays, nothing but this object is left of the program's memory.
  char text[6144];
  const char* path;
  const char* arguments[kMaxArguments + 1];
  const char* const* environment;
  // Nothing of the program's; where the library is in /etc/ld.so.preload, it is in the exporter, too, and does nothing there.
  const char* own_environment[3];
  int argument_count;
  Way way;
  bool named_by_others;
  volatile Spawned result;
};

alignas(16) constinit char middle_stack[kStackBytes];
alignas(16) constinit char exporter_stack[kStackBytes];
constinit Spawn spawn{};
// The last middle that stayed, and the process that has it as a child.
constinit long kept_middle = 0, kept_middle_parent = 0;

[[noreturn]] void End(int status) {
  while (true) RawSyscall(SYS_exit_group, status);
}

void CloseEverything() {
  // A filter may answer 0 and close nothing: one that is known to be open tells.
  const long known = RawSyscall(SYS_openat, AT_FDCWD, "/", O_PATH | O_CLOEXEC);
  if (RawSyscall(SYS_close_range, 0, ~0u, 0) == 0 &&
      (SyscallFailed(known) || SyscallFailed(RawSyscall(SYS_close, known))))
    return;
  for (int fd = 0; fd < 65536; ++fd) RawSyscall(SYS_close, fd);  // before Linux 5.9
}

struct Range {
  uintptr_t start, end;
};

// Unmaps all but this library and the pages around the thread pointer, which contain the rseq area that libc has registered, which the kernel writes to whenever it moves the process to another processor.
void KeepOnlyOurs() {
  constexpr uintptr_t kPage = kLargestPageBytes, kLowest = kPage;
  const uintptr_t thread_pointer = ThreadPointerFromKernel();
  Range low = {reinterpret_cast<uintptr_t>(__ehdr_start) & ~(kPage - 1),
               (reinterpret_cast<uintptr_t>(_end) + kPage - 1) & ~(kPage - 1)};
  Range high = {(thread_pointer - kThreadBlockBefore) & ~(kPage - 1), (thread_pointer & ~(kPage - 1)) + 3 * kPage};
  if (high.start < low.start) {
    const Range other = low;
    low = high;
    high = other;
  }
  RawSyscall(SYS_munmap, kLowest, low.start - kLowest);
  if (low.end < high.start) RawSyscall(SYS_munmap, low.end, high.start - low.end);
  // Fewer bits: a kernel that was built with a smaller address space.
  for (uintptr_t end = kUserEnd; end > high.end + kPage; end /= 2) {
    if (!SyscallFailed(RawSyscall(SYS_munmap, high.end, end - kPage - high.end))) break;
  }
}

// Looks at the very file that is executed: the path may lead elsewhere a moment later. It stays open, as the shell of a
// script reads it by its descriptor.
void ExecuteIfTrusted() {
  const long fd = RawSyscall(SYS_openat, AT_FDCWD, spawn.path, O_PATH);
  struct stat info;
  if (SyscallFailed(fd) || SyscallFailed(RawSyscall(SYS_fstat, fd, &info))) return;
  if (info.st_uid != 0 && info.st_uid != static_cast<uint32_t>(RawSyscall(SYS_geteuid))) return;
  if ((info.st_mode & S_IWOTH) != 0) return;
  RawSyscall(SYS_execveat, fd, "", spawn.arguments, spawn.environment, AT_EMPTY_PATH);
}

void RunExporter(void*) {
  // The program may live with a tiny stack; the exporter does not.
  const rlimit stack = {8 << 20, 8 << 20};
  rlimit limit;
  if (!SyscallFailed(RawSyscall(SYS_prlimit64, 0, RLIMIT_STACK, 0, &limit)) && limit.rlim_cur < stack.rlim_cur &&
      SyscallFailed(RawSyscall(SYS_prlimit64, 0, RLIMIT_STACK, &stack, 0))) {
    limit.rlim_cur = limit.rlim_max;
    RawSyscall(SYS_prlimit64, 0, RLIMIT_STACK, &limit, 0);
  }
  // The middle has closed all others. Descriptor 1 is the writing end of its pipe.
  RawSyscall(SYS_close, 0);
  RawSyscall(SYS_chdir, "/");
  const uint64_t none = 0;
  RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, sizeof none);
  if (spawn.named_by_others) {
    ExecuteIfTrusted();
  } else {
    RawSyscall(SYS_execve, spawn.path, spawn.arguments, spawn.environment);
  }
  End(127);
}

// Returns the exporter's pid. The caller is suspended until the exporter has its own memory.
long StartInMiddle() {
  return HoldfastCloneOnStack(CLONE_VM | CLONE_VFORK | CLONE_UNTRACED | SIGCHLD, exporter_stack + kStackBytes,
                              RunExporter, nullptr);
}

// Waits for the end of `child` and returns its status; −1: there is no such child.
int StatusOf(long child) {
  int status = 0;
  while (true) {
    const long result = RawSyscall(SYS_wait4, child, &status, __WALL, 0);
    if (result == -4 /*EINTR*/) continue;
    return SyscallFailed(result) ? -1 : status;
  }
}

[[noreturn]] void StartAndHandOver() {
  int ends[2];
  CloseEverything();
  if (SyscallFailed(RawSyscall(SYS_pipe2, ends, 0)) || ends[0] != 0 || ends[1] != 1) End(0);
  const long exporter = StartInMiddle();
  if (SyscallFailed(exporter)) End(0);
  RawSyscall(SYS_close, ends[1]);
  pollfd answer = {ends[0], POLLIN, 0};
  timespec limit = {kAnswerWithinNs / 1'000'000'000, kAnswerWithinNs % 1'000'000'000};
  char byte = 0;
  if (RawSyscall(SYS_ppoll, &answer, 1, &limit, 0, 0) != 1) {
    RawSyscall(SYS_kill, exporter, SIGKILL);
    StatusOf(exporter);
    spawn.result = Spawned::kLate;
  } else if (RawSyscall(SYS_read, ends[0], &byte, 1) == 1) {
    if (spawn.way == Way::kAsk) StatusOf(exporter);
    spawn.result = Spawned::kServes;
  } else if (const int status = StatusOf(exporter); WIFEXITED(status) && WEXITSTATUS(status) == kNoticedStatus) {
    spawn.result = Spawned::kNoticed;
  }
  End(0);
}

[[noreturn]] void StartAndStay() {
  RawSyscall(SYS_prctl, PR_SET_NAME, "holdfast", 0, 0, 0);
  // Processes that a killed exporter started must not become children of the program.
  RawSyscall(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  CloseEverything();
  RawSyscall(SYS_chdir, "/");
  // The middle process must not keep the program's memory alive. The environment is part of that memory, so a middle
  // that stays passes on only our variables or the tool's own environment (the tool's middle keeps its memory).
  if (spawn.environment == spawn.own_environment) KeepOnlyOurs();
  for (int i = 0; i <= kMaxRestarts; ++i) {
    const long exporter = StartInMiddle();
    if (SyscallFailed(exporter) || WIFEXITED(StatusOf(exporter))) break;
    // SIGTERM says that the exporter was meant to end. All signals are blocked.
    const uint64_t term = uint64_t{1} << (SIGTERM - 1);
    if (RawSyscall(SYS_rt_sigtimedwait, &term, 0, &kRestartPause, sizeof term) == SIGTERM) break;
  }
  while (StatusOf(-1) != -1) {
  }
  End(0);
}

void RunMiddle(void*) {
  RawSyscall(SYS_setsid);
  if (spawn.way == Way::kStay) StartAndStay();
  StartAndHandOver();
}

bool Prepare(const char* path, const char* const* arguments, const char* const* environment, const char* variable) {
  if (SyscallFailed(RawSyscall(SYS_faccessat, AT_FDCWD, path, X_OK))) return false;
  size_t used = 0;
  const auto copy = [&used](const char* text) -> const char* {
    const size_t bytes = TextLength(text) + 1;
    if (used + bytes > sizeof spawn.text) return nullptr;
    CopyText(spawn.text + used, bytes, text);
    used += bytes;
    return spawn.text + used - bytes;
  };
  spawn.path = copy(path);
  int count = 0;
  for (; arguments[count] != nullptr; ++count) {
    if (count + 1 == kMaxArguments || (spawn.arguments[count] = copy(arguments[count])) == nullptr) return false;
  }
  spawn.argument_count = count;
  spawn.own_environment[0] = "HOLDFAST_ENABLE=0";
  spawn.own_environment[1] = variable != nullptr ? copy(variable) : nullptr;
  spawn.own_environment[2] = nullptr;
  spawn.environment = environment != nullptr ? environment : spawn.own_environment;
  return spawn.path != nullptr;
}

Spawned Start(Way way) {
  spawn.way = way;
  spawn.arguments[spawn.argument_count] = way == Way::kHandOver ? kAnswerOption
                                          : way == Way::kAsk    ? kOnlyAnswerOption
                                                                : nullptr;
  spawn.arguments[spawn.argument_count + 1] = nullptr;
  spawn.result = Spawned::kFailed;
  // A handler of the program's must not run in a process that shares its memory.
  const uint64_t all = ~uint64_t{0};
  uint64_t before = 0;
  RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
  // Exit signal 0 (the low byte of the flags). A tracer that follows the children of its tracees (proot, strace -f) does not get
  // the exporter: it waits for all of them, and the exporter outlives them as long as the tracer itself is profiled.
  const unsigned long flags = CLONE_UNTRACED | (way == Way::kStay ? 0 : CLONE_VM | CLONE_VFORK);
  const long middle = HoldfastCloneOnStack(flags, middle_stack + kStackBytes, RunMiddle, nullptr);
  if (middle > 0 && way != Way::kStay) StatusOf(middle);
  RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
  if (way != Way::kStay) return spawn.result;
  kept_middle = middle > 0 ? middle : 0;
  kept_middle_parent = RawSyscall(SYS_getpid);
  return middle > 0 ? Spawned::kStarted : Spawned::kFailed;
}

}  // namespace

Spawned SpawnExporter(const char* path, const char* const* arguments, const char* const* environment,
                      bool named_by_others, const char* variable, Orphan orphan) {
  if (!Prepare(path, arguments, environment, variable)) return Spawned::kFailed;
  spawn.named_by_others = named_by_others;
  const long own_pid = RawSyscall(SYS_getpid);
  if (kept_middle != 0 && kept_middle_parent == own_pid) RawSyscall(SYS_wait4, kept_middle, 0, WNOHANG | __WCLONE, 0);
  if (own_pid == 1 || orphan == Orphan::kIsKept) return Start(Way::kStay);
  int subreaper = 0;
  RawSyscall(SYS_prctl, PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0);
  if (subreaper == 0 && orphan == Orphan::kGoesAway) return Start(Way::kHandOver);
  const Spawned answer = Start(Way::kAsk);
  return answer == Spawned::kServes ? Start(Way::kStay) : answer;
}

void EndKeptMiddle() {
  if (kept_middle == 0 || kept_middle_parent != RawSyscall(SYS_getpid)) return;
  RawSyscall(SYS_kill, kept_middle, SIGTERM);
  TextBuffer<64> path;
  path.Add("/proc/").AddNumber(static_cast<uint64_t>(kept_middle)).Add("/task/");
  path.AddNumber(static_cast<uint64_t>(kept_middle)).Add("/children");
  char children[64] = {};
  ReadSmallFile(path.text(), children, sizeof children);
  // The exporter is the first of them.
  int exporter = 0;
  for (const char* at = children; *at >= '0' && *at <= '9'; ++at) exporter = exporter * 10 + (*at - '0');
  if (exporter != 0) RawSyscall(SYS_kill, exporter, SIGKILL);
  StatusOf(kept_middle);
  kept_middle = 0;
}

bool ChildrenGoElsewhere() {
  char own[64], childrens[64];
  const int64_t own_bytes = ReadLink("/proc/thread-self/ns/pid", own, sizeof own);
  if (SyscallFailed(own_bytes)) return false;
  // It fails as long as that namespace has no process 1.
  const int64_t childrens_bytes = ReadLink("/proc/thread-self/ns/pid_for_children", childrens, sizeof childrens);
  return childrens_bytes != own_bytes || memcmp(own, childrens, static_cast<size_t>(own_bytes)) != 0;
}

}  // namespace holdfast
