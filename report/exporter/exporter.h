// The exporter: the process that turns tables into profiles, for one user, one folder of tables and one output folder.
//
// Election. The exporter of an output folder is who holds the lock on `<tables>/holdfast.<uid>.<hash of out>.lock`
// (report/exporter/exporter_lock.h):
//   id       of the folder by device and inode, and of this layout of tables: see sampler/spawn/spawn_exporter.h
//   start    open or create the file, flock it without waiting. Held by another: that one serves, this one ends
//            (or stands by, if the other lives in another pid namespace, which may be a container within ours).
//            Locked, but the path names another file by now: the last exporter removed it meanwhile; once more.
//   end      when no table is left: remove the file, unlock, look for tables once more. A process that made its table
//            while we held the lock has started nobody, but is seen by that last look; one that came later finds no
//            lock and starts an exporter of its own.
//
// What it does for each table of its output folder (a table's header names it):
//   at every interval, on request, at an orderly end (then wakes the target), and when the process is gone or runs
//   another image: a profile of each kind with something new. After the last one the table is removed.
// Processes that share their program's file (`--merge-children`) end without waiting: their tables are kept until that file,
// which holds what they left, is written, once a second.
//
// Between snapshots it lets go of what it needed for them, and before one it looks whether the control group has room for it: see
// resident_memory.h, memory_room.h.
// One bad table never stops the others. It prints nothing, holds no terminal, and is never profiled itself.
#ifndef HOLDFAST_REPORT_EXPORTER_EXPORTER_H_
#define HOLDFAST_REPORT_EXPORTER_EXPORTER_H_

#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "sampler/contract/layout.h"

namespace holdfast {

struct ExporterOptions {
  std::string out;  // absolute, as the tables' headers have it
  std::string tables;
  FolderId out_id{};  // of that folder, as the tables' headers have it; not known: the one that is found there
  pid_t parent = 0;   // stays as long as this process lives, also without a table; 0 = none
  // Cap on the folder, as the user said it to who started the exporter: the tables' own word may be hostile.
  uint64_t max_disk_bytes = 1 << 30;
  std::function<void()> on_served;  // called once it serves, or finds that another exporter does
  std::string on_snapshot;          // command for each file that is written: snapshot_command.h; "": none
};

// Serves until nothing is left to do. Ok also when another exporter serves already.
absl::Status ServeTables(const ExporterOptions& options);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORTER_EXPORTER_H_
