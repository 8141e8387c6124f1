// What must be there before `holdfast run` starts the program: the library, the folders, the exporter.
#ifndef HOLDFAST_REPORT_PROCESSES_INSTALLATION_H_
#define HOLDFAST_REPORT_PROCESSES_INSTALLATION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace holdfast {

// The absolute path of this executable.
absl::StatusOr<std::string> OwnPath();

// PREFIX/bin/holdfast → PREFIX/lib/holdfast/libholdfast.so, checked to be there and to be a path that LD_PRELOAD can
// hold.
absl::StatusOr<std::string> FindLibrary(const std::string& own_path);

// The absolute path of `tables`, checked to be a folder on a memory-backed file system.
absl::StatusOr<std::string> TablesFolder(const std::string& tables);

// Where the library puts tables on its own: /dev/shm, else XDG_RUNTIME_DIR, else `out`.
std::string UsualTablesFolder(const std::string& out);

// `path` as an absolute one without links; only what exists of it is looked up.
absl::StatusOr<std::string> AbsolutePath(const std::string& path);

// A folder that `run` makes when it is missing, with those above it, and removes again if nothing came into it.
class OutFolder {
 public:
  // `path` is absolute. An error names what to do.
  absl::Status Make(const std::string& path);
  const std::string& path() const { return path_; }
  std::vector<std::string> Names() const;                    // of what lies in it
  void RemoveIfEmpty();                                      // only what Make made
  const std::string& weakness() const { return weakness_; }  // what others may do there (folder_owner.h)

 private:
  std::string path_;
  std::string weakness_;
  std::vector<std::string> made_;
};

// Starts `own_path exporter` as nobody's child (see sampler/spawn/spawn_exporter.h), and waits (2 s at most) until it serves
// `out`. kFailed, kLate: none serves. kNoticed: an ancestor would notice the exporter; then, with `keep`, it is started as a
// child of this process, which calls EndKeptExporter before it ends. `on_snapshot`: the command for each file, "": none;
// another exporter that serves `out` already does not run it.
enum class Launched { kServes, kNoticed, kFailed };
Launched LaunchExporter(const std::string& own_path, const std::string& out, const std::string& tables,
                        uint64_t max_disk_bytes, const std::string& on_snapshot, bool keep);
// Ends the exporter that is a child of this process, if there is one, and what that had started.
void EndKeptExporter();

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_INSTALLATION_H_
