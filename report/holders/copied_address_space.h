// A copy of a process's memory, made while all its threads are stopped: `--stop`. The analysis then works on the copy,
// which is exact, and knows all registers.
//
// The stop lasts as long as the copy: about 0.2 s for each GiB. Threads have 1 s to stop, and the copy 1 s and 1 s for each
// GiB; otherwise the process continues and the answer is an error. A thread that the kernel cannot stop, because it waits for
// a disk or for a child after vfork, runs no code of the program; it counts as stopped, with unknown registers.
//
// A thread of its own traces the process. When that thread ends, the kernel lets all traced threads continue, also those
// that did not stop. A thread that sleeps in a system call continues to sleep, except in the few calls that never
// restart (epoll_wait, semop): these return EINTR, as after SIGSTOP. A process that was stopped by a signal remains so.
//
// Needs the kernel's permission to trace: the same user with kernel.yama.ptrace_scope 0, or CAP_SYS_PTRACE; and no other
// tracer.
#ifndef HOLDFAST_REPORT_HOLDERS_COPIED_ADDRESS_SPACE_H_
#define HOLDFAST_REPORT_HOLDERS_COPIED_ADDRESS_SPACE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "report/holders/address_space.h"

namespace holdfast {

class CopiedAddressSpace : public AddressSpace {
 public:
  // Stops the process, copies all pages that may hold pointers, and lets the process continue. `while_stopped` reads what
  // else must be of the same moment; its error becomes that of Make. `process` must outlive the copy. When Make returns,
  // the threads run again, also after an error:
  //   ResourceExhausted   before the stop: the copy would be larger than `most_bytes`, or there is no memory for it; or the
  //                       process grew so much meanwhile that the copy is incomplete
  //   PermissionDenied    a thread may not be traced (the kernel refuses, or a debugger is attached), or the list of
  //                       mappings may not be read
  //   DeadlineExceeded    a thread did not stop, or the copy did not end, in the time above
  //   NotFound            the process has exited
  static absl::StatusOr<std::unique_ptr<CopiedAddressSpace>> Make(ProcessAddressSpace* process, uint64_t most_bytes,
                                                                  const std::function<absl::Status()>& while_stopped);
  ~CopiedAddressSpace() override;

  // Reads from the copy; code and constants, which are not copied, from the process.
  bool Read(uint64_t address, void* to, size_t bytes) const override;
  MemoryRange PopulatedRun(uint64_t from, uint64_t end) override;

  int64_t stopped_ns() const { return stopped_ns_; }  // how long the process was stopped
  uint64_t bytes() const { return used_; }            // how much of its memory was copied

 private:
  explicit CopiedAddressSpace(ProcessAddressSpace* process) : process_(*process) {}
  absl::Status StopAndCopy(const std::function<absl::Status()>& while_stopped);
  absl::Status Copy(int64_t deadline);

  struct Run {
    MemoryRange range;
    uint64_t offset;  // in the copy
  };
  ProcessAddressSpace& process_;
  std::vector<Run> runs_;  // by address
  char* copy_ = nullptr;
  uint64_t reserved_ = 0, used_ = 0;
  int64_t stopped_ns_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_COPIED_ADDRESS_SPACE_H_
