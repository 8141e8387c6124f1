// Reads about threads of other processes from /proc: the name, and what a sleeping thread does.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_THREAD_STATUS_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_THREAD_STATUS_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/base/file_descriptor.h"

namespace holdfast {

// Returns the live threads of a process, oldest first: their ids as we see them and as the process sees them. 0: that id
// cannot be read, because the thread has just ended or we lack descriptors.
std::vector<std::pair<pid_t, uint32_t>> ThreadsOf(pid_t pid, bool other_namespace);
// Returns the number of a process's threads; 0: not known. Cheaper than a list of them.
size_t ThreadCountOf(pid_t pid);
// The id of a thread as its process sees it, from the text of the thread's file status; 0: the text has none.
uint32_t InnerIdOf(std::string_view status);

// Reads a file of a thread, such as "comm", without the last newline; "" if it cannot be read.
std::string ReadOfThread(pid_t pid, pid_t thread, const char* name);

// "worker"; "" if it cannot be read.
std::string ThreadName(pid_t pid, pid_t thread);

// Returns when the thread was created: CLOCK_MONOTONIC, to a hundredth of a second. Nothing if it cannot be read.
std::optional<int64_t> ThreadBegan(pid_t pid, pid_t thread);
// The same, from the text of the thread's file stat. After the machine was suspended, an earlier time than before.
std::optional<int64_t> BeganOf(std::string_view stat);
// The start as the kernel says it in that text, in ticks since the machine's start: never changes.
std::optional<uint64_t> StartTicksOf(std::string_view stat);
// The name in that text, as ThreadName has it; "": the text has none.
std::string NameInStat(std::string_view stat);

// How often a thread has been switched out, and whether it sleeps or is stopped. Nothing: it cannot be read.
struct ThreadSwitches {
  uint64_t count = 0;
  bool sleeps = false;
};
std::optional<ThreadSwitches> SwitchesOf(pid_t pid, pid_t thread);

// The system call in which a thread sleeps. Nothing: the thread runs, or the kernel does not permit it.
struct BlockedCall {
  int64_t number;
  std::array<uint64_t, 6> arguments;
  uint64_t sp, pc;
};
std::optional<BlockedCall> BlockedCallOf(pid_t pid, pid_t thread);

// "clock_nanosleep"; the number if it has no name here.
std::string SystemCallName(int64_t number);

// Describes the thread: "sleeps in clock_nanosleep (hrtimer_nanosleep)", "runs", "stopped (SIGSTOP)", "waits for a
// disk", in the detail that /proc gives.
struct ThreadActivity {
  std::string text;
  bool polls = false;  // it sleeps in a system call that waits for events: epoll, poll, select
};
ThreadActivity ThreadActivityOf(pid_t pid, pid_t thread, const std::optional<BlockedCall>& call);

// Reads the memory of another process through /proc: only with system calls that every filter permits, because the
// exporter may have inherited one.
class ProcessMemory {
 public:
  using Reader = std::function<bool(uint64_t address, void* to, size_t bytes)>;

  explicit ProcessMemory(pid_t pid);
  // Memory that is read in another way: a copy, or a core file.
  explicit ProcessMemory(Reader reader) : pid_(0), reader_(std::move(reader)) {}
  pid_t pid() const { return pid_; }
  // The kernel does not permit reading.
  bool is_denied() const { return is_denied_; }
  // Returns false if a part cannot be read.
  bool Read(uint64_t address, void* to, size_t bytes) const;

 private:
  const pid_t pid_;
  const Reader reader_;
  FileDescriptor file_;
  bool is_denied_ = false;
};

// Why the kernel does not let us inspect a process, if known, and what to do about it: for a message. `command`: "stuck".
struct LookRights {
  bool is_root = false;
  bool may_trace_all = false;  // CAP_SYS_PTRACE
  bool is_same_user = false;
  int yama_scope = 0;  // kernel.yama.ptrace_scope
};
LookRights LookRightsFor(pid_t pid);
std::string WhyUnreadable(const LookRights& rights, pid_t pid, std::string_view command);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_THREAD_STATUS_H_
