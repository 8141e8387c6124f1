// The lock by which the exporter of an output folder is elected: a file `<tables>/holdfast.<uid>.<hash of out>.lock`.
// Who holds its flock is the only one that writes profiles from dead processes' tables of that folder. See
// report/exporter/exporter.h for the protocol; sampler/spawn/spawn_exporter.h for how the target asks.
#ifndef HOLDFAST_REPORT_EXPORTER_EXPORTER_LOCK_H_
#define HOLDFAST_REPORT_EXPORTER_EXPORTER_LOCK_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "report/base/file_descriptor.h"
#include "sampler/contract/layout.h"

namespace holdfast {

class ExporterLock {
 public:
  // `id`: of the folder, as its tables' headers have it.
  ExporterLock(const std::string& tables, const std::string& out, FolderId id);
  ExporterLock(const std::string& tables, const std::string& out);  // of the folder that is there now
  ~ExporterLock() { Release(); }

  // False: another one holds it, or the file cannot be had. Waits some milliseconds at most.
  bool Take();
  // After Take() was false: whether the one that holds it lives in another pid namespace. It may be a container within
  // ours, and end with it at any moment.
  bool HeldElsewhere() const { return held_elsewhere_; }
  // After Take() was false: a file of another user's lies in its place, and may for ever.
  bool Barred() const { return barred_; }
  const std::string& path() const { return path_; }
  // The word of the lock file that moves while its holder works (work_beat.h); null: the file has none. It stays mapped after
  // the lock is given up.
  std::atomic<uint64_t>* beat() const { return beat_; }
  // Removes the file and gives up the lock.
  void Release();

 private:
  std::string path_;
  void WriteRecord(uint64_t pid_namespace);

  FileDescriptor file_;  // valid while the lock is held; an ExporterRecord
  std::atomic<uint64_t>* beat_ = nullptr;
  bool barred_ = false;
  bool held_elsewhere_ = false;
};

// Whether another user's exporter (by the user id that it has in its own namespace) holds the lock of this folder.
bool IsLockHeld(const std::string& tables, const std::string& out, FolderId id, uint32_t user);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORTER_EXPORTER_LOCK_H_
