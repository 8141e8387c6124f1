#include "report/push/collector.h"

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
#include "report/export/profile_builder.h"
#include "report/pprof/pprof.h"
#include "report/push/server_profile.h"

namespace holdfast {
namespace {

// What Pyroscope's types begin with, by ProfileKind: as Go's profiles.
constexpr const char* kFamilies[kProfileKinds] = {"memory", "mutex", "block", "map", "threads", "exceptions"};
const char* FamilyOf(int file) { return file < kProfileKinds ? kFamilies[file] : kFileKindNames[file]; }

// Lines of source that were not found in time: next time they are.
bool HasMoreToSay(const Profile& profile) {
  return std::any_of(profile.comments.begin(), profile.comments.end(), [&](StringId comment) {
    const std::string_view text = profile.strings[comment];
    return text.starts_with("no lines: ") && text.find(": not in time") != std::string_view::npos;
  });
}

}  // namespace

std::string Collector::KeyOf(const ProcessTable& process) {
  return fmt::format("{}/{} {}", process.folder, process.table.name(), process.table.inode());
}

Collector::Watched::Watched(ProcessTable found) : table(std::move(found)) {
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
  absl::StatusOr<std::unique_ptr<Spool>> opened = Spool::Open(out, options_.server);
  if (!opened.ok()) {  // it may be had later: the one that has it ends
    SayOnce(fmt::format("{} Nothing of that folder is pushed meanwhile.", std::string(opened.status().message())));
    return nullptr;
  }
  std::shared_ptr<Spool>& spool = spools_[out];
  spool = *std::move(opened);
  all_spools_.push_back(spool);
  if (spool->in_doubt()) {
    Say(fmt::format(
        "{}: a push was killed before it had the server's answer. That profile is sent again, under the same id.",
        Printable(out)));
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
    std::string key = KeyOf(process);
    const auto [place, is_new] = watched_.try_emplace(std::move(key), std::move(process));
    if (is_new) exits_.Watch(place->second.process);
  }
  TellEndedUnseen(std::move(ended));
}

bool Collector::Begin(Watched* watched, const Snapshot& snapshot) {
  watched->spool = SpoolOf(watched->table.out());
  if (watched->spool == nullptr) return false;
  ToldProcess& told = watched->told;
  told.process = ProcessId(snapshot.process);
  told.labels = LabelsOf(watched->table, watched->place, snapshot, options_.labels);
  if (std::optional<ToldProcess> earlier = watched->spool->ToldOf(told.process)) {
    told.kinds = std::move(earlier->kinds);
    if (!watched->table.pid.has_value()) told.labels = std::move(earlier->labels);  // it has ended: its place, too
  }
  told_here_.insert(told.process);
  told.program = snapshot.process.program;
  told.pid = snapshot.process.pid;
  const bool is_known = std::any_of(told.kinds.begin(), told.kinds.end(),
                                    [](const CumulativeValues& values) { return values.time_nanos() != 0; });
  if (is_known || snapshot.process.start_wall_ns >= options_.tell_all_begun_after_ns) return true;
  for (int i = 0; i < kProfileKinds; ++i) {
    if ((snapshot.profiles & (1u << i)) != 0) {
      told.kinds[i] = CumulativeValues(BuildProfile(snapshot, static_cast<ProfileKind>(i)));
    }
  }
  return true;
}

void Collector::Tell(Watched* watched) {
  const std::optional<uint64_t> records = watched->table.table.RecordsHash();
  const TableFile& table = watched->table.table;
  // What is resident changes while the table does not.
  if (watched->quiet.IsStill(records) && !table.WantsResident()) return TellAgain(watched);
  absl::StatusOr<Snapshot> snapshot = table.TakeSnapshot();
  if (snapshot.ok())
    TellAsItIs(watched, records, *std::move(snapshot));  // else being made, or damaged: the exporter says so
}

void Collector::TellAsItIs(Watched* watched, std::optional<uint64_t> records, Snapshot snapshot) {
  const TableFile& table = watched->table.table;
  if (!snapshot.live_threads.empty()) watched->program.Look(table, &snapshot);
  watched->program.LookAtLibcMappings(table, &snapshot);
  watched->program.LookAtResident(table, &snapshot);
  if (watched->spool == nullptr && !Begin(watched, snapshot)) return;
  watched->quiet.Begin(records);
  const auto now = [&](ProfileKind kind, const CumulativeValues& told) {
    std::optional<NewProfile> made;
    if ((snapshot.profiles & KindBit(kind)) == 0) return made;
    const Profile now = BuildProfile(snapshot, kind);
    made = {.increase = IncreaseSince(told, now), .values = CumulativeValues(now)};
    names_.Give(snapshot, kind, &made->increase);
    return made;
  };
  if (!snapshot.resident_rows.empty()) TellResident(watched, snapshot);
  TellKinds(watched->spool.get(), &watched->told, now, &watched->quiet);
  max_bytes_[watched->spool.get()] = options_.max_disk_bytes.value_or(snapshot.max_disk_bytes);
}

void Collector::TellResident(Watched* watched, const Snapshot& snapshot) {
  CumulativeValues before;
  before.set_time_nanos(watched->told.kinds[static_cast<int>(ProfileKind::kHeap)].time_nanos());
  Profile now = IncreaseSince(before, BuildResidentProfile(snapshot));
  names_.Give(snapshot, ProfileKind::kHeap, &now);
  const auto put = Put(watched->spool.get(), watched->told, kResidentFile, now, nullptr).status();
  if (!put.ok()) SayUnwritten(put);
}

void Collector::TellAgain(Watched* watched) {
  const int64_t now_ns = NowNs(CLOCK_REALTIME);
  for (const QuietProcess::Kept& kept : watched->quiet.kept()) {
    const int64_t duration_ns =
        std::max<int64_t>(1, now_ns - watched->told.kinds[static_cast<int>(kept.kind)].time_nanos());
    const ServerProfiles::Part part = {.pprof = AtTime(kept.pprof, now_ns, duration_ns), .time_nanos = now_ns};
    const absl::Status status =
        PutOne(watched->spool.get(), watched->told, static_cast<int>(kept.kind), /*counts=*/false, part, duration_ns);
    if (!status.ok()) return SayUnwritten(status);
  }
  for (CumulativeValues& values : watched->told.kinds) {
    if (values.time_nanos() != 0) values.set_time_nanos(now_ns);
  }
}

void Collector::SayUnwritten(const absl::Status& status) {
  ++counts_.unwritten;
  SayOnce(fmt::format("{}. What is new is told later.", std::string(status.message())));
}

void Collector::TellKinds(Spool* spool, ToldProcess* told, const ProfileNow& now, QuietProcess* quiet) {
  ToldProcess next = *told;
  bool any = false, counts = told->last_entry == 0;  // the first time it is written down in any case
  absl::Status status;
  for (int i = 0; i < kProfileKinds && status.ok(); ++i) {
    std::optional<NewProfile> made = now(static_cast<ProfileKind>(i), told->kinds[i]);
    if (!made.has_value()) continue;
    const absl::StatusOr<bool> put = Put(spool, *told, i, made->increase, quiet);
    status = put.status();
    any = any || (put.ok() && *put);
    counts = counts || CountsSomething(made->increase);
    next.kinds[i] = std::move(made->values);
  }
  if (!status.ok()) {
    spool->Abandon();
  } else if (any && counts) {
    status = spool->Commit(&next);
  }
  if (!status.ok()) return SayUnwritten(status);
  if (any) *told = std::move(next);
  if (quiet != nullptr) quiet->End();
}

absl::StatusOr<bool> Collector::Put(Spool* spool, const ToldProcess& told, int file, const Profile& increase,
                                    QuietProcess* quiet) {
  const ServerProfiles made = ForServer(increase, {.sample_labels = SampleLabelsBeside(told.labels.size())});
  const bool counts = CountsSomething(increase);
  if (quiet != nullptr) quiet->Keep(static_cast<ProfileKind>(file), made, counts || HasMoreToSay(increase));
  counts_.cut_stacks += made.cut_stacks;
  counts_.cut_labels += made.cut_labels;
  if (!made.left_out.empty()) {
    SayOnce(fmt::format("{}: servers take {} labels a series; of its samples' these are left out: {}.",
                        Printable(told.program), kMostServerLabels, Printable(absl::StrJoin(made.left_out, ", "))));
  }
  counts_.too_large += made.too_large;
  for (const ServerProfiles::Part& part : made.parts) {
    const absl::Status status = PutOne(spool, told, file, counts, part, increase.duration_nanos);
    if (!status.ok()) return status;
  }
  return !made.parts.empty();
}

absl::Status Collector::PutOne(Spool* spool, const ToldProcess& told, int file, bool counts,
                               const ServerProfiles::Part& part, int64_t duration_ns) {
  PushEntry entry{.family = FamilyOf(file),
                  .labels = told.labels,
                  .id = RandomUuid(),
                  .from_ns = part.time_nanos - duration_ns,
                  .until_ns = part.time_nanos,
                  .pprof = part.pprof};
  if (const int64_t later_ns = times_.Take(entry.family, entry.labels, entry.from_ns, entry.until_ns); later_ns != 0) {
    entry.from_ns += later_ns;
    entry.until_ns += later_ns;
    entry.pprof = AtTime(entry.pprof, entry.until_ns, duration_ns);
  }
  absl::Status status = spool->Put(told.process, entry, counts);
  if (status.ok()) ++counts_.profiles;
  return status;
}

void Collector::ShrinkSpools() {
  for (const auto& [spool, max_bytes] : max_bytes_) {
    const uint64_t dropped = spool->Shrink(max_bytes);
    if (dropped == 0) continue;
    counts_.dropped += dropped;
    SayOnce(fmt::format("{}: what waits there and the profiles have reached --max-disk: the oldest are dropped.",
                        Printable(spool->out())));
  }
}

void Collector::TellAll() {
  // Looked at before it is read: that is its last state then.
  TellThose([](Watched& watched) { return watched.table.table.liveness() == Liveness::kDead; }, /*also_living=*/true);
}

bool Collector::TellEnded() {
  if (!exits_.Any()) return false;
  const size_t before = watched_.size();
  TellThose([](Watched& watched) { return watched.HasExited(); }, /*also_living=*/false);
  return watched_.size() != before;
}

template <typename HasEnded>
void Collector::TellThose(HasEnded has_ended, bool also_living) {
  for (auto& [key, watched] : watched_) {
    watched.ended = has_ended(watched);
    if (watched.ended || also_living) Tell(&watched);
    if (watched.ended && watched.spool != nullptr) watched.spool->Finish(watched.told.process);
    if (watched.ended) ended_.insert(key);
  }
  std::erase_if(watched_, [](const auto& one) { return one.second.ended; });
  times_.ForgetBefore(NowNs(CLOCK_REALTIME) - 60 * kSecond);
  ShrinkSpools();
}

}  // namespace holdfast
