#include "sampler/contract/orphan_reaper.h"

#include <sys/stat.h>

#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"

namespace holdfast {
namespace {

constexpr uint64_t kMachinesPidNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO in the kernel: fixed
constexpr int kMaxAncestors = 256;

// Reapers that end with their child.
constexpr const char* kEndWithChild[] = {"tini", "tini-static", "docker-init", "dumb-init", "catatonit"};
// Programs that reap a child which they do not know, and neither print nor count it, or that never wait for a child. Shells look
// for the pid among their jobs.
constexpr const char* kSilent[] = {"systemd",
                                   "init",
                                   "s6-svscan",
                                   "runsvdir",
                                   "pause",
                                   "conmon",
                                   "containerd-shim",
                                   "containerd-shim-runc-v2",
                                   "holdfast",
                                   "bash",
                                   "dash",
                                   "sh",
                                   "busybox",
                                   "sleep",
                                   "tail"};
// Programs that never become subreapers. PID 1 of a container has orphans all the same.
constexpr const char* kNoSubreapers[] = {"zsh",
                                         "fish",
                                         "ksh",
                                         "mksh",
                                         "sshd",
                                         "sshd-session",
                                         "dropbear",
                                         "login",
                                         "agetty",
                                         "su",
                                         "sudo",
                                         "runuser",
                                         "doas",
                                         "lightdm",
                                         "sddm",
                                         "sddm-helper",
                                         "gdm-session-wor",
                                         "gdm-session-worker",
                                         "tmux",
                                         "screen",
                                         "cron",
                                         "crond",
                                         "atd",
                                         "s6-supervise",
                                         "runsv",
                                         "make",
                                         "ninja",
                                         "timeout",
                                         "unshare",
                                         "nsenter",
                                         "xargs",
                                         "gdb",
                                         "strace"};

template <size_t kCount>
bool IsOneOf(const char* const (&names)[kCount], const char* name) {
  for (const char* one : names) {
    if (TextEquals(one, name)) return true;
  }
  return false;
}

bool IsSilent(const char* name) { return IsOneOf(kEndWithChild, name) || IsOneOf(kSilent, name); }

constinit char status_text[8192] = {};  // of /proc/PID/status, in which the groups of a user may take some KiB

struct Status {
  Ancestor process;
  int parent = 0;
  int depth = 0;  // pid namespaces from that of /proc down to the process's own; 0: not known (before Linux 4.1)
};

// After "NAME:" and blanks; null: there is no such line.
const char* FieldOf(const char* text, const char* name) {
  while (*text != '\0') {
    if (TextStartsWith(text, name)) {
      text += TextLength(name);
      while (*text == '\t' || *text == ' ') ++text;
      return text;
    }
    while (*text != '\0' && *text++ != '\n') {
    }
  }
  return nullptr;
}

int NumberAt(const char*& text) {
  int number = 0;
  for (; *text >= '0' && *text <= '9'; ++text) number = number * 10 + (*text - '0');
  return number;
}

// Takes the name of the executable, which a program cannot change as it can its own.
void TakeName(const char* directory, Ancestor* process) {
  TextBuffer<48> path;
  path.Add(directory).Add("/exe");
  char target[512];
  const long length = ReadLink(path.text(), target, sizeof target - 1);
  if (!SyscallFailed(length) && length > 0) {
    target[length] = '\0';
    const char* name = target;
    for (const char* at = target; *at != '\0'; ++at) {
      if (*at == '/') name = at + 1;
    }
    CopyText(process->name, sizeof process->name, name);
    for (char* at = process->name; *at != '\0'; ++at) {
      if (TextEquals(at, " (deleted)")) *at = '\0';
    }
    return;
  }
  const char* name = FieldOf(status_text, "Name:");
  size_t i = 0;
  for (; name != nullptr && name[i] != '\n' && name[i] != '\0' && i + 1 < sizeof process->name; ++i)
    process->name[i] = name[i];
  process->name[i] = '\0';
}

bool ReadStatus(const char* process, Status* status) {
  TextBuffer<32> directory;
  directory.Add("/proc/").Add(process);
  TextBuffer<48> path;
  path.Add(directory.text()).Add("/status");
  if (ReadSmallFile(path.text(), status_text, sizeof status_text) <= 0) return false;
  *status = {};
  const char* pid = FieldOf(status_text, "Pid:");
  const char* parent = FieldOf(status_text, "PPid:");
  if (pid == nullptr || parent == nullptr) return false;
  status->process.pid = status->process.own_pid = NumberAt(pid);
  status->parent = NumberAt(parent);
  if (const char* pids = FieldOf(status_text, "NSpid:"); pids != nullptr) {
    while (*pids >= '0' && *pids <= '9') {
      status->process.own_pid = NumberAt(pids);
      ++status->depth;
      while (*pids == '\t' || *pids == ' ') ++pids;
    }
  }
  TakeName(directory.text(), &status->process);
  return true;
}

bool ReadStatus(int pid, Status* status) {
  TextBuffer<24> number;
  number.AddNumber(static_cast<uint64_t>(pid));
  return ReadStatus(number.text(), status);
}

}  // namespace

bool EndsWithItsChild(const char* name) { return IsOneOf(kEndWithChild, name); }

namespace {

// The ancestors of a process within its pid namespace.
class Walk {
 public:
  explicit Walk(const char* process) : valid_(ReadStatus(process, &own_)), next_(own_.parent) {
    found_first_ = own_.process.own_pid == 1;
  }
  bool valid() const { return valid_; }
  bool is_nested() const { return own_.depth > 1; }  // below the namespace of /proc
  bool is_first() const { return valid_ && own_.process.own_pid == 1; }

