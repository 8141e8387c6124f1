#include "report/run/scan_profile.h"

#include <time.h>

#include "report/base/time_budget.h"
#include "report/builder/profile_builder.h"
#include "report/profile/pprof.h"
#include "report/profile/process_comments.h"
#include "report/profile/typed_records.h"

namespace holdfast {

absl::StatusOr<ProfileName> WriteScanProfile(const ProcessIdentity& process, Profile profile,
                                             const OutputFolder& folder) {
  record::Process& described = *profile.mutable_process();
  described.id = ProcessId(process);
  described.program = process.program;
  described.executable = process.executable;
  described.command = process.command_line;
  described.pid = process.pid;
  described.version = HoldfastVersion();
  described.started_ns = process.start_wall_ns;
  profile.time_nanos = NowNs(CLOCK_REALTIME);
  AddProcessComments(&profile);
  const ProfileName name{.program = ProgramForFileName(process.program),
                         .pid = process.pid,
                         .seq = folder.NextSeq(ProgramForFileName(process.program), process.pid),
                         .kind = described.kind};
  return folder.Write(name, [&](int file) { return WritePprof(profile, file); });
}

}  // namespace holdfast
