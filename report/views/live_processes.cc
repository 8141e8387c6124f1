#include "report/views/live_processes.h"

#include <algorithm>
#include <optional>

#include "report/base/time_budget.h"
#include "report/table/process_info.h"

namespace holdfast {
namespace {

// How much earlier than the last process one may have ended that ran to the end: a server takes its workers along.
constexpr int64_t kAtTheEnd = 10 * kSecond;

// Of a container's processes, which have a namespace of their own, nothing is known here.
Liveness LivenessOfFile(const ProfileFile& file) {
  const std::optional<TableOwner> owner = OwnerOnThisHost(file.process);
  return owner.has_value() && owner->pid != 0 && owner->IsOfOurNamespace() ? LivenessOf(*owner) : Liveness::kUnknown;
}

}  // namespace

bool IsHeldNow(std::string_view metric) {
  return metric.starts_with("inuse_") || metric == "alive" || metric.starts_with("resident_") ||
         metric.starts_with("swapped_");
}

std::vector<const ProfileFile*> TakeEnded(std::vector<const ProfileFile*>* files) {
  std::vector<const ProfileFile*> ended;
  const auto is_process = [](const ProfileFile* file) { return file->from_folder && !file->adds_up(); };
  if (files->size() < 2 || !std::all_of(files->begin(), files->end(), is_process)) return ended;
  std::vector<Liveness> states;
  int64_t newest = 0;
  for (const ProfileFile* file : *files) {
    states.push_back(LivenessOfFile(*file));
    newest = std::max(newest, file->time_nanos);
  }
  const bool any_lives = std::find(states.begin(), states.end(), Liveness::kAlive) != states.end();
  std::vector<const ProfileFile*> kept;
  for (size_t i = 0; i < files->size(); ++i) {
    const ProfileFile* const file = (*files)[i];
    const bool is_ended = any_lives ? states[i] == Liveness::kDead : file->time_nanos < newest - kAtTheEnd;
    (is_ended ? ended : kept).push_back(file);
  }
  *files = std::move(kept);
  return ended;
}

}  // namespace holdfast
