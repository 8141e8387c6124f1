#include "report/export/process_exporter.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "report/export/lock_names.h"
#include "report/symbolize/profile_symbolizer.h"
#include "report/pprof/pprof.h"

namespace holdfast {
namespace {

// Tells whether anything of this kind has changed: every counter only grows.
uint64_t Fingerprint(const Snapshot& snapshot, ProfileKind kind) {
  uint64_t hash = 0;
  for (const RowInfo& row : snapshot.rows) {
    if (row.profile == kind && row.sums[0] != 0) {
      hash = absl::HashOf(hash, row.stack, row.class_bytes, row.sums[0], row.sums[1], row.sums[2]);
    }
  }
  return hash;
}

std::vector<int64_t> Totals(const Profile& profile) {
  std::vector<int64_t> totals;
  for (size_t type = 0; type < profile.sample_types.size(); ++type) totals.push_back(profile.Total(type));
  return totals;
}

}  // namespace

bool TableExporter::WasWrittenBefore(const Kind& kind, const Profile& profile) {
  return !kind.files.empty() && kind.files.back().totals == Totals(profile);
}

// An earlier exporter may have been killed, or have ended while this process went on: its files count for `keep`. Only
// a file that says itself that it is of this very process is ever removed.
void TableExporter::AdoptEarlierFiles(const OutputFolder& output, const Snapshot& snapshot) {
  adopted_ = true;
  const std::string program = ProgramForFileName(snapshot.process.program);
  const std::string process = ProcessId(snapshot.process);
  for (const OutputFolder::Entry& entry : output.List()) {
    if (!entry.regular || entry.name.program != program || entry.name.pid != snapshot.process.pid ||
        entry.modified_ns < snapshot.process.start_wall_ns) {
      continue;
    }
    const auto* kind = std::find(std::begin(kProfileKindNames), std::end(kProfileKindNames), entry.name.kind);
    if (kind == std::end(kProfileKindNames)) continue;
    const absl::StatusOr<Profile> profile = ReadPprofFile(output.PathOf(entry.name));
    if (!profile.ok() || profile->CommentValue("process") != process) continue;
    kinds_[kind - kProfileKindNames].files.push_back({entry.name, profile->time_nanos, Totals(*profile)});
  }
  for (Kind& kind : kinds_) {
    std::sort(kind.files.begin(), kind.files.end(),
              [](const Written& a, const Written& b) { return a.time_ns < b.time_ns; });
  }
}

void TableExporter::Thin(const OutputFolder& output, uint32_t keep, Kind* kind) {
  std::vector<int64_t> times;
  for (const Written& file : kind->files) times.push_back(file.time_ns);
  std::vector<size_t> remove = SnapshotsToRemove(times, keep);
  std::sort(remove.rbegin(), remove.rend());
  for (const size_t index : remove) {
    output.Remove(kind->files[index].name);
    kind->files.erase(kind->files.begin() + static_cast<ptrdiff_t>(index));
    ++removed_snapshots_;
  }
}

absl::StatusOr<std::vector<ProfileName>> TableExporter::Export(const OutputFolder& output, Symbolizer& symbolizer,
                                                               const Deadline& lines_by) {
  const absl::StatusOr<Snapshot> snapshot = table_.TakeSnapshot();
  if (!snapshot.ok()) return snapshot.status();
  std::vector<ProfileName> written;
  ProfileName name;
  name.program = ProgramForFileName(snapshot->process.program);
  name.pid = snapshot->process.pid;
  for (int i = 0; i < kProfileKinds; ++i) {
    const auto kind = static_cast<ProfileKind>(i);
    Kind& state = kinds_[i];
    const uint64_t fingerprint = Fingerprint(*snapshot, kind);
    if ((snapshot->profiles & (1u << i)) == 0 || fingerprint == state.fingerprint) continue;
    Profile profile = BuildProfile(*snapshot, kind);
    if (profile.samples.empty()) continue;
    if (!adopted_) AdoptEarlierFiles(output, *snapshot);
    if (WasWrittenBefore(state, profile)) {
      state.fingerprint = fingerprint;
      continue;
    }
    Symbolize(&profile, symbolizer, {.deadline = lines_by, .perf_map = true});
    if (kind != ProfileKind::kHeap) NameLocks(*snapshot, &profile);
    if (failed_writes_ > 0) profile.AddComment(absl::StrCat("failed writes: ", failed_writes_));
    if (removed_snapshots_ > 0) profile.AddComment(absl::StrCat("removed snapshots: ", removed_snapshots_));
    if (name.seq == 0) name.seq = output.NextSeq(name.program, name.pid);
    name.kind = kProfileKindNames[i];
    absl::StatusOr<ProfileName> got = output.Write(name, [&](int fd) { return WritePprof(profile, fd); });
    if (!got.ok()) {
      ++failed_writes_;
      return got.status();
    }
    name.seq = got->seq;
    state.fingerprint = fingerprint;
    state.files.push_back({*got, snapshot->wall_ns, {}});
    written.push_back(*std::move(got));
    Thin(output, snapshot->keep, &state);
  }
  if (!written.empty()) removed_snapshots_ += static_cast<uint64_t>(output.Shrink(snapshot->max_disk_bytes));
  return written;
}

}  // namespace holdfast
