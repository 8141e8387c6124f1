#include "report/observe/observe.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/base/time_budget.h"
#include "report/base/value_units.h"
#include "report/observe/memory/libc_mappings.h"
#include "report/observe/memory/resident_rows.h"
#include "report/observe/outside/look_at_waits.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"

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

absl::StatusOr<ProcessState> ProcessObserver::Observe(const TableFile& table, const Wanted& wanted) {
  absl::StatusOr<TableSnapshot> snapshot = wanted.records ? table.TakeSnapshot() : TableSnapshot();
  if (!snapshot.ok()) return snapshot.status();
  return Observe(table, *std::move(snapshot), wanted);
}

ProcessState ProcessObserver::Observe(const TableFile& table, TableSnapshot snapshot, const Wanted& wanted) {
  ProcessState state(std::move(snapshot));
  Observe(table, wanted, &state);
  return state;
}

void ProcessObserver::Observe(const TableFile& table, const Wanted& wanted, ProcessState* state) {
  if (wanted.waits) LookAtWaits(table, *state->table, wanted.other_threads, &state->waits);
  if (wanted.threads == ThreadsWanted::kYes ||
      (wanted.threads == ThreadsWanted::kIfAnyIsLive && !state->table->live_threads.empty())) {
    ObserveThreads(table, wanted.threads == ThreadsWanted::kYes && !wanted.has_looks, state);
  }
  if (wanted.mappings) ObserveMappings(table, state);
  if (wanted.residency) ObserveResidency(table, state);
  if (wanted.account) {
    const std::optional<pid_t> pid = FindProcess(table.owner());
    if (pid.has_value()) {
      state->account = ReadAccount(*pid, table, wanted.free_memory ? &state->free_memory : nullptr);
    } else {
      state->account = absl::NotFoundError("the process has ended");
    }
  }
}

void ProcessObserver::ReadLives(const TableFile& table) {
  const TableOwner& owner = table.owner();
  if (table.liveness() == Liveness::kDead) return;
  if (const std::optional<pid_t> pid = FindProcess(owner); pid.has_value())
    lives_.Read(*pid, !owner.IsOfOurNamespace());
}

void ProcessObserver::ObserveThreads(const TableFile& table, bool reads_lives, ProcessState* state) {
  const TableSnapshot& snapshot = *state->table;
  const TableOwner& owner = table.owner();
  const pid_t pid = table.liveness() == Liveness::kDead ? 0 : FindProcess(owner).value_or(0);
  std::map<uint32_t, pid_t> as_we_see;  // ids of the process's threads
  std::string of_main;
  const std::map<pid_t, ThreadLives::Life>* lives = nullptr;
  if (pid != 0) {
    state->resident_bytes = ResidentBytes(pid).value_or(0);
    if (reads_lives) lives_.Read(pid, !owner.IsOfOurNamespace());
    lives = reads_lives ? lives_.alive() : nullptr;  // then nothing is read twice
    if (!snapshot.noted_threads.empty() || !snapshot.live_threads.empty()) {
      if (lives != nullptr) {
        for (const auto& [id, life] : *lives) as_we_see.emplace(life.time.id, id);
      } else {
        for (const auto& [id, inner] : ThreadsOf(pid, !owner.IsOfOurNamespace())) as_we_see.emplace(inner, id);
      }
    }
  }
  const auto name_of = [&](pid_t thread) {
    if (lives == nullptr) return ThreadName(pid, thread);
    const auto life = lives->find(thread);
    return life != lives->end() ? life->second.name : std::string();
  };
  const auto began_of = [&](pid_t thread) -> std::optional<int64_t> {
    if (lives == nullptr) return ThreadBegan(pid, thread);
    const auto life = lives->find(thread);
    return life != lives->end() ? std::optional(life->second.began_ns) : std::nullopt;
  };
  if (!as_we_see.empty()) of_main = name_of(pid);
  std::set<GoneThread> gone;
  for (size_t i = 0; i < snapshot.live_threads.size(); ++i) {
    const LiveThreadInfo& thread = snapshot.live_threads[i];
    const GoneThread known{thread.id, thread.when_ns};
    state->thread_is_gone[i] = gone_.contains(known);
    if (pid == 0 || thread.id == 0) continue;  // the process and all its threads have ended: keep the earlier names
    const auto alive = as_we_see.find(thread.id);
    const std::optional<int64_t> began =
        alive != as_we_see.end() && thread.when_ns != 0 ? began_of(alive->second) : std::nullopt;
    if (alive == as_we_see.end() || (began.has_value() && thread.when_ns < *began - kOneTickNs))
      state->thread_is_gone[i] = true;
    if (state->thread_is_gone[i]) gone.insert(known);
  }
  if (reads_lives) state->thread_lives = lives_.times();
  if (pid != 0) gone_ = std::move(gone);
  const int64_t now_ns = NowNs();
  const std::string of_program = snapshot.process.program.substr(0, kMaxNameLength);
  std::map<uint32_t, Seen> seen;
  for (size_t i = 0; i < snapshot.noted_threads.size(); ++i) {
    const NotedThreadInfo& thread = snapshot.noted_threads[i];
    std::string& name = state->thread_names[i];
    if (const auto alive = as_we_see.find(thread.id); alive != as_we_see.end()) {
      const std::optional<int64_t> began = began_of(alive->second);
      if (!began.has_value() || thread.when_ns < *began - kOneTickNs) continue;  // the id was reused
      name = alive->second == pid ? of_main : name_of(alive->second);
      seen[thread.id] = {name, now_ns};
    } else if (const auto before = seen_.find(thread.id);
               before != seen_.end() && thread.when_ns <= before->second.alive_ns) {
      name = before->second.name;
      seen.insert(*before);
    }
    if (name == of_program || name == of_main) name.clear();
  }
  seen_ = std::move(seen);
}

