// The exporter: the process that turns tables into profiles, for one user, one folder of tables and one output folder.
//
// Election. The exporter of an output folder is the process with the lock on `<tables>/holdfast.<uid>.<hash of
// out>.lock` (report/daemon/exporter_lock.h):
//  id       the folder's device and inode, and the layout version of tables: see sampler/contract/spawn_exporter.h
//  start    open or create the file, flock it without waiting. If it is locked: the holder serves, and this process ends
//           (or stands by if the holder is in another pid namespace, which may be a container within ours).
//           If the path now names another file, the last exporter removed the locked one meanwhile: try again.
//  end      when no table is left: remove the file, unlock, look for tables once more. A process that made its table
//           while we held the lock has started no exporter, but the last look finds its table. A later process finds no
//           lock and starts its own exporter.
//
// Work for each table of the output folder (a table's header names the folder):
//  at every interval, on request, at a normal end (then wakes the process), and when the process has ended or runs another
//  image: writes a profile of each kind that changed. Removes the table after the last one.
// Processes that share their program's file (`--merge-children`) end without waiting: their tables are kept until the
// file with their data is written, once a second.
//
// Between snapshots the exporter frees what it needed for them, and before one it checks whether the control group has
// enough memory: see resident_memory.h and memory_room.h.
// A bad table never stops the others. The exporter prints nothing, has no terminal, and is never profiled itself.
#ifndef HOLDFAST_REPORT_DAEMON_EXPORTER_H_
#define HOLDFAST_REPORT_DAEMON_EXPORTER_H_

#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "report/observe/process_state.h"
#include "sampler/contract/layout.h"

namespace holdfast {

struct ExporterOptions {
  std::string out;  // absolute, as in the tables' headers
  std::string tables;
  FolderId out_id{};  // id of that folder, as in the tables' headers; unknown: that of the existing folder
  pid_t parent = 0;   // stays as long as this process lives, even without a table; 0 = none
  // The folder's quota, from the command line of the process that started the exporter, because the tables are
  // untrusted.
  uint64_t max_disk_bytes = 1 << 30;
  std::function<void()> on_served;  // called when the exporter begins to serve, or finds that another one does
  // Adds to a snapshot of a process what holds its blocks (ProcessState::labelled_blocks), if the process has
  // HOLDFAST_SNAPSHOT_HOLDERS in its environment. May be null.
  std::function<void(pid_t, ProcessState*)> label_blocks = nullptr;
  std::string on_snapshot;  // command to run for each written file: snapshot_command.h; "": none
};

// Serves until nothing is left to do. Also returns OK if another exporter already serves.
absl::Status ServeTables(const ExporterOptions& options);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_EXPORTER_H_
