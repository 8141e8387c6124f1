// Writes a profile that was made from a process's memory (kinds `unreachable` and `holders`) beside the others of the
// process.
#ifndef HOLDFAST_REPORT_RUN_SCAN_PROFILE_H_
#define HOLDFAST_REPORT_RUN_SCAN_PROFILE_H_

#include "absl/status/statusor.h"
#include "report/builder/output_folder.h"
#include "report/observe/table/snapshot.h"
#include "report/profile/profile.h"

namespace holdfast {

// Says in the profile which process it is of, and writes it. Returns the file's name.
absl::StatusOr<ProfileName> WriteScanProfile(const ProcessIdentity& process, Profile profile,
                                             const OutputFolder& folder);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_SCAN_PROFILE_H_