void ProcessObserver::ObserveMappings(const TableFile& table, ProcessState* state) {
  const TableSnapshot& snapshot = *state->table;
  const auto is_mapped = [](const RowInfo& row) {
    return (row.profile == ProfileKind::kMap || row.has_thread_stacks()) && row.sums[0] != 0;
  };
  if ((snapshot.profiles & KindBit(ProfileKind::kMap)) == 0 ||
      std::none_of(snapshot.rows.begin(), snapshot.rows.end(), is_mapped))
    return;
  const std::optional<pid_t> pid = FindProcess(table.owner());
  const absl::StatusOr<std::vector<LibcMapping>> found =
      pid.has_value() ? ReadLibcMappings(*pid, table, snapshot.modules) : absl::NotFoundError("the process has ended");
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
    if (known.name != nullptr) state->libc_mappings.push_back(known);
  }
}

ProcessObserver::MaxByLibc ProcessObserver::max_by_libc() const {
  MaxByLibc most;
  for (size_t i = 0; i < most.size(); ++i) most[i] = {libc_mappings_[i].most_mappings, libc_mappings_[i].most_bytes};
  return most;
}

void ProcessObserver::set_max_by_libc(const MaxByLibc& most) {
  for (size_t i = 0; i < most.size(); ++i) {
    libc_mappings_[i].most_mappings = most[i].mappings;
    libc_mappings_[i].most_bytes = most[i].bytes;
  }
}

void ProcessObserver::ObserveResidency(const TableFile& table, ProcessState* state) {
  const TableSnapshot& snapshot = *state->table;
  if (!snapshot.resident || (snapshot.profiles & kKindsOfResident) == 0) return;
  const int64_t start = NowNs(), used = NowNs(CLOCK_THREAD_CPUTIME_ID);
  const bool at_end = snapshot.exit_request != 0;
  const auto read = [&]() -> absl::StatusOr<Residency> {
    const std::optional<pid_t> pid = FindProcess(table.owner());
    if (!pid.has_value() || table.liveness() == Liveness::kDead) return absl::NotFoundError("the process has ended");
    if (!at_end && start < next_residency_ns_) {
      return absl::ResourceExhaustedError(
          fmt::format("looking takes long, and is due again in {}", FormatDuration(next_residency_ns_ - start)));
    }
    return ReadResidency(*pid, table, snapshot, state->thread_is_gone,
                         Deadline::In(at_end ? kResidentTimeAtEnd : kResidentTime));
  };
  if (absl::StatusOr<Residency> found = read(); found.ok()) {
    state->residency = *std::move(found);
  } else {
    state->residency.left_out = std::string(found.status().message());
  }
  next_residency_ns_ = std::max(next_residency_ns_, start + kShareOfResident * (NowNs(CLOCK_THREAD_CPUTIME_ID) - used));
}

}  // namespace holdfast
