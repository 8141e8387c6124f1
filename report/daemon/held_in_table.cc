#include "report/daemon/held_in_table.h"

#include <algorithm>
#include <optional>

#include "report/builder/file_kinds.h"
#include "report/builder/written_files.h"
#include "report/observe/observe.h"
#include "report/profile/typed_records.h"
#include "report/profile/unrecorded_blocks.h"

namespace holdfast {

WrittenState WrittenStateOf(const Profile& profile) {
  const std::vector<TimeOff> off = TimesOffIn(profile);
  const int kind = FileKindNamed(profile.process().kind).value_or(-1);
  const bool is_of_one = profile.duration_nanos == 0 && !profile.records().merged.has_value();
  return {.kind = kind < kProfileKinds && is_of_one ? kind : -1,
          .process = profile.process().id,
          .elapsed_ns = profile.process().elapsed_ns,
          .totals = TotalsOf(profile),
          .lost = SamplesLostIn(profile),
          .times_off = off.size(),
          .is_off = !off.empty() && off.back().to_ns == INT64_MAX};
}

int64_t HeldInTableNs(const ProcessTable& process, const WrittenState& newest) {
  if (newest.kind < 0 || process.liveness != Liveness::kAlive || IsDetached(process.table)) return 0;
  const absl::StatusOr<ProcessState> state = Observe(process.table, {.threads = ThreadsWanted::kYes, .mappings = true});
  if (!state.ok()) return 0;
  const WrittenState now = WrittenStateOf(kFileKinds[newest.kind].build(*state));
  // Every counter only grows, so equal totals mean equal profiles.
  if (now.process != newest.process || now.totals != newest.totals || now.lost != newest.lost ||
      now.times_off != newest.times_off || now.is_off)
    return 0;
  return std::max<int64_t>(0, now.elapsed_ns - newest.elapsed_ns);
}

int64_t HeldInItsTableNs(const Profile& newest) {
  const WrittenState written = WrittenStateOf(newest);
  const std::optional<TableOwner> owner = OwnerOnThisHost(written.process);
  const std::optional<pid_t> pid = owner.has_value() ? FindProcess(*owner) : std::nullopt;
  if (!pid.has_value()) return 0;
  const absl::StatusOr<ProcessTable> process = FindTableOf(*pid, {});
  return process.ok() ? HeldInTableNs(*process, written) : 0;
}

}  // namespace holdfast
