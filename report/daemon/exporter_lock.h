// The lock that elects the exporter of an output folder: a file `<tables>/holdfast.<uid>.<hash of out>.lock`. Only the
// holder of its flock writes profiles from dead processes' tables of that folder. report/daemon/exporter.h has the
// protocol, sampler/contract/spawn_exporter.h how the process checks the lock.
#ifndef HOLDFAST_REPORT_DAEMON_EXPORTER_LOCK_H_
#define HOLDFAST_REPORT_DAEMON_EXPORTER_LOCK_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "report/base/file_descriptor.h"
#include "sampler/contract/layout.h"

namespace holdfast {

class ExporterLock {
 public:
  // `id`: the folder's id, as in its tables' headers.
  ExporterLock(const std::string& tables, const std::string& out, FolderId id);
  ExporterLock(const std::string& tables, const std::string& out);  // with the id of the existing folder
  ~ExporterLock() { Release(); }

  // Returns false if another process holds the lock, or the file cannot be opened. Waits some milliseconds at most.
  bool Take();
  // After Take() returned false: whether the holder is in another pid namespace. That may be a container within ours,
  // which may end at any moment.
  bool HeldElsewhere() const { return held_elsewhere_; }
  // After Take() returned false: another user's file blocks the path, possibly forever.
  bool Barred() const { return barred_; }
  const std::string& path() const { return path_; }
  // The word in the lock file that changes while its holder works (work_beat.h); null: the file has none. It stays
  // mapped after the lock is released.
  std::atomic<uint64_t>* beat() const { return beat_; }
  // Removes the file and releases the lock.
  void Release();

 private:
  std::string path_;
  void WriteRecord(uint64_t pid_namespace);

  FileDescriptor file_;  // valid while the lock is held; contains an ExporterRecord
  std::atomic<uint64_t>* beat_ = nullptr;
  bool barred_ = false;
  bool held_elsewhere_ = false;
};

// Returns whether another user's exporter holds the lock of this folder. `user`: the user id in that exporter's
// namespace.
bool IsLockHeld(const std::string& tables, const std::string& out, FolderId id, uint32_t user);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_EXPORTER_LOCK_H_
