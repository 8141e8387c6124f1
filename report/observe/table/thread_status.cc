#include "report/observe/table/thread_status.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <map>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "report/base/proc_file.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"

namespace holdfast {
namespace {

constexpr int64_t kEpollPwait2 = 441;  // not in all headers

// System calls in which threads typically sleep.
struct NamedCall {
  int64_t number;
  const char* name;
};
constexpr NamedCall kCalls[] = {{SYS_read, "read"},
                                {SYS_write, "write"},
                                {SYS_ioctl, "ioctl"},
                                {SYS_pread64, "pread"},
                                {SYS_pwrite64, "pwrite"},
                                {SYS_readv, "readv"},
                                {SYS_writev, "writev"},
                                {SYS_msync, "msync"},
                                {SYS_nanosleep, "nanosleep"},
                                {SYS_sendfile, "sendfile"},
                                {SYS_connect, "connect"},
                                {SYS_accept, "accept"},
                                {SYS_sendto, "sendto"},
                                {SYS_recvfrom, "recvfrom"},
                                {SYS_sendmsg, "sendmsg"},
                                {SYS_recvmsg, "recvmsg"},
                                {SYS_wait4, "wait4"},
                                {SYS_semop, "semop"},
                                {SYS_msgrcv, "msgrcv"},
                                {SYS_fcntl, "fcntl"},
                                {SYS_flock, "flock"},
                                {SYS_fsync, "fsync"},
                                {SYS_fdatasync, "fdatasync"},
                                {SYS_rt_sigtimedwait, "sigtimedwait"},
                                {SYS_rt_sigsuspend, "sigsuspend"},
                                {SYS_futex, "futex"},
                                {SYS_io_getevents, "io_getevents"},
                                {SYS_semtimedop, "semtimedop"},
                                {SYS_clock_nanosleep, "clock_nanosleep"},
                                {SYS_waitid, "waitid"},
                                {SYS_openat, "openat"},
                                {SYS_pselect6, "pselect"},
                                {SYS_ppoll, "ppoll"},
                                {SYS_fallocate, "fallocate"},
                                {SYS_accept4, "accept4"},
                                {SYS_epoll_pwait, "epoll_pwait"},
#if defined(__x86_64__)  // other processors have only the calls that replaced these
                                {SYS_poll, "poll"},
                                {SYS_select, "select"},
                                {SYS_pause, "pause"},
                                {SYS_epoll_wait, "epoll_wait"},
                                {SYS_open, "open"},
                                {SYS_stat, "stat"},
                                {SYS_lstat, "lstat"},
                                {SYS_fork, "fork"},
                                {SYS_vfork, "vfork"},
                                {SYS_rename, "rename"},
                                {SYS_unlink, "unlink"},
                                {SYS_mkdir, "mkdir"},
#endif
                                {SYS_io_uring_enter, "io_uring_enter"},
                                {SYS_close, "close"},
                                {SYS_fstat, "fstat"},
                                {SYS_lseek, "lseek"},
                                {SYS_mmap, "mmap"},
                                {SYS_mprotect, "mprotect"},
                                {SYS_munmap, "munmap"},
                                {SYS_brk, "brk"},
                                {SYS_madvise, "madvise"},
                                {SYS_mremap, "mremap"},
                                {SYS_sched_yield, "sched_yield"},
                                {SYS_shutdown, "shutdown"},
                                {SYS_clone, "clone"},
                                {SYS_execve, "execve"},
                                {SYS_exit, "exit"},
                                {SYS_kill, "kill"},
                                {SYS_semget, "semget"},
                                {SYS_msgsnd, "msgsnd"},
                                {SYS_getdents64, "getdents64"},
                                {SYS_unlinkat, "unlinkat"},
                                {SYS_mkdirat, "mkdirat"},
                                {SYS_statfs, "statfs"},
                                {SYS_ftruncate, "ftruncate"},
                                {SYS_sync, "sync"},
                                {SYS_syncfs, "syncfs"},
                                {SYS_sync_file_range, "sync_file_range"},
                                {SYS_process_vm_readv, "process_vm_readv"},
                                {SYS_splice, "splice"},
                                {SYS_tee, "tee"},
                                {SYS_vmsplice, "vmsplice"},
                                {SYS_copy_file_range, "copy_file_range"},
                                {SYS_preadv, "preadv"},
                                {SYS_pwritev, "pwritev"},
                                {SYS_preadv2, "preadv2"},
                                {SYS_pwritev2, "pwritev2"},
                                {SYS_recvmmsg, "recvmmsg"},
                                {SYS_sendmmsg, "sendmmsg"},
                                {SYS_newfstatat, "newfstatat"},
                                {SYS_statx, "statx"},
                                {SYS_getrandom, "getrandom"},
                                {SYS_clock_gettime, "clock_gettime"},
                                {SYS_gettid, "gettid"},
                                {kEpollPwait2, "epoll_pwait2"},
                                {449, "futex_waitv"},
                                {455, "futex_wait"},
                                {SYS_membarrier, "membarrier"},
                                {SYS_userfaultfd, "userfaultfd"},
                                {SYS_inotify_add_watch, "inotify_add_watch"},
                                {SYS_mq_timedsend, "mq_timedsend"},
                                {SYS_mq_timedreceive, "mq_timedreceive"},
                                {SYS_set_robust_list, "set_robust_list"},
                                {SYS_exit_group, "exit_group"},
                                {SYS_mlock, "mlock"},
                                {SYS_mlockall, "mlockall"},
                                {SYS_munlockall, "munlockall"},
                                {SYS_fadvise64, "fadvise64"},
                                {SYS_readahead, "readahead"},
                                {SYS_finit_module, "finit_module"},
                                {SYS_ptrace, "ptrace"},
                                {SYS_setsockopt, "setsockopt"},
                                {SYS_getsockopt, "getsockopt"},
                                {SYS_socket, "socket"},
                                {SYS_bind, "bind"},
                                {SYS_listen, "listen"}};

const char* NameOfCall(int64_t number) {
  for (const NamedCall& call : kCalls) {
    if (call.number == number) return call.name;
  }
  return nullptr;
}

std::string CallName(int64_t number) {
  const char* name = NameOfCall(number);
  return name != nullptr ? name : absl::StrCat("system call ", number);
}

bool WaitsForEvents(int64_t call) {
#if defined(__x86_64__)
  if (call == SYS_poll || call == SYS_select || call == SYS_epoll_wait) return true;
#endif
  return call == kEpollPwait2 || call == SYS_ppoll || call == SYS_pselect6 || call == SYS_epoll_pwait;
}

std::string WithoutLastNewlines(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

std::string ReadOfThread(pid_t pid, pid_t thread, const char* name) {
  return WithoutLastNewlines(ReadProcFile(OpenOfProcess(pid, absl::StrCat("task/", thread, "/", name))));
}

std::vector<std::pair<pid_t, uint32_t>> ThreadsOf(pid_t pid, bool other_namespace) {
  std::vector<std::pair<pid_t, uint32_t>> threads;
  if (ThreadCountOf(pid) == 1) {  // as most processes that live for a moment: the folder need not be listed
    threads.emplace_back(pid, static_cast<uint32_t>(pid));
  } else {
    const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir(absl::StrCat("/proc/", pid, "/task").c_str()), closedir);
    if (tasks == nullptr) return threads;
    while (const dirent* entry = readdir(tasks.get())) {
      pid_t thread;
      if (absl::SimpleAtoi(entry->d_name, &thread)) threads.emplace_back(thread, static_cast<uint32_t>(thread));
    }
  }
  // Ids are assigned in ascending order and wrap around; main has the process's id.
  std::sort(threads.begin(), threads.end(), [pid](const auto& a, const auto& b) {
    return std::pair(a.first < pid, a.first) < std::pair(b.first < pid, b.first);
  });
  if (!other_namespace) return threads;
  for (auto& [thread, inner] : threads) inner = InnerIdOf(ReadOfThread(pid, thread, "status"));
  return threads;
}

size_t ThreadCountOf(pid_t pid) {
  struct stat info;
  const bool is_known = stat(absl::StrCat("/proc/", pid, "/task").c_str(), &info) == 0 && info.st_nlink > 2;
  return is_known ? info.st_nlink - 2 : 0;  // a link for each thread, "." and its name
}

uint32_t InnerIdOf(std::string_view status) {
  for (absl::string_view line : absl::StrSplit(absl::string_view(status.data(), status.size()), '\n')) {
    if (!absl::ConsumePrefix(&line, "NSpid:")) continue;
    const std::vector<absl::string_view> ids = absl::StrSplit(line, '\t', absl::SkipEmpty());
    uint32_t inner = 0;
    return !ids.empty() && absl::SimpleAtoi(ids.back(), &inner) ? inner : 0;
  }
  return 0;
}

std::string SystemCallName(int64_t number) {
  const char* name = NameOfCall(number);
  return name != nullptr ? name : absl::StrCat(number);
}

std::string ThreadName(pid_t pid, pid_t thread) { return ReadOfThread(pid, thread, "comm"); }

std::optional<int64_t> ThreadBegan(pid_t pid, pid_t thread) { return BeganOf(ReadOfThread(pid, thread, "stat")); }

std::optional<int64_t> BeganOf(std::string_view stat) {
  constexpr int64_t kSecond = 1'000'000'000;
  const std::optional<uint64_t> ticks = StartTicksOf(stat);
  timespec since_boot{}, monotonic{};
  if (!ticks.has_value() || clock_gettime(CLOCK_BOOTTIME, &since_boot) != 0 ||
      clock_gettime(CLOCK_MONOTONIC, &monotonic) != 0) {
    return std::nullopt;
  }
  const int64_t asleep_ns = (since_boot.tv_sec - monotonic.tv_sec) * kSecond + since_boot.tv_nsec - monotonic.tv_nsec;
  return static_cast<int64_t>(*ticks) * (kSecond / sysconf(_SC_CLK_TCK)) - asleep_ns;
}

std::optional<uint64_t> StartTicksOf(std::string_view stat) {
  constexpr size_t kStartTime = 22 - 3;  // fields of proc(5) after the name and a space
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= stat.size()) return std::nullopt;
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::string_view(stat.data(), stat.size()).substr(name_end + 2), ' ');
  uint64_t ticks = 0;
  if (words.size() <= kStartTime || !absl::SimpleAtoi(words[kStartTime], &ticks)) return std::nullopt;
  return ticks;
}

