#include "report/show/label_blocks.h"

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "report/holders/holder_scan.h"
#include "report/show/holders_profile.h"
#include "report/show/holders_view.h"
#include "report/show/observed_process.h"
#include "sampler/contract/weight.h"

namespace holdfast {

absl::Status LabelBlocks(pid_t pid, const std::vector<std::string>& tables, ProcessState* state, Profile* holders) {
  absl::StatusOr<ScanBudget> budget = BudgetFor("");
  if (!budget.ok()) return budget.status();
  absl::StatusOr<std::unique_ptr<ObservedProcess>> process = ObservedProcess::Open(pid, tables);
  if (!process.ok()) return process.status();
  const absl::StatusOr<HeapBlocksInput> input = (*process)->Prepare(true);
  if (!input.ok()) return input.status();
  HolderScan scan(&(*process)->space(), (*process)->Names(), &*budget);
  if (absl::Status status = scan.Run(*input, true); !status.ok()) return status;
  // If the process ended during the scan, a part was missed.
  if (absl::Status status = (*process)->running()->Refresh(); !status.ok()) return status;
  std::map<std::tuple<Offset, std::string, std::string>, std::pair<double, double>> sums;
  for (const LiveBlock& recorded : (*process)->recorded()) {
    const BlockMap::Block block = scan.heap().map.Find(recorded.address);
    if (block.number == BlockMap::kNone || block.unused) continue;  // freed meanwhile, or in no known heap
    const std::optional<uint32_t> holder = scan.HolderOfBlock(block.number);
    const uint16_t of_class = scan.ClassOf(block.number);
    const double p = SampleProbability(recorded.bytes, recorded.interval);
    auto& [objects, bytes] =
        sums[{recorded.row, holder.has_value() ? scan.names().holders()[*holder].name : "[no pointer found]",
              of_class == 0 ? "" : scan.names().ClassName(of_class)}];
    objects += 1 / p;
    bytes += static_cast<double>(recorded.bytes) / p;
  }
  for (const auto& [key, sum] : sums) {
    state->labelled_blocks.push_back({.row = std::get<0>(key),
                                      .held = std::get<1>(key),
                                      .of_class = std::get<2>(key),
                                      .objects = sum.first,
                                      .bytes = sum.second});
  }
  if (holders != nullptr) *holders = HoldersProfile(WholeHolderTree(process->get(), &scan, &*budget));
  return absl::OkStatus();
}

}  // namespace holdfast
