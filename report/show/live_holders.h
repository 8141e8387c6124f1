// What holds the memory of a running process, for a server's live page (report/fleet/serve/holder_searches.h).
#ifndef HOLDFAST_REPORT_SHOW_LIVE_HOLDERS_H_
#define HOLDFAST_REPORT_SHOW_LIVE_HOLDERS_H_

#include <sys/types.h>

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/profile/profile.h"

namespace holdfast {

// Returns what makes a profile of the kind `holders` of this search. `scan_memory`: as for BudgetFor. `progress`: called
// with the percentage of the heap that has been read. `stop`: ends the search early, with an error. Only for processes of
// our own user, because a server cannot change its user for one search.
absl::StatusOr<std::function<Profile()>> SearchHolders(pid_t pid, const std::vector<std::string>& tables,
                                                       const std::string& scan_memory,
                                                       const std::function<void(int)>& progress, std::stop_token stop);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_LIVE_HOLDERS_H_