std::string NameInStat(std::string_view stat) {
  // The name may contain any character. The kernel escapes none here.
  const size_t start = stat.find('('), end = stat.rfind(')');
  if (start == std::string_view::npos || end == std::string_view::npos || end <= start) return "";
  return WithoutLastNewlines(std::string(stat.substr(start + 1, end - start - 1)));
}

std::optional<ThreadSwitches> SwitchesOf(pid_t pid, pid_t thread) {
  const std::string status = ReadOfThread(pid, thread, "status");
  ThreadSwitches switches;
  int counts = 0;
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    uint64_t count = 0;
    if (absl::ConsumePrefix(&line, "State:")) {
      line = absl::StripLeadingAsciiWhitespace(line);
      switches.sleeps = !line.empty() && absl::string_view("STtZX").find(line[0]) != absl::string_view::npos;
    } else if (absl::ConsumePrefix(&line, "voluntary_ctxt_switches:") ||
               absl::ConsumePrefix(&line, "nonvoluntary_ctxt_switches:")) {
      if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &count)) return std::nullopt;
      switches.count += count;
      ++counts;
    }
  }
  return counts == 2 ? std::optional(switches) : std::nullopt;
}

std::optional<BlockedCall> BlockedCallOf(pid_t pid, pid_t thread) {
  const std::string text = ReadOfThread(pid, thread, "syscall");
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  BlockedCall call{};
  if (words.size() != 9 || !absl::SimpleAtoi(words[0], &call.number)) return std::nullopt;  // "running"
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (!absl::SimpleHexAtoi(words[1 + i], &call.arguments[i])) return std::nullopt;
  }
  if (!absl::SimpleHexAtoi(words[7], &call.sp) || !absl::SimpleHexAtoi(words[8], &call.pc)) return std::nullopt;
  return call;
}

