#include "report/builder/file_kinds.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

#include "absl/hash/hash.h"
#include "report/base/time_budget.h"
#include "report/builder/profile_builder.h"
#include "report/observe/observe.h"
#include "report/profile/lock_record_limits.h"

namespace holdfast {
namespace {

// The CPU time of all threads in steps of an eighth of a second, so that nearly idle threads are unchanged.
int64_t CpuSteps(const ThreadTimes& times) {
  double cpu_ns = 0;
  for (const ThreadTime& one : times.threads) cpu_ns += one.ns[static_cast<int>(ThreadDoes::kCpu)];
  return std::llround(std::floor(cpu_ns / (125 * kMs)));
}

// Identifies the state of this kind: every counter only grows, so a change changes the hash.
uint64_t Fingerprint(const ProcessState& state, ProfileKind kind) {
  uint64_t hash = 0;
  for (const RowInfo& row : state.table->rows) {
    if ((row.profile == kind || (kind == ProfileKind::kMap && row.has_thread_stacks())) && row.sums[0] != 0) {
      hash = absl::HashOf(hash, row.stack, row.class_bytes, row.mark, row.number, row.sums[0], row.sums[1], row.sums[2],
                          row.sums[3]);
    }
  }
  if (kind == ProfileKind::kThreads || kind == ProfileKind::kMap) {
    for (size_t i = 0; i < state.thread_is_gone.size(); ++i)
      hash = absl::HashOf(hash, state.table->live_threads[i].id, static_cast<bool>(state.thread_is_gone[i]));
  }
  // Its file has the CPU times of threads, which change without samples.
  if (kind == ProfileKind::kThreads && hash != 0 && state.thread_lives != nullptr)
    hash = absl::HashOf(hash, CpuSteps(*state.thread_lives));
  if (kind != ProfileKind::kBlock) return hash;
  for (const OngoingWaitInfo& wait : state.waits.ongoing) {
    // Idle threads sleep unchanged; a thread that still waits for a lock has waited longer.
    const bool is_idle = HasNoHolder(wait.kind) || wait.kind == WaitKind::kFutex;
    hash = absl::HashOf(hash, wait.place, wait.owner, is_idle ? 0 : state.table->monotonic_ns);
  }
  return hash;
}

// Identifies the freed blocks and the bytes in use: ages alone are no change.
uint64_t FingerprintOfAges(const ProcessState& state) {
  uint64_t hash = 0;
  for (const AgesInfo& info : state.table->ages) hash = absl::HashOf(hash, info.stack, info.bucket, info.objects);
  if (state.table->ages_are_drawn) {
    for (const RowInfo& row : state.table->rows) {
      if (row.profile == ProfileKind::kHeap && row.sums[kFreeObjects] > 0)
        hash = absl::HashOf(hash, row.stack, row.class_bytes, row.sums[kFreeObjects]);
    }
  }
  double alive = 0;
  for (const RowInfo& row : state.table->rows) {
    if (row.profile == ProfileKind::kHeap) alive += std::max(0.0, row.sums[kAllocSpace] - row.sums[kFreeSpace]);
  }
  return hash == 0 && alive == 0 ? 0 : absl::HashOf(hash, alive);
}

// Rows may be in any order.
uint64_t FingerprintOfResident(const ProcessState& state) {
  uint64_t hash = 0;
  for (const ResidentRow& row : state.residency.rows)
    hash += absl::HashOf(row.row, row.objects, row.bytes, row.resident, row.swapped);
  return hash;
}

bool WantsLifetimes(const ProcessState& state) {
  return state.table->lifetimes == Lifetimes::kYes ||
         (state.table->lifetimes == Lifetimes::kUnlessShort && state.table->elapsed_ns >= kShortLife);
}

// A kind of the table's rows.
template <ProfileKind kKind>
constexpr FileKind OfRows(bool shows_growth = false) {
  return {.name = kProfileKindNames[static_cast<int>(kKind)],
          .rows = kKind,
          .needs = KindBit(kKind),
          .shows_growth = shows_growth,
          .fingerprint = [](const ProcessState& state) { return Fingerprint(state, kKind); },
          .build = [](const ProcessState& state) { return BuildProfile(state, kKind); }};
}

// The heap file contains the account, which must be as recent as the resident bytes.
constexpr FileKind OfHeap() {
  FileKind kind = OfRows<ProfileKind::kHeap>(/*shows_growth=*/true);
  kind.contents = FileKind::kCounts | FileKind::kPeak | FileKind::kHeapOnly;
  kind.is_lean = true;
  kind.has_account = true;
  kind.fingerprint = [](const ProcessState& state) {
    const uint64_t hash = Fingerprint(state, ProfileKind::kHeap) + FingerprintOfResident(state);
    // Without samples nothing changes, and the next file must say that they were off.
    const size_t changes = state.table->heap_intervals.size();
    return hash == 0 || changes < 2 ? hash : absl::HashOf(hash, changes);
  };
  return kind;
}

}  // namespace

constexpr FileKind kFileKinds[kFileKindCount] = {
    OfHeap(),
    OfRows<ProfileKind::kMutex>(),
    OfRows<ProfileKind::kBlock>(),
    OfRows<ProfileKind::kMap>(/*shows_growth=*/true),
    OfRows<ProfileKind::kThreads>(),
    OfRows<ProfileKind::kExceptions>(),
    OfRows<ProfileKind::kCpu>(),
    {.name = "peak",
     .rows = ProfileKind::kHeap,
     .needs = KindBit(ProfileKind::kHeap),
     .contents = FileKind::kCounts | FileKind::kPeak,
     .keeps_newest = true,
     .is_shared = false,  // ProgramFiles::AddPeak
     .is_wanted = [](const ProcessState& state) { return state.table->peak && state.peak != nullptr; },
     .fingerprint = [](const ProcessState& state) -> uint64_t {
       return state.peak == nullptr || state.peak->bytes == 0 ? 0
                                                              : absl::HashOf(state.peak->bytes, state.peak->wall_ns);
     },
     .build = [](const ProcessState& state) { return BuildPeakProfile(state); }},
    {.name = "lifetimes",
     .rows = ProfileKind::kHeap,
     .needs = KindBit(ProfileKind::kHeap),
     .contents = FileKind::kAges,
     .is_wanted = WantsLifetimes,
     .fingerprint = FingerprintOfAges,
     .build = BuildLifetimesProfile},
    {.name = "resident",
     .rows = ProfileKind::kHeap,
     .needs = kKindsOfResident,
     .contents = FileKind::kPages,
     .is_shared = false,  // resident memory is not examined then
     .fingerprint = FingerprintOfResident,
     .build = BuildResidentProfile},
    {.name = "wall",
     .rows = ProfileKind::kBlock,  // locks are named as in block profiles
     .needs = ~uint32_t{0},
     .contents = 0,
     .is_shared = false,
     .is_wanted = [](const ProcessState& state) { return state.thread_times != nullptr; },
     .fingerprint = [](const ProcessState& state) -> uint64_t {
       return state.thread_times == nullptr ? 0 : absl::HashOf(state.thread_times->looks);
     },
     .build = BuildWallProfile}};

std::optional<int> FileKindNamed(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFileKinds), std::end(kFileKinds),
                                   [name](const FileKind& kind) { return kind.name == name; });
  if (found == std::end(kFileKinds)) return std::nullopt;
  return static_cast<int>(found - kFileKinds);
}

}  // namespace holdfast
