#include "report/export/running_program.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/time_budget.h"
#include "report/pprof/stack_text.h"
#include "report/table/process_info.h"
#include "report/table/thread_status.h"

namespace holdfast {
namespace {

constexpr size_t kMostOfAName = 15;  // TASK_COMM_LEN, and its end
// /proc tells hundredths of a second.
constexpr int64_t kTick = 20'000'000;

}  // namespace

void RunningProgram::Look(const TableFile& table, Snapshot* snapshot) {
  const TableOwner& owner = table.owner();
  const pid_t pid = table.liveness() == Liveness::kDead ? 0 : FindProcess(owner).value_or(0);
  std::map<uint32_t, pid_t> as_we_see;  // ids of the process's threads
  std::string of_main;
  if (pid != 0) {
    snapshot->resident_bytes = ResidentBytes(pid).value_or(0);
    if (!snapshot->noted_threads.empty() || !snapshot->live_threads.empty()) {
      for (const auto& [id, inner] : ThreadsOf(pid, !owner.IsOfOurNamespace())) as_we_see.emplace(inner, id);
      of_main = ThreadName(pid, pid);
    }
  }
  std::set<GoneThread> gone;
  for (LiveThreadInfo& thread : snapshot->live_threads) {
    const GoneThread known{thread.id, thread.when_ns};
    thread.gone = gone_.contains(known);
    if (pid == 0 || thread.id == 0) continue;  // it has ended, and all its threads with it: as it was before
    const auto alive = as_we_see.find(thread.id);
    const std::optional<int64_t> began =
        alive != as_we_see.end() && thread.when_ns != 0 ? ThreadBegan(pid, alive->second) : std::nullopt;
    thread.gone |= alive == as_we_see.end() || (began.has_value() && thread.when_ns < *began - kTick);
    if (thread.gone) gone.insert(known);
  }
  if (pid != 0) gone_ = std::move(gone);
  const int64_t now_ns = NowNs();
  const std::string of_program = snapshot->process.program.substr(0, kMostOfAName);
  std::map<uint32_t, Seen> seen;
  for (NotedThreadInfo& thread : snapshot->noted_threads) {
    if (const auto alive = as_we_see.find(thread.id); alive != as_we_see.end()) {
      const std::optional<int64_t> began = ThreadBegan(pid, alive->second);
      if (!began.has_value() || thread.when_ns < *began - kTick) continue;  // another one's id by now
      thread.name = ThreadName(pid, alive->second);
      seen[thread.id] = {thread.name, now_ns};
    } else if (const auto before = seen_.find(thread.id);
               before != seen_.end() && thread.when_ns <= before->second.alive_ns) {
      thread.name = before->second.name;
      seen.insert(*before);
    }
    if (thread.name == of_program || thread.name == of_main) thread.name.clear();
  }
  seen_ = std::move(seen);
}

absl::StatusOr<Snapshot> TakeWithThreads(const TableFile& table) {
  absl::StatusOr<Snapshot> snapshot = table.TakeSnapshot();
  if (snapshot.ok() && !snapshot->live_threads.empty()) RunningProgram().Look(table, &*snapshot);
  return snapshot;
}

void AddThreadComments(const Snapshot& snapshot, const FramesOfStack& frames, Profile* profile, size_t most) {
  constexpr size_t kMostFrames = 20;  // what lies between clone and a thread's own function
  std::map<std::vector<uint32_t>, size_t> stacks;
  size_t count = 0;
  for (const NotedThreadInfo& thread : snapshot.noted_threads) {
    const StackInfo& info = snapshot.stacks[thread.stack];
    if (thread.name.empty() || info.truncated || info.overflow || info.missing) continue;
    if (++count > most) return;
    std::vector<uint32_t> outer = frames(thread.stack);
    if (outer.size() > kMostFrames) outer.erase(outer.begin(), outer.end() - kMostFrames);
    const auto [place, added] = stacks.emplace(outer, stacks.size() + 1);
    profile->AddComment(
        fmt::format("thread {}: stack {} tid {} name {}", count, place->second, thread.id, Printable(thread.name)));
    if (!added) continue;
    profile->AddComment(fmt::format("thread stack {}:{}", place->second, StackText(*profile, outer)));
  }
}

}  // namespace holdfast