ThreadActivity ThreadActivityOf(pid_t pid, pid_t thread, const std::optional<BlockedCall>& call) {
  const std::string stat = ReadOfThread(pid, thread, "stat");
  const size_t name_end = stat.rfind(')');  // the name may contain any character
  const char state = name_end == std::string::npos || name_end + 2 >= stat.size() ? '?' : stat[name_end + 2];
  const char* says = "in a state that is not known";
  switch (state) {
    case 'R':
      return {"runs"};
    case 'S':
      says = "sleeps";
      break;
    case 'D':
      says = "sleeps, not to be interrupted,";
      break;
    case 'T':
      says = "stopped by a signal";
      break;
    case 't':
      says = "stopped by a debugger";
      break;
    case 'Z':
    case 'X':
      return {"has ended"};
    default:
      break;
  }
  ThreadActivity activity{says};
  std::string& text = activity.text;
  if (call.has_value()) absl::StrAppend(&text, " in ", CallName(call->number));
  activity.polls = state == 'S' && call.has_value() && WaitsForEvents(call->number);
  std::string channel = ReadOfThread(pid, thread, "wchan");
  if (!std::all_of(channel.begin(), channel.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; })) {
    channel.clear();
  }
  if (!channel.empty() && channel != "0") absl::StrAppend(&text, " (", channel, ")");
  return activity;
}

