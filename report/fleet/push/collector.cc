#include "report/fleet/push/collector.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/time_budget.h"
#include "report/builder/file_kinds.h"
#include "report/builder/profile_builder.h"
#include "report/builder/wall_locks.h"
#include "report/fleet/push/server_profile.h"
#include "report/profile/pprof.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// The prefixes of Pyroscope's types, by ProfileKind: named like Go's profiles.
constexpr const char* kFamilies[kProfileKinds] = {"memory",  "mutex",      "block",      "map",
                                                  "threads", "exceptions", "process_cpu"};
const char* FamilyOf(int file) { return file < kProfileKinds ? kFamilies[file] : kFileKinds[file].name; }

std::string WithFullStop(std::string text) {
  if (!text.ends_with('.')) text += '.';
  return text;
}

// Whether source lines were not found in time. The next profile has them.
bool HasMoreToSay(const Profile& profile) {
  const std::vector<record::MissingNames>& missing = profile.records().missing_names;
  return std::any_of(missing.begin(), missing.end(), [](const record::MissingNames& one) { return one.not_in_time; });
}

}  // namespace

Collector::Watched::Watched(ProcessTable found) : table(std::move(found)), found_ns(NowNs(CLOCK_REALTIME)) {
  if (!table.pid.has_value()) return;
  place = PlaceOf(*table.pid);
  process = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, *table.pid, 0)));
}

bool Collector::Watched::HasExited() const {
  pollfd end = {.fd = process.get(), .events = POLLIN, .revents = 0};
  return process.valid() && poll(&end, 1, 0) == 1;
}

void Collector::SayOnce(const std::string& text) {
  if (said_.insert(text).second) Say(text);
}

std::shared_ptr<Spool> Collector::SpoolOf(const std::string& out) {
  const auto found = spools_.find(out);
  if (found != spools_.end()) return found->second;
  absl::StatusOr<std::unique_ptr<Spool>> opened = Spool::Open(out, options_.server, options_.tenant);
  elsewhere_.erase(out);
  if (!opened.ok()) {  // try again later: the pusher that holds it may exit
    const bool is_elsewhere = absl::IsFailedPrecondition(opened.status());
    if (is_elsewhere) elsewhere_.insert(out);
    SayOnce(fmt::format("{} Its profiles are not pushed until {}.",
                        WithFullStop(std::string(opened.status().message())),
                        is_elsewhere ? "that process ends" : "that is mended"));
    return nullptr;
  }
  std::shared_ptr<Spool>& spool = spools_[out];
  spool = *std::move(opened);
  all_spools_.push_back(spool);
  if (spool->in_doubt()) {
    Say(fmt::format(
        "{}: an earlier push was killed before the server answered. Sending that profile again, with the same id.",
        Printable(out)));
  }
  if (spool->taken_over() != 0) {
    Say(fmt::format(
        "{}: sending {} profiles that waited for another tenant, which the server rejected, as this tenant.",
        Printable(out), spool->taken_over()));
  }
  use_(spool);
  return spool;
}

void Collector::OpenNamed() {
  for (const std::string& out : options_.choice.outs) SpoolOf(out);
}

void Collector::Find(const std::vector<std::string>& tables) {
  ProcessChoice choice = options_.choice;
  if (!tables.empty()) choice.tables = tables;
  std::vector<ProcessTable> ended;
  for (ProcessTable& process : LiveProcesses(choice, &ended)) {
    table_folders_.insert(process.folder);
    std::string key = process.table.key();
    const auto [place, is_new] = watched_.try_emplace(std::move(key), std::move(process));
    if (is_new) exits_.Watch(place->second.process);
  }
  ReportEndedUnseen(std::move(ended));
}

size_t Collector::processes() const {
  return static_cast<size_t>(
      std::count_if(watched_.begin(), watched_.end(), [](const auto& one) { return !one.second.ended; }));
}

