#include "report/analysis/profiles/live_processes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

#include "report/analysis/profiles/metric.h"
#include "report/base/time_budget.h"
#include "report/observe/table/process_info.h"
#include "report/profile/profile_kind.h"

namespace holdfast {
namespace {

// How long before the end of the last process the moment may be: a server exits after its workers.
constexpr int64_t kAtTheEnd = 10 * kSecond;

// Processes in a container have a pid namespace of their own, so their liveness is unknown.
Liveness LivenessOfFile(const ProfileFile& file) {
  const std::optional<TableOwner> owner = OwnerOnThisHost(file.process);
  return owner.has_value() && owner->pid != 0 && owner->IsOfOurNamespace() ? LivenessOf(*owner) : Liveness::kUnknown;
}

// Whether the process was running at the time of its newest file. If it may still run, it holds what the file shows: an
// idle process has no newer file. The last file of an ended process has a moment, or no resident memory.
bool WasRunning(const ProfileFile& file) {
  return file.moment == ProfileMoment::kNone && ResidentBytesOf(*file.profile).value_or(0) > 0;
}

// Drops the last part, which differs for each program that a process executes: "host/4026531836/4242/1327410".
std::string_view WithoutImage(std::string_view process) { return process.substr(0, process.rfind('/')); }

struct Life {
  int64_t start = 0, end = 0;
  bool ReachesTo(int64_t moment) const { return start < moment && moment <= end; }
};

// Whether one of "alloc_space/bytes inuse_space/bytes …" is an amount at one moment.
bool HoldsNow(std::string_view types) {
  while (!types.empty()) {
    const size_t end = std::min(types.find(' '), types.size());
    if (!IsCounter(types.substr(0, end))) return true;
    types.remove_prefix(std::min(end + 1, types.size()));
  }
  return false;
}

// Returns the moment at which the sum over all processes is largest. Considers the end of the last process, and the
// moments near it at which a process exited that ran for most of the time, such as a worker of a server. A short helper
// that exits while the program goes on is not such a process.
int64_t MomentOf(const std::vector<const ProfileFile*>& files, const std::vector<Life>& lives) {
  int64_t newest = 0, oldest = std::numeric_limits<int64_t>::max(), moment = 0;
  for (const Life& life : lives) {
    newest = std::max(newest, life.end);
    oldest = std::min(oldest, life.start);
  }
  double most = -1;
  for (const Life& at : lives) {
    const bool ran_long = at.end - at.start >= (newest - oldest) / 2;
    if (at.end != newest && (!ran_long || at.end < newest - kAtTheEnd)) continue;
    double sum = 0;
    for (size_t i = 0; i < files.size(); ++i) {
      if (lives[i].ReachesTo(at.end)) sum += std::abs(static_cast<double>(files[i]->in_use));
    }
    if (sum < most || (sum == most && at.end < moment)) continue;
    most = sum;
    moment = at.end;
  }
  return moment;
}

}  // namespace

std::vector<const ProfileFile*> TakeEnded(std::vector<const ProfileFile*>* files) {
  std::vector<const ProfileFile*> ended;
  const auto is_process = [&](const ProfileFile* file) {
    return file->from_folder && !file->adds_up() && file->types == files->front()->types;
  };
  if (files->size() < 2 || !HoldsNow(files->front()->types) || !std::all_of(files->begin(), files->end(), is_process)) {
    return ended;
  }
  std::vector<Liveness> states;
  std::vector<Life> lives;
  std::map<std::string_view, int64_t> last_image;
  int64_t newest = 0;
  for (const ProfileFile* file : *files) newest = std::max(newest, file->steady_nanos);
  for (const ProfileFile* file : *files) {
    const Liveness state = states.emplace_back(LivenessOfFile(*file));
    const bool may_live = state == Liveness::kUnknown && file->profile != nullptr && WasRunning(*file);
    lives.push_back({file->start_nanos, may_live ? newest : file->steady_nanos});
    int64_t& last = last_image[WithoutImage(file->process)];
    last = std::max(last, file->steady_nanos);
  }
  const bool any_lives = std::find(states.begin(), states.end(), Liveness::kAlive) != states.end();
  const int64_t moment = any_lives ? 0 : MomentOf(*files, lives);
  std::vector<const ProfileFile*> kept;
  for (size_t i = 0; i < files->size(); ++i) {
    const ProfileFile* const file = (*files)[i];
    const bool has_executed = file->steady_nanos < last_image[WithoutImage(file->process)];
    const bool is_ended = has_executed || (any_lives ? states[i] == Liveness::kDead : !lives[i].ReachesTo(moment));
    (is_ended ? ended : kept).push_back(file);
  }
  if (kept.empty()) return {};  // of processes of unknown length
  *files = std::move(kept);
  return ended;
}

}  // namespace holdfast