ProcessMemory::ProcessMemory(pid_t pid) : pid_(pid), file_(OpenOfProcess(ThreadWithMemory(pid), "mem")) {
  is_denied_ = !file_.valid() && (errno == EACCES || errno == EPERM);
}

bool ProcessMemory::Read(uint64_t address, void* to, size_t bytes) const {
  if (reader_) return reader_(address, to, bytes);
  return file_.valid() && address <= INT64_MAX &&
         pread(file_.get(), to, bytes, static_cast<off_t>(address)) == static_cast<ssize_t>(bytes);
}

LookRights LookRightsFor(pid_t pid) {
  constexpr int kSysPtrace = 19;  // CAP_SYS_PTRACE
  LookRights rights;
  rights.is_root = geteuid() == 0;
  rights.is_same_user = UserOfProcess(pid) == geteuid();
  const std::string status = ReadWhole("/proc/self/status"), scope = ReadWhole("/proc/sys/kernel/yama/ptrace_scope");
  const size_t at = status.find("CapEff:\t");
  uint64_t capabilities = 0;
  if (at != std::string::npos && absl::SimpleHexAtoi(status.substr(at + 8, 16), &capabilities)) {
    rights.may_trace_all = (capabilities >> kSysPtrace & 1) != 0;
  }
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(scope), &rights.yama_scope)) rights.yama_scope = 0;
  return rights;
}

std::string WhyUnreadable(const LookRights& rights, pid_t pid, std::string_view command) {
  const std::string as_root = absl::StrCat("as root: holdfast ", std::string(command), " ", pid);
  if (rights.yama_scope >= 3) {
    return absl::StrCat("kernel.yama.ptrace_scope is ", rights.yama_scope,
                        ", so that nobody may look into a process until the next boot");
  }
  if (rights.is_root && !rights.may_trace_all) {
    return "root may look into no process of others without CAP_SYS_PTRACE; for a container: docker run --cap-add "
           "SYS_PTRACE";
  }
  if (rights.is_root)
    return "the kernel, or a security module (AppArmor, SELinux), does not let root look into the process";
  if (!rights.is_same_user) return "the process is another user's; " + as_root;
  if (rights.yama_scope > 0) {
    return absl::StrCat("kernel.yama.ptrace_scope is ", rights.yama_scope, "; ", as_root,
                        ", or sysctl -w kernel.yama.ptrace_scope=0");
  }
  return "the process changed its user after it was started, or forbids others to look into it; " + as_root;
}

}  // namespace holdfast
