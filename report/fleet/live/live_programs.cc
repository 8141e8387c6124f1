#include "report/fleet/live/live_programs.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "fmt/format.h"
#include "report/base/time_budget.h"
#include "report/builder/profile_builder.h"
#include "report/fleet/live/live_process.h"

namespace holdfast {

constexpr int64_t kMaxWait = kSecond;  // of a request

std::shared_ptr<LivePrograms::Program> LivePrograms::ProgramOf(const ProcessTable& process) {
  const std::lock_guard lock(mutex_);
  // A table belongs to one program image of one process.
  Place& place = programs_[process.table.key()];
  if (place.program == nullptr) place.program = std::make_shared<Program>();
  place.turn = ++turns_;
  std::shared_ptr<Program> program = place.program;
  if (programs_.size() > kMax) {
    programs_.erase(std::min_element(programs_.begin(), programs_.end(),
                                     [](const auto& a, const auto& b) { return a.second.turn < b.second.turn; }));
  }
  return program;
}

absl::StatusOr<Snapshot> LivePrograms::Take(const ProcessTable& process, int file) {
  const bool maps = file == static_cast<int>(ProfileKind::kMap), resident = file == kResidentFile;
  const bool threads = maps || file == static_cast<int>(ProfileKind::kThreads);
  if (!threads && !resident) return process.table.TakeSnapshot();
  if (resident && !process.table.WantsResident()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: resident memory is not recorded. Switch it on with: holdfast set {} resident=on, or run --resident yes",
        process.Name(), PidOf(process)));
  }
  const std::shared_ptr<Program> known = ProgramOf(process);
  const std::lock_guard lock(known->mutex);
  // Two requests may arrive together, and each may believe that it is the only one.
  const int64_t wait_ns = resident ? known->program.next_resident_ns() - NowNs() : 0;
  if (wait_ns > 0 && wait_ns <= kMaxWait) std::this_thread::sleep_for(std::chrono::nanoseconds(wait_ns));
  absl::StatusOr<Snapshot> snapshot = process.table.TakeSnapshot();
  if (!snapshot.ok()) return snapshot;
  if (!snapshot->live_threads.empty()) known->program.Look(process.table, &*snapshot);
  if (maps) known->program.LookAtLibcMappings(process.table, &*snapshot);
  if (resident) {
    known->program.LookAtResident(process.table, &*snapshot);
    if (!snapshot->resident_left_out.empty()) return absl::UnavailableError(snapshot->resident_left_out);
  }
  return snapshot;
}

}  // namespace holdfast