// Uses the monotonic clock if the process has the same one.
bool Collector::BeganLongAgo(const Watched& watched, const TableSnapshot& snapshot) const {
  const TableOwner& owner = watched.table.table.owner();
  const int64_t age_ns = owner.start_monotonic_ns != 0 && SharesOurClock(owner)
                             ? NowNs(CLOCK_MONOTONIC) - owner.start_monotonic_ns
                             : NowNs(CLOCK_REALTIME) - snapshot.process.start_wall_ns;
  return age_ns > options_.report_all_within_ns;
}

bool Collector::IsInUseReported(const Watched& watched) const {
  if (options_.once || watched.ended) return false;
  int64_t last_ns = 0;
  for (const CumulativeValues& values : watched.reported.kinds) last_ns = std::max(last_ns, values.time_nanos());
  if (watched.spool != nullptr) last_ns = std::max(last_ns, watched.spool->InDoubtSince(watched.reported.process));
  const int64_t ago_ns = NowNs(CLOCK_REALTIME) - last_ns;
  return ago_ns >= 0 && ago_ns < options_.every_ns / 2;
}

bool Collector::Begin(Watched* watched, const ProcessState& state) {
  watched->spool = SpoolOf(watched->table.out());
  if (watched->spool == nullptr) return false;
  ReportedProcess& reported = watched->reported;
  reported.process = ProcessId(state.table->process);
  reported.labels = LabelsOf(watched->table, watched->place, state, options_.labels);
  if (std::optional<ReportedProcess> earlier = watched->spool->ReportedOf(reported.process)) {
    reported.kinds = std::move(earlier->kinds);
    if (!watched->table.pid.has_value())
      reported.labels = std::move(earlier->labels);  // has exited: its place is unknown
  }
  reported_here_.insert(reported.process);
  reported.program = state.table->process.program;
  reported.pid = state.table->process.pid;
  bool is_known = false;
  for (int i = 0; i < kProfileKinds; ++i) {
    const int64_t time_ns = reported.kinds[static_cast<size_t>(i)].time_nanos();
    is_known = is_known || time_ns != 0;
    if (time_ns != 0) times_.Seen(FamilyOf(i), reported.labels, time_ns);
  }
  if (is_known || !BeganLongAgo(*watched, *state.table)) return true;
  for (int i = 0; i < kProfileKinds; ++i) {
    if ((state.table->profiles & (1u << i)) != 0) {
      reported.kinds[i] = CumulativeValues(BuildProfile(state, static_cast<ProfileKind>(i)));
    }
  }
  return true;
}

bool Collector::Report(Watched* watched) {
  const std::optional<uint64_t> records = watched->table.table.RecordsHash();
  const TableFile& table = watched->table.table;
  // Resident memory and the time of threads may change while the table does not.
  if (watched->idle.IsUnchanged(records) && !table.WantsResident() && !table.WantsWall()) {
    ReportAgain(watched);
    return true;
  }
  // Earlier than the snapshot, which then has the stacks of all waits. A failure leaves the kind out.
  if (table.WantsWall()) (void)ticker_.ClosePeriod(watched->table);
  absl::StatusOr<TableSnapshot> snapshot = table.TakeSnapshot();
  // Otherwise the table is being created, or is damaged; then the exporter reports it.
  return !snapshot.ok() || ReportNow(watched, records, *std::move(snapshot));
}

bool Collector::ReportNow(Watched* watched, std::optional<uint64_t> records, TableSnapshot snapshot) {
  ProcessState state =
      watched->observer.Observe(watched->table.table, std::move(snapshot),
                                {.threads = ThreadsWanted::kIfAnyIsLive, .mappings = true, .residency = true});
  if (watched->spool == nullptr && !Begin(watched, state)) return elsewhere_.contains(watched->table.out());
  watched->idle.Begin(records);
  const auto now = [&](ProfileKind kind, const CumulativeValues& reported) {
    std::optional<NewProfile> made;
    if ((state.table->profiles & KindBit(kind)) == 0) return made;
    const Profile now = BuildProfile(state, kind);
    made = {.increase = IncreaseSince(reported, now), .values = CumulativeValues(now)};
    names_.Give(state, kind, &made->increase);
    return made;
  };
  const bool only_counters = IsInUseReported(*watched);
  if (!state.residency.rows.empty() && !only_counters) ReportResident(watched, state);
  if (watched->table.table.WantsWall()) ReportWall(watched, &state);
  max_bytes_[watched->spool.get()] = options_.max_disk_bytes.value_or(state.table->max_disk_bytes);
  return ReportKinds(watched->spool.get(), &watched->reported, now, &watched->idle, only_counters);
}

