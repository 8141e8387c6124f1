// Tells an exporter that cannot answer from one that is slow: stopped by a signal, held by a debugger, frozen with its
// container, or hung in a file system. Its lock stays held in all of these.
//
//     $ kill -STOP 4242                     4242 is the exporter
//     look 1, 2, 3, 5 ms apart              /proc/4242/stat says T, and nothing in it has changed: stalled
//
// If /proc shows the exporter, its state and its processor time are compared. Otherwise (another pid namespace,
// hidepid, chroot) the exporter counts a beat in its lock file while it works. A runnable exporter is never stalled,
// however busy the machine is: looks are counted, not time.
//
// System calls only; errno is kept. One object for each wait.
#ifndef HOLDFAST_SAMPLER_CONTRACT_EXPORTER_PROGRESS_H_
#define HOLDFAST_SAMPLER_CONTRACT_EXPORTER_PROGRESS_H_

#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

// The holder of the lock writes this at the start of the lock file. On a full disk it is missing.
struct ExporterRecord {
  uint64_t pid_ns = 0;       // inode of /proc/self/ns/pid
  uint64_t pid = 0;          // as its own /proc shows it
  uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat
  uint64_t beat = 0;         // +1 for each kWorkBeatNs of work; 0: not counted
};
inline constexpr int64_t kWorkBeatNs = 10'000'000;

class ExporterProgress {
 public:
  // Between two looks the caller waits for kBetweenLooksNs or longer.
  static constexpr int64_t kBetweenLooksNs = 5'000'000;

  // Checks the exporter of this folder. True: the exporter has not moved for several looks, and will not answer.
  // `known_pid`: TableHeader::exporter_pid, or 0. It identifies root's exporter: users cannot read root's lock file.
  bool IsStalled(const char* tables, const char* out, FolderId id, int32_t known_pid = 0);

  // After IsStalled() was true: the exporter's pid and state in /proc, such as 'T'; 0 if /proc does not show the exporter.
  int pid() const { return pid_; }
  char state() const { return state_; }

 private:
  bool LookInProc(uint64_t pid, uint64_t start_ticks, uint64_t* key);

  uint64_t key_ = 0;    // of everything that changes while the exporter moves
  int same_looks_ = 0;  // consecutive looks with this key
  int pid_ = 0;
  char state_ = '\0';
  bool has_times_ = false;  // the kernel counts how often a process ran
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_EXPORTER_PROGRESS_H_
