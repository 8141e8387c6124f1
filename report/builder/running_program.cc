#include "report/builder/running_program.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/time_budget.h"
#include "report/base/value_units.h"
#include "report/observe/memory/libc_mappings.h"
#include "report/observe/memory/resident_rows.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr size_t kMaxNameLength = 15;  // TASK_COMM_LEN without the terminating zero
// /proc has hundredths of a second.
constexpr int64_t kOneTickNs = 20'000'000;
// For finding resident memory: at most 1/kShareOfResident of a core, and this long at once. The program may be waiting
// for its last files.
constexpr int64_t kShareOfResident = 50;
constexpr std::chrono::milliseconds kResidentTime{2000}, kResidentTimeAtEnd{500};

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
    if (pid == 0 || thread.id == 0) continue;  // the process and all its threads have ended: keep the earlier names
    const auto alive = as_we_see.find(thread.id);
    const std::optional<int64_t> began =
        alive != as_we_see.end() && thread.when_ns != 0 ? ThreadBegan(pid, alive->second) : std::nullopt;
    thread.gone |= alive == as_we_see.end() || (began.has_value() && thread.when_ns < *began - kOneTickNs);
    if (thread.gone) gone.insert(known);
  }
  if (pid != 0) gone_ = std::move(gone);
  const int64_t now_ns = NowNs();
  const std::string of_program = snapshot->process.program.substr(0, kMaxNameLength);
  std::map<uint32_t, Seen> seen;
  for (NotedThreadInfo& thread : snapshot->noted_threads) {
    if (const auto alive = as_we_see.find(thread.id); alive != as_we_see.end()) {
      const std::optional<int64_t> began = ThreadBegan(pid, alive->second);
      if (!began.has_value() || thread.when_ns < *began - kOneTickNs) continue;  // the id was reused
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

void RunningProgram::LookAtLibcMappings(const TableFile& table, Snapshot* snapshot) {
  const auto is_mapped = [](const RowInfo& row) {
    return (row.profile == ProfileKind::kMap || row.has_thread_stacks()) && row.sums[0] != 0;
  };
  if ((snapshot->profiles & KindBit(ProfileKind::kMap)) == 0 ||
      std::none_of(snapshot->rows.begin(), snapshot->rows.end(), is_mapped))
    return;
  const std::optional<pid_t> pid = FindProcess(table.owner());
  const absl::StatusOr<std::vector<LibcMapping>> found =
      pid.has_value() ? ReadLibcMappings(*pid, table) : absl::NotFoundError("the process has ended");
  if (found.ok()) {
    for (LibcMapping& known : libc_mappings_) known.mappings = known.bytes = 0;
    for (const LibcMapping& now : *found) {
      LibcMapping& known = libc_mappings_[static_cast<size_t>(now.kind)];
      known = {.name = now.name,
               .kind = now.kind,
               .mappings = now.mappings,
               .bytes = now.bytes,
               .most_mappings = std::max(known.most_mappings, now.mappings),
               .most_bytes = std::max(known.most_bytes, now.bytes)};
    }
  }
  for (const LibcMapping& known : libc_mappings_) {
    if (known.name != nullptr) snapshot->libc_mappings.push_back(known);
  }
}

RunningProgram::MaxByLibc RunningProgram::max_by_libc() const {
  MaxByLibc most;
  for (size_t i = 0; i < most.size(); ++i) most[i] = {libc_mappings_[i].most_mappings, libc_mappings_[i].most_bytes};
  return most;
}

void RunningProgram::set_max_by_libc(const MaxByLibc& most) {
  for (size_t i = 0; i < most.size(); ++i) {
    libc_mappings_[i].most_mappings = most[i].mappings;
    libc_mappings_[i].most_bytes = most[i].bytes;
  }
}

void RunningProgram::LookAtResident(const TableFile& table, Snapshot* snapshot) {
  if (!snapshot->resident || (snapshot->profiles & kKindsOfResident) == 0) return;
  const int64_t start = NowNs(), used = NowNs(CLOCK_THREAD_CPUTIME_ID);
  const bool at_end = snapshot->exit_request != 0;
  const auto read = [&]() -> absl::Status {
    const std::optional<pid_t> pid = FindProcess(table.owner());
    if (!pid.has_value() || table.liveness() == Liveness::kDead) return absl::NotFoundError("the process has ended");
    if (!at_end && start < next_resident_ns_) {
      return absl::ResourceExhaustedError(
          fmt::format("looking takes long, and is due again in {}", FormatDuration(next_resident_ns_ - start)));
    }
    return ReadResidentRows(*pid, table, Deadline::In(at_end ? kResidentTimeAtEnd : kResidentTime), snapshot);
  };
  if (const absl::Status status = read(); !status.ok()) snapshot->resident_left_out = std::string(status.message());
  next_resident_ns_ = std::max(next_resident_ns_, start + kShareOfResident * (NowNs(CLOCK_THREAD_CPUTIME_ID) - used));
}

absl::StatusOr<Snapshot> TakeWithThreads(const TableFile& table) {
  absl::StatusOr<Snapshot> snapshot = table.TakeSnapshot();
  if (snapshot.ok() && !snapshot->live_threads.empty()) RunningProgram().Look(table, &*snapshot);
  return snapshot;
}

void AddThreadRecords(const Snapshot& snapshot, const FramesOfStack& frames, Profile* profile, size_t most) {
  constexpr size_t kMaxFrames = 20;  // frames between clone and a thread's own function
  std::map<std::vector<uint32_t>, uint32_t> stacks;
  record::Threads threads;
  for (const NotedThreadInfo& thread : snapshot.noted_threads) {
    const StackInfo& info = snapshot.stacks[thread.stack];
    if (thread.name.empty() || info.truncated || info.overflow || info.missing) continue;
    if (threads.thread.size() == most) break;
    std::vector<uint32_t> outer = frames(thread.stack);
    if (outer.size() > kMaxFrames) outer.erase(outer.begin(), outer.end() - kMaxFrames);
    const auto [place, added] = stacks.emplace(outer, static_cast<uint32_t>(stacks.size() + 1));
    threads.thread.push_back({.stack = place->second, .tid = thread.id, .name = Printable(thread.name)});
    if (added) threads.stack.push_back(std::move(outer));
  }
  if (!threads.thread.empty()) profile->mutable_records()->threads = std::move(threads);
}

}  // namespace holdfast