void Collector::ReportResident(Watched* watched, const ProcessState& state) {
  CumulativeValues before;
  before.set_time_nanos(watched->reported.kinds[static_cast<int>(ProfileKind::kHeap)].time_nanos());
  Profile now = IncreaseSince(before, BuildResidentProfile(state));
  names_.Give(state, ProfileKind::kHeap, &now);
  const auto put = Put(watched->spool.get(), watched->reported, kResidentFile, now, nullptr).status();
  if (!put.ok()) SayUnwritten(put);
}

void Collector::ReportWall(Watched* watched, ProcessState* state) {
  if (!ticker_.AddTo(watched->table, ThreadTicker::Sums::kOnlyGrow, state).ok()) return;
  Profile now = BuildWallProfile(*state);
  // New looks begin at zero: what the earlier ones had seen is no base for them.
  const int64_t since_ns = state->thread_times->lane_start_wall_ns;
  const bool is_first = std::exchange(watched->wall_since_ns, since_ns) != since_ns;
  Profile increase = IncreaseSince(watched->wall, now);
  watched->wall = CumulativeValues(now);
  if (is_first) return;
  names_.Give(*state, ProfileKind::kBlock, &increase);
  names_.Give(*state, ProfileKind::kBlock, &now);
  CopyLockNames(now, &increase);
  const auto put = Put(watched->spool.get(), watched->reported, kWallFile, increase, nullptr).status();
  if (!put.ok()) SayUnwritten(put);
}

void Collector::ReportAgain(Watched* watched) {
  if (IsInUseReported(*watched)) return;
  const int64_t now_ns = NowNs(CLOCK_REALTIME);
  for (const IdleProcess::Kept& kept : watched->idle.kept()) {
    const int64_t duration_ns =
        std::max<int64_t>(1, now_ns - watched->reported.kinds[static_cast<int>(kept.kind)].time_nanos());
    const ServerProfiles::Part part = {.pprof = AtTime(kept.pprof, now_ns, duration_ns), .time_nanos = now_ns};
    const absl::Status status = PutOne(watched->spool.get(), watched->reported, static_cast<int>(kept.kind),
                                       /*counts=*/false, part, duration_ns);
    if (!status.ok()) return SayUnwritten(status);
  }
  for (CumulativeValues& values : watched->reported.kinds) {
    if (values.time_nanos() != 0) values.set_time_nanos(now_ns);
  }
}

void Collector::SayUnwritten(const absl::Status& status) {
  ++counts_.unwritten;
  SayOnce(fmt::format("{}. New profiles will be sent later.", std::string(status.message())));
}

bool Collector::ReportKinds(Spool* spool, ReportedProcess* reported, const ProfileNow& now, IdleProcess* idle,
                            bool only_counters) {
  std::array<std::optional<NewProfile>, kProfileKinds> made;
  bool any_counts = false;
  for (int i = 0; i < kProfileKinds; ++i) {
    made[i] = now(static_cast<ProfileKind>(i), reported->kinds[i]);
    any_counts = any_counts || (made[i].has_value() && CountsSomething(made[i]->increase));
  }
  if (only_counters && !any_counts) return true;
  ReportedProcess next = *reported;
  const bool counts = any_counts || reported->last_entry == 0;  // always write the first entry
  bool any = false;
  absl::Status status;
  for (int i = 0; i < kProfileKinds && status.ok(); ++i) {
    if (!made[i].has_value()) continue;
    const absl::StatusOr<bool> put = Put(spool, *reported, i, made[i]->increase, idle);
    status = put.status();
    any = any || (put.ok() && *put);
    next.kinds[i] = std::move(made[i]->values);
  }
  if (!status.ok()) {
    spool->Abandon();
  } else if (any && counts) {
    status = spool->Commit(&next);
  }
  if (!status.ok()) {
    SayUnwritten(status);
    return false;
  }
  if (any) *reported = std::move(next);
  if (idle != nullptr) idle->End();
  return true;
}

