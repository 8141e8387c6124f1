// What /proc says of a thread that is neither ours nor our child: its name, and what it does when it sleeps.
#ifndef HOLDFAST_REPORT_TABLE_THREAD_STATUS_H_
#define HOLDFAST_REPORT_TABLE_THREAD_STATUS_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/base/file_descriptor.h"

namespace holdfast {

// The threads of a process that live: their ids as we see them and as the process sees them, the oldest first.
std::vector<std::pair<pid_t, uint32_t>> ThreadsOf(pid_t pid, bool other_namespace);

// "worker"; "" if it cannot be read.
std::string ThreadName(pid_t pid, pid_t thread);

// When it was created: CLOCK_MONOTONIC, to a hundredth of a second. Nothing if it cannot be read.
std::optional<int64_t> ThreadBegan(pid_t pid, pid_t thread);

// The system call that a thread sleeps in. Nothing: it runs, or the kernel does not let us look.
struct BlockedCall {
  int64_t number;
  std::array<uint64_t, 6> arguments;
  uint64_t sp, pc;
};
std::optional<BlockedCall> BlockedCallOf(pid_t pid, pid_t thread);

// "sleeps in clock_nanosleep (hrtimer_nanosleep)", "runs", "stopped (SIGSTOP)", "waits for a disk"; as far as /proc says it.
std::string WhatThreadDoes(pid_t pid, pid_t thread, const std::optional<BlockedCall>& call);

// The memory of another process, through /proc: by system calls that every filter knows, which the exporter may have inherited.
class ProcessMemory {
 public:
  explicit ProcessMemory(pid_t pid);
  // The kernel does not let us look.
  bool is_denied() const { return is_denied_; }
  // False: not all of it can be read.
  bool Read(uint64_t address, void* to, size_t bytes) const;

 private:
  FileDescriptor file_;
  bool is_denied_ = false;
};

// Why the kernel does not let us look into a process, as far as it tells, and what to do about it: for a message.
struct LookRights {
  bool is_root = false;
  bool may_trace_all = false;  // CAP_SYS_PTRACE
  bool is_same_user = false;
  int yama_scope = 0;  // kernel.yama.ptrace_scope
};
LookRights LookRightsFor(pid_t pid);
std::string WhyNoLook(const LookRights& rights, pid_t pid);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_THREAD_STATUS_H_
