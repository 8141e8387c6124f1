// Opens the files of a process's modules as soon as its table names them, so that names are available whatever happens
// to the files later.
//
//    /proc/PID/map_files/START-END    the mapped file itself, even if deleted; only for privileged users
//    /proc/PID/exe                    the same for the program itself, for every user
//    /proc/PID/root/PATH              as the process sees it: in a container, a snap, after chroot
//    PATH                             once the process has ended
//    /proc/PID/fd/N                   files that the process has open, such as a memory file (memfd_create)
//    /proc/PID/mem                    the last resort: the names of exported functions
//
// A file found by path may be another one by now: its device and inode must be those of the mapping, or its build id
// the module's. report/names/elf/loaded_files.h says what is kept. One thread at a time.
#ifndef HOLDFAST_REPORT_BUILDER_LOADED_MODULES_H_
#define HOLDFAST_REPORT_BUILDER_LOADED_MODULES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "report/names/elf/loaded_files.h"
#include "report/observe/process_state.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {

class LoadedModules {
 public:
  // Opens what the table recorded since the last call. Returns false if there is nothing new, which costs one pread.
  bool Look(const TableFile& table, OpenFiles* open);
  // The same from the state of a process, for callers without an exporter.
  void Look(const ProcessState& state, OpenFiles* open);
  const LoadedFiles& files() const { return files_; }

  // Closes the files of modules removed by dlclose: a profile already has their names, and the disk space of a deleted
  // plugin is freed.
  void LetGoOfUnloaded(const std::vector<ModuleInfo>& modules);

  // For a child that runs with this user's rights: drops files that this user may not read. Adds the remaining
  // descriptors to `descriptors`.
  void KeepReadableBy(uid_t user, std::vector<int>* descriptors);

 private:
  // `find`: returns the live process, and is called only if a file is not open yet.
  void Open(const std::vector<ModuleInfo>& modules, const std::function<std::optional<pid_t>()>& find, bool is_foreign,
            OpenFiles* open);

  uint32_t newest_ = 0;   // the last module read from the table
  size_t looked_at_ = 0;  // number of modules read from a state
  LoadedFiles files_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_LOADED_MODULES_H_
