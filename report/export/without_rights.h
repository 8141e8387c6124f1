// Work done by a child: on what may be hostile to root, after it has given up root's rights; and what may end who does it.
#ifndef HOLDFAST_REPORT_EXPORT_WITHOUT_RIGHTS_H_
#define HOLDFAST_REPORT_EXPORT_WITHOUT_RIGHTS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"

namespace holdfast {

// Runs `work` in a forked child, which is killed after `most_ms`. What `work` returns is the child's exit status; it hands
// results over in memory that both share. Aborted: a signal ended the child.
absl::Status RunInChild(const std::function<bool()>& work, int most_ms = 10'000);

// The same in one that is `user` and `group` for good, has no other descriptors than `keep`, cannot be traced
// by that user (who may stop it), and writes at most `most_bytes` into a file. What it hands over is hostile, too.
absl::Status RunWithoutRights(uid_t user, gid_t group, const std::vector<int>& keep, uint64_t most_bytes,
                              const std::function<bool()>& work, int most_ms = 10'000);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_WITHOUT_RIGHTS_H_
