// Reads and writes the memory of a process by one of its threads: the main thread may have ended. Not through /proc/PID/mem,
// which only root may open after the process has changed its user. False: not all of it was read or written.
#ifndef HOLDFAST_REPORT_RUN_TRACED_MEMORY_H_
#define HOLDFAST_REPORT_RUN_TRACED_MEMORY_H_

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

namespace holdfast {

inline bool ReadTraced(pid_t thread, uint64_t address, void* to, size_t bytes) {
  const iovec ours = {to, bytes}, its = {reinterpret_cast<void*>(address), bytes};
  return process_vm_readv(thread, &ours, 1, &its, 1, 0) == static_cast<ssize_t>(bytes);
}

inline bool WriteTraced(pid_t thread, uint64_t address, const void* from, size_t bytes) {
  const iovec ours = {const_cast<void*>(from), bytes}, its = {reinterpret_cast<void*>(address), bytes};
  return bytes == 0 || process_vm_writev(thread, &ours, 1, &its, 1, 0) == static_cast<ssize_t>(bytes);
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_TRACED_MEMORY_H_
