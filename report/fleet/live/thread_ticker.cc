#include "report/fleet/live/thread_ticker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "fmt/format.h"
#include "report/base/time_budget.h"
#include "report/fleet/live/live_process.h"

namespace holdfast {
namespace {

constexpr int64_t kForgottenAfter = 600 * kSecond;

}  // namespace

ThreadTicker::~ThreadTicker() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status ThreadTicker::ClosePeriod(const ProcessTable& process) {
  if (!process.table.WantsWall()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: the time of threads is not recorded. Switch it on with: holdfast set {} wall=on, or run --wall",
        process.Name(), PidOf(process)));
  }
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Watched>& watched = watched_[process.table.key()];
  if (watched == nullptr) {
    absl::StatusOr<FileDescriptor> folder = OpenFolder(process.folder);
    absl::StatusOr<TableFile> table =
        folder.ok() ? TableFile::Open(*folder, process.table.name()) : absl::StatusOr<TableFile>(folder.status());
    if (!table.ok() || !process.pid.has_value() || table->liveness() == Liveness::kDead) {
      watched_.erase(process.table.key());
      return !table.ok() ? table.status() : absl::NotFoundError("the process is not visible");
    }
    watched = std::make_unique<Watched>(*std::move(table), *process.pid);
  }
  watched->asked_ns = NowNs();
  watched->looks.ClosePeriod(watched->table);
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status ThreadTicker::AddTo(const ProcessTable& process, Sums sums, ProcessState* state) {
  const std::lock_guard lock(mutex_);
  const auto watched = watched_.find(process.table.key());
  if (watched == watched_.end()) return absl::NotFoundError("the process is not visible");
  state->thread_times =
      watched->second->looks.Times(state->table->rows, &state->waits, /*with_open=*/sums == Sums::kWhole);
  return absl::OkStatus();
}

void ThreadTicker::Run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    int64_t next_ns = INT64_MAX;
    std::erase_if(watched_, [now_ns = NowNs()](const auto& one) {
      return now_ns - one.second->asked_ns > kForgottenAfter || !one.second->table.WantsWall();
    });
    for (auto& [key, watched] : watched_) {
      // The program may give up its rights; then its memory is not read with ours.
      if (const int64_t now_ns = NowNs(); now_ns >= watched->next_rights_ns) {
        watched->next_rights_ns = now_ns + kSecond;
        if (const auto rights = watched->table.ReadWith()) watched->looks.ReadNoMoreMemory(rights->user);
      }
      watched->looks.Look(watched->table);
      next_ns = std::min(next_ns, watched->looks.next_ns());
    }
    if (watched_.empty()) {
      changed_.wait(lock);
    } else {
      // INT64_MAX: all processes have ended, and only need to be forgotten.
      const int64_t wait_ns = std::clamp<int64_t>(next_ns - NowNs(), kMs, kForgottenAfter);
      changed_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
    }
  }
}

}  // namespace holdfast
