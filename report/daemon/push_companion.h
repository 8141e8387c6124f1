// Runs a pusher beside an exporter: if a program was started with `HOLDFAST_PUSH=URL`, or by `run --push URL`,
// `holdfast push` is started for the served output folder. It is a separate process, so that a slow or dead server does
// not delay the profiles on disk, and an exporter without a pusher stays small.
//
// The pusher has the program's environment: proxies, HOLDFAST_PUSH_TENANT and other variables for `push`. Its output
// goes to OUT/.push/log. A pipe tells it that the exporter has ended; it then sends the programs' last data and ends.
// The exporter waits for that, because an orphan would become a child of a program that is a subreaper
// (sampler/contract/spawn_exporter.h).
#ifndef HOLDFAST_REPORT_DAEMON_PUSH_COMPANION_H_
#define HOLDFAST_REPORT_DAEMON_PUSH_COMPANION_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "report/base/file_descriptor.h"
#include "report/daemon/exporter.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {

class PushCompanion {
 public:
  explicit PushCompanion(const ExporterOptions& options) : options_(options) {}
  ~PushCompanion();

  // Whether no program has requested a pusher yet, and few were looked at.
  bool MayLook() const;
  // Call for each newly served program. `environment`: its variables, each followed by a zero byte.
  void Look(const TableFile& table, std::string_view environment);
  // Restarts a pusher that has ended, a minute after its last start at the earliest.
  void Poll(int64_t now);

 private:
  void Start(int64_t now);

  const ExporterOptions& options_;
  std::string url_;          // "": not requested
  std::string environment_;  // each variable ends with a zero byte
  int looks_ = 0;
  pid_t pid_ = 0;
  FileDescriptor our_end_;  // of the pipe
  int64_t next_start_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_PUSH_COMPANION_H_
