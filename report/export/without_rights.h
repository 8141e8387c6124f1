// Work on what may be hostile to root, done by a child that has given up root's rights.
#ifndef HOLDFAST_REPORT_EXPORT_WITHOUT_RIGHTS_H_
#define HOLDFAST_REPORT_EXPORT_WITHOUT_RIGHTS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"

namespace holdfast {

// Runs `work` in a forked child that is `user` and `group` for good, has no other descriptors than `keep`, cannot be traced
// by that user, writes at most `most_bytes` into a file, and is killed after `most_ms` (that user may stop it).
// What it returns is the child's exit status; it hands results over in memory that both share, which are hostile, too.
absl::Status RunWithoutRights(uid_t user, gid_t group, const std::vector<int>& keep, uint64_t most_bytes,
                              const std::function<bool()>& work, int most_ms = 10'000);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_WITHOUT_RIGHTS_H_