absl::StatusOr<bool> Collector::Put(Spool* spool, const ReportedProcess& reported, int file, const Profile& increase,
                                    IdleProcess* idle) {
  const ServerProfiles made = ForServer(increase, {.sample_labels = SampleLabelsBeside(reported.labels.size())});
  const bool counts = CountsSomething(increase);
  if (idle != nullptr) idle->Keep(static_cast<ProfileKind>(file), made, counts || HasMoreToSay(increase));
  counts_.cut_stacks += made.cut_stacks;
  counts_.cut_labels += made.cut_labels;
  if (!made.left_out.empty()) {
    SayOnce(fmt::format("{}: servers accept {} labels per series, so these labels of samples are dropped: {}.",
                        Printable(reported.program), kMaxServerLabels, Printable(absl::StrJoin(made.left_out, ", "))));
  }
  counts_.too_large += made.too_large;
  for (const ServerProfiles::Part& part : made.parts) {
    const absl::Status status = PutOne(spool, reported, file, counts, part, increase.duration_nanos);
    if (!status.ok()) return status;
  }
  return !made.parts.empty();
}

absl::Status Collector::PutOne(Spool* spool, const ReportedProcess& reported, int file, bool counts,
                               const ServerProfiles::Part& part, int64_t duration_ns) {
  PushEntry entry{.family = FamilyOf(file),
                  .labels = reported.labels,
                  .id = RandomUuid(),
                  .from_ns = part.time_nanos - duration_ns,
                  .until_ns = part.time_nanos,
                  .pprof = part.pprof};
  const SeriesSpan span =
      times_.Take(entry.family, entry.labels, {entry.from_ns, entry.until_ns}, NowNs(CLOCK_REALTIME));
  entry.SetTimes(span.from_ns, span.until_ns);
  absl::Status status = spool->Put(reported.process, entry, counts);
  if (status.ok()) ++counts_.profiles;
  return status;
}

void Collector::ShrinkSpools() {
  for (const auto& [spool, max_bytes] : max_bytes_) {
    const uint64_t dropped = spool->Shrink(max_bytes);
    if (dropped == 0) continue;
    counts_.dropped += dropped;
    SayOnce(fmt::format("{}: waiting and other profiles have reached --max-disk. Dropping the oldest waiting ones.",
                        Printable(spool->out())));
  }
}

void Collector::ReportAll() {
  // Check for exit before reading the table: then what is read is the last state.
  ReportWatched([](Watched& watched) { return watched.table.table.liveness() == Liveness::kDead; },
                /*also_living=*/true);
}

bool Collector::ReportEnded() {
  if (!exits_.Any()) return false;
  const size_t before = watched_.size();
  ReportWatched([](Watched& watched) { return watched.HasExited(); }, /*also_living=*/false);
  return watched_.size() != before;
}

template <typename HasEnded>
void Collector::ReportWatched(HasEnded has_ended, bool also_living) {
  std::set<std::string> finished;
  for (auto& [key, watched] : watched_) {
    const bool was_ended = watched.ended;
    watched.ended = was_ended || has_ended(watched);
    if (!also_living && (was_ended || !watched.ended)) continue;
    // If the disk is full, try again at the next interval; the table is still open here.
    if (!Report(&watched) || !watched.ended) continue;
    if (watched.spool != nullptr) watched.spool->Finish(watched.reported);
    finished.insert(key);
    ended_.insert(key);
  }
  std::erase_if(watched_, [&](const auto& one) { return finished.contains(one.first); });
  constexpr int64_t kRemembered = int64_t{2} * 3600 * kSecond;  // longer than a clock that is set back can matter
  times_.ForgetBefore(NowNs(CLOCK_REALTIME) - kRemembered);
  ShrinkSpools();
}

}  // namespace holdfast
