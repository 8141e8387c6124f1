// Says in a profile that was made from a process's memory (kinds `unreachable` and `holders`) which process it is of.
#ifndef HOLDFAST_REPORT_BUILDER_DESCRIBE_SCAN_H_
#define HOLDFAST_REPORT_BUILDER_DESCRIBE_SCAN_H_

#include <cstdint>

#include "report/observe/table/snapshot.h"
#include "report/profile/profile.h"

namespace holdfast {

void DescribeScan(const ProcessIdentity& process, int64_t wall_ns, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_DESCRIBE_SCAN_H_
