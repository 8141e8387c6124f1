#include "report/table_exporter.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "sampler/pprof.h"

namespace holdfast {
namespace {

// Tells whether anything of this kind has changed: every counter only grows, so their sums do.
uint64_t Fingerprint(const Snapshot& snapshot, ProfileKind kind) {
  uint64_t hash = 0;
  for (const RowInfo& row : snapshot.rows) {
    if (row.profile == kind && row.sums[0] != 0) hash = absl::HashOf(hash, row.stack, row.class_bytes, row.sums[0], row.sums[2], row.sums[1]);
  }
  return hash;
}

}  // namespace

absl::StatusOr<int> TableExporter::Export(const OutputFolder& output, Symbolizer& symbolizer) {
  const absl::StatusOr<Snapshot> snapshot = table_.TakeSnapshot();
  if (!snapshot.ok()) return snapshot.status();
  ProfileName name;
  name.program = ProgramForFileName(snapshot->process.program);
  name.pid = snapshot->process.pid;
  int written = 0;
  for (int i = 0; i < kProfileKinds; ++i) {
    const auto kind = static_cast<ProfileKind>(i);
    Kind& state = kinds_[i];
    const uint64_t fingerprint = Fingerprint(*snapshot, kind);
    if ((snapshot->profiles & (1u << i)) == 0 || fingerprint == state.fingerprint) continue;
    Profile profile = BuildProfile(*snapshot, kind);
    if (profile.samples.empty()) continue;
    Symbolize(&profile, symbolizer);
    if (name.seq == 0) name.seq = output.NextSeq(name.program, name.pid);
    name.kind = kProfileKindNames[i];
    absl::StatusOr<ProfileName> got = output.Write(name, [&](int fd) { return WritePprof(profile, fd); });
    if (!got.ok()) return got.status();
    state.fingerprint = fingerprint;
    state.files.push_back({*std::move(got), snapshot->wall_ns});
    ++written;

    std::vector<int64_t> times;
    for (const Written& file : state.files) times.push_back(file.time_ns);
    std::vector<size_t> remove = SnapshotsToRemove(times, snapshot->keep);
    std::sort(remove.rbegin(), remove.rend());
    for (const size_t index : remove) {
      output.Remove(state.files[index].name);
      state.files.erase(state.files.begin() + static_cast<ptrdiff_t>(index));
    }
  }
  if (written > 0) output.Shrink(snapshot->max_disk_bytes);
  return written;
}

}  // namespace holdfast
