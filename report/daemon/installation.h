// Finds what `holdfast run` needs before it starts the program: the library, the folders, the exporter.
#ifndef HOLDFAST_REPORT_DAEMON_INSTALLATION_H_
#define HOLDFAST_REPORT_DAEMON_INSTALLATION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace holdfast {

// Returns the absolute path of this executable.
absl::StatusOr<std::string> OwnPath();

// PREFIX/bin/holdfast → PREFIX/lib/holdfast/libholdfast.so. Fails if the library does not exist.
absl::StatusOr<std::string> FindLibrary(const std::string& own_path);

// Returns a path of the library that LD_PRELOAD can hold. It divides its value at blanks and colons and replaces words
// that begin with a dollar sign, so a PREFIX with one of these is reached by a link in /dev/shm, which stays there:
//
//     /dev/shm/holdfast-at.1000.4f1d93c0a2b87e65 → /home/ann/my tools
absl::StatusOr<std::string> PreloadableLibrary(const std::string& library);

// Returns the absolute path of `tables`. Fails unless it is a folder on a memory-backed file system.
absl::StatusOr<std::string> TablesFolder(const std::string& tables);

// Returns where the library puts tables by default: /dev/shm, else XDG_RUNTIME_DIR, else `out`.
std::string UsualTablesFolder(const std::string& out);

// Makes `path` absolute and resolves links in the part of it that exists.
absl::StatusOr<std::string> AbsolutePath(const std::string& path);

// Returns why a profile of 64 KiB cannot be written into `folder` now, such as "No space left on device"; "": it can, or
// nobody knows. Leaves nothing there.
std::string WhyNoSpace(const std::string& folder);

// A folder that `run` creates if it is missing, together with its parents, and removes again if it remains empty.
class OutFolder {
 public:
  // `path` is absolute. An error says what to do.
  absl::Status Make(const std::string& path);
  const std::string& path() const { return path_; }
  std::vector<std::string> Names() const;                    // the names of all files in it
  void RemoveIfEmpty();                                      // removes only what Make created
  const std::string& weakness() const { return weakness_; }  // what other users may do in it (folder_owner.h)

 private:
  std::string path_;
  std::string weakness_;
  std::vector<std::string> made_;
};

// Starts `own_path exporter` as a process without a parent (see sampler/contract/spawn_exporter.h) and waits at most 2 s
// until it serves `out`.
//
//   kFailed    no exporter serves `out`
//   kNoticed   an ancestor would notice the exporter. With `keep`, the exporter is started anyway, as a child of this
//              process, which must call EndKeptExporter before it exits
//
// `on_snapshot`: the command to run for each file; "": none. If another exporter already serves `out`, it does not run
// this command.
enum class Launched { kServes, kNoticed, kFailed };
Launched LaunchExporter(const std::string& own_path, const std::string& out, const std::string& tables,
                        uint64_t max_disk_bytes, const std::string& on_snapshot, bool keep);
// Ends the exporter that is a child of this process, if there is one, and the processes that it started.
void EndKeptExporter();

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_INSTALLATION_H_
