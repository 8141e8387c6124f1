#include "report/run/scan_profile.h"

#include <time.h>

#include "report/base/time_budget.h"
#include "report/builder/describe_scan.h"
#include "report/profile/pprof.h"
#include "report/profile/typed_records.h"

namespace holdfast {

absl::StatusOr<ProfileName> WriteScanProfile(const ProcessIdentity& process, Profile profile,
                                             const OutputFolder& folder) {
  DescribeScan(process, NowNs(CLOCK_REALTIME), &profile);
  const ProfileName name{.program = ProgramForFileName(process.program),
                         .pid = process.pid,
                         .seq = folder.NextSeq(ProgramForFileName(process.program), process.pid),
                         .kind = profile.mutable_process()->kind};
  return folder.Write(name, [&](int file) { return WritePprof(profile, file); });
}

}  // namespace holdfast