  // False: there is no other, or no other can be seen.
  bool Next(Ancestor* ancestor) {
    Status status;
    if (!valid_ || found_first_) return false;
    // Hidden (hidepid), just ended, or outside of the namespace, which somebody entered from there (docker exec, nsenter).
    // Then PID 1 is the only other ancestor; /proc shows it by that number if /proc is of this namespace.
    if (next_ <= 0 || steps_++ == kMaxAncestors || !ReadStatus(next_, &status) || status.depth < own_.depth) {
      if (own_.depth > 1 || !ReadStatus(1, &status)) return false;
    }
    found_first_ = status.process.is_first = status.process.own_pid == 1;
    next_ = status.parent;
    *ancestor = status.process;
    return true;
  }

 private:
  Status own_{};
  bool valid_;
  bool found_first_ = false;
  int next_, steps_ = 0;
};

}  // namespace

Orphans WhereOrphansGo(const char* process, Ancestor* who, MayTakeOrphans may_take, void* context) {
  *who = {};
  Walk walk(process);
  if (!walk.valid()) return Orphans::kNoticed;
  struct stat info;
  const bool in_container = walk.is_nested() ||
                            SyscallFailed(RawSyscall(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &info, 0)) ||
                            info.st_ino != kMachinesPidNamespace;
  Ancestor ancestor;
  bool reaches_first = walk.is_first();
  while (walk.Next(&ancestor)) {
    const bool is_silent = IsSilent(ancestor.name);
    bool notices = false;
    if (ancestor.is_first) {
      reaches_first = true;
      notices = in_container && !is_silent;  // the machine's own PID 1 is made to reap every orphan
    } else if (may_take != nullptr && !is_silent && !IsOneOf(kNoSubreapers, ancestor.name)) {
      notices = may_take(ancestor, in_container, context);
    }
    if (notices) {
      *who = ancestor;
      return Orphans::kNoticed;
    }
  }
  return reaches_first || !in_container ? Orphans::kUnnoticed : Orphans::kNoticed;
}

void ForEachAncestor(const char* process, void (*look)(const Ancestor& ancestor, void* context), void* context) {
  Walk walk(process);
  for (Ancestor ancestor; walk.Next(&ancestor);) look(ancestor, context);
}

}  // namespace holdfast
