// Runs work in a child: on data that may be hostile to root, after giving up root's rights; or work during which the
// kernel may kill the process.
#ifndef HOLDFAST_REPORT_BUILDER_WITHOUT_RIGHTS_H_
#define HOLDFAST_REPORT_BUILDER_WITHOUT_RIGHTS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"

namespace holdfast {

// Runs `work` in a forked child, which is killed after `most_ms`. The child exits with the status that `work` returns,
// and passes results through shared memory. Aborted: a signal ended the child.
absl::Status RunInChild(const std::function<bool()>& work, int most_ms = 10'000);

// The same in a child that is permanently `user` and `group`, has no descriptors except `keep`, cannot be traced by
// that user (who may stop it), and writes at most `most_bytes` to a file. Its results are untrusted, too.
absl::Status RunWithoutRights(uid_t user, gid_t group, const std::vector<int>& keep, uint64_t most_bytes,
                              const std::function<bool()>& work, int most_ms = 10'000);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_WITHOUT_RIGHTS_H_
