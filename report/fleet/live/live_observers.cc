#include "report/fleet/live/live_observers.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "fmt/format.h"
#include "report/base/time_budget.h"
#include "report/builder/file_kinds.h"
#include "report/fleet/live/live_process.h"

namespace holdfast {

constexpr int64_t kMaxWait = kSecond;  // of a request

std::shared_ptr<LiveObservers::Locked> LiveObservers::Find(const ProcessTable& process) {
  const std::lock_guard lock(mutex_);
  // A table belongs to one process until it executes another program.
  Place& place = processes_[process.table.key()];
  if (place.process == nullptr) place.process = std::make_shared<Locked>();
  place.turn = ++turns_;
  std::shared_ptr<Locked> found = place.process;
  if (processes_.size() > kMax) {
    processes_.erase(std::min_element(processes_.begin(), processes_.end(),
                                      [](const auto& a, const auto& b) { return a.second.turn < b.second.turn; }));
  }
  return found;
}

absl::StatusOr<ProcessState> LiveObservers::Observe(const ProcessTable& process, int file) {
  const bool maps = file == static_cast<int>(ProfileKind::kMap), resident = file == kResidentFile;
  const bool threads = maps || file == static_cast<int>(ProfileKind::kThreads);
  if (file == kWallFile) {
    if (absl::Status looked = ticker_->ClosePeriod(process); !looked.ok()) return looked;
    absl::StatusOr<ProcessState> state = holdfast::Observe(process.table, {});
    if (!state.ok()) return state;
    // Whole, so that the difference of two answers has the time between them.
    const absl::Status looked = ticker_->AddTo(process, ThreadTicker::Sums::kWhole, &*state);
    return looked.ok() ? std::move(state) : absl::StatusOr<ProcessState>(looked);
  }
  if (!threads && !resident) return holdfast::Observe(process.table, {});
  if (resident && !process.table.WantsResident()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: resident memory is not recorded. Switch it on with: holdfast set {} resident=on, or run --resident yes",
        process.Name(), PidOf(process)));
  }
  const std::shared_ptr<Locked> known = Find(process);
  const std::lock_guard lock(known->mutex);
  // Two requests may arrive together, and each may believe that it is the only one.
  const int64_t wait_ns = resident ? known->observer.next_residency_ns() - NowNs() : 0;
  if (wait_ns > 0 && wait_ns <= kMaxWait) std::this_thread::sleep_for(std::chrono::nanoseconds(wait_ns));
  absl::StatusOr<ProcessState> state = known->observer.Observe(
      process.table, {.threads = ThreadsWanted::kIfAnyIsLive, .mappings = maps, .residency = resident});
  if (state.ok() && !state->residency.left_out.empty()) return absl::UnavailableError(state->residency.left_out);
  return state;
}

}  // namespace holdfast
