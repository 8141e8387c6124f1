#include "report/show/live_holders.h"

#include <memory>
#include <utility>

#include "fmt/format.h"
#include "report/daemon/find_tables.h"
#include "report/holders/holder_scan.h"
#include "report/show/holders_profile.h"
#include "report/show/holders_view.h"
#include "report/show/observed_process.h"

namespace holdfast {

absl::StatusOr<std::function<Profile()>> SearchHolders(pid_t pid, const std::vector<std::string>& tables,
                                                       const std::string& scan_memory,
                                                       const std::function<void(int)>& progress, std::stop_token stop) {
  if (OtherUserOf(pid).has_value()) {
    return absl::PermissionDeniedError(fmt::format(
        "process {}: belongs to another user, so this server does not read its memory. Run holdfast holders {}", pid,
        pid));
  }
  absl::StatusOr<ScanBudget> budget = BudgetFor(scan_memory);
  if (!budget.ok()) return budget.status();
  budget->stop = std::move(stop);
  absl::StatusOr<std::unique_ptr<ObservedProcess>> process = ObservedProcess::Open(pid, tables);
  if (!process.ok()) return process.status();
  const absl::StatusOr<HeapBlocksInput> input = (*process)->Prepare(true);
  if (!input.ok()) return input.status();
  HolderScan scan(&(*process)->space(), (*process)->Names(), &*budget);
  if (absl::Status status = scan.Run(*input, false, progress); !status.ok()) return status;
  // If the process has ended during the search, a part was missed.
  if (absl::Status status = (*process)->running()->Refresh(); !status.ok()) return status;
  const auto tree = std::make_shared<const HolderNode>(WholeHolderTree(process->get(), &scan, &*budget));
  if (scan.IsEnding()) return WhyIncomplete(*budget, scan.graph().blocks());
  return std::function<Profile()>([tree] { return HoldersProfile(*tree); });
}

}  // namespace holdfast
