// The pusher beside an exporter: where a program was started with `HOLDFAST_PUSH=URL`, or by `run --push URL`, `holdfast push` is
// started for the output folder that is served. It is a process of its own, so that no server, however slow or dead, holds
// up the profiles on disk, and an exporter without one stays as small as it was.
//
// It has the program's environment: proxies, HOLDFAST_PUSH_TENANT and others that `push` reads. What it says goes to
// OUT/.push/log. It knows by the end of a pipe that we have ended, sends what the programs did last, and ends; we wait
// for that, since an orphan would come back to a program that takes orphans (sampler/spawn/spawn_exporter.h).
#ifndef HOLDFAST_REPORT_EXPORTER_PUSH_COMPANION_H_
#define HOLDFAST_REPORT_EXPORTER_PUSH_COMPANION_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "report/base/file_descriptor.h"
#include "report/exporter/exporter.h"
#include "report/table/table_folder.h"

namespace holdfast {

class PushCompanion {
 public:
  explicit PushCompanion(const ExporterOptions& options) : options_(options) {}
  ~PushCompanion();

  // A program that is served from now on. Its environment is looked at where nobody has asked for a pusher yet.
  void Look(const TableFile& table);
  // Starts it again a minute after it was last started where it has ended.
  void Tend(int64_t now);

 private:
  void Start(int64_t now);

  const ExporterOptions& options_;
  std::string url_;          // "": nobody asked
  std::string environment_;  // each variable ended by a zero byte
  int looks_ = 0;
  pid_t pid_ = 0;
  FileDescriptor our_end_;  // of the pipe
  int64_t next_start_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORTER_PUSH_COMPANION_H_
