// Opens the files of a process's modules when its table first names them, so that they can be named whatever happens to
// the files afterwards.
//
//     /proc/PID/map_files/START-END    the very file that is mapped, also if it was deleted; for privileged users alone
//     /proc/PID/exe                    the same for the program itself, for every user
//     /proc/PID/root/PATH              as the process sees it: in a container, a snap, after chroot
//     PATH                             once the process has ended
//     /proc/PID/fd/N                   what the process itself has open, such as a file of memory (memfd_create)
//     /proc/PID/mem                    where none of these is to be had: the names of exported functions
//
// The two by path may be other files by now: they count if device and inode are those of the mapping, or the build id is
// the module's. See report/elf/loaded_files.h for what is kept. One thread at a time.
#ifndef HOLDFAST_REPORT_EXPORT_LOADED_MODULES_H_
#define HOLDFAST_REPORT_EXPORT_LOADED_MODULES_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "report/elf/loaded_files.h"
#include "report/table/table_folder.h"

namespace holdfast {

class LoadedModules {
 public:
  // Opens what the table has recorded since the last look. False: nothing. One pread while nothing is recorded.
  bool Look(const TableFile& table, OpenFiles* open);
  // The same by a snapshot of the table, for who keeps no exporter.
  void Look(const Snapshot& snapshot, OpenFiles* open);
  const LoadedFiles& files() const { return files_; }

  // Lets go of the modules that dlclose took away: a profile has their names by now, and a deleted plugin's blocks on
  // disk are freed.
  void LetGoOfUnloaded(const std::vector<ModuleInfo>& modules);

  // For a child that runs with this user's rights: without the files that this user may not read. Adds the descriptors
  // that it keeps to `descriptors`.
  void KeepReadableBy(uid_t user, std::vector<int>* descriptors);

 private:
  void Open(const std::vector<ModuleInfo>& modules, std::optional<pid_t> pid, bool is_foreign, OpenFiles* open);

  uint32_t newest_ = 0;   // module of the table that was looked at
  size_t looked_at_ = 0;  // modules of a snapshot
  LoadedFiles files_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_LOADED_MODULES_H_
