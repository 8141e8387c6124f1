#include "report/push/collector.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
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

struct NewProfile {
  Profile increase;
  CumulativeValues values;
};

// As it was before frames were added by name: stacks are known by the addresses that the program had.
void DropTailCalls(Profile* profile) {
  std::vector<uint32_t> frames;
  for (size_t i = 0; i < profile->samples.size(); ++i) {
    frames.clear();
    for (const uint32_t frame : profile->FramesOf(profile->samples[i])) {
      if (!profile->locations[frame].is_tail_call) frames.push_back(frame);
    }
    if (frames.size() != profile->samples[i].frames) profile->SetFrames(i, frames);
  }
}

// By its files, which say themselves whose they are: those of a program that executes itself are called as of one process.
std::optional<Profile> LastProfileOf(const Spool& spool, const std::vector<OutputFolder::Entry>& files,
                                     const std::string& process, ProfileKind kind) {
  std::vector<const OutputFolder::Entry*> newest_first;
  for (const OutputFolder::Entry& file : files) {
    const bool of_kind = file.name.kind == kProfileKindNames[static_cast<int>(kind)];
    if (file.regular && file.own && of_kind) newest_first.push_back(&file);
  }
  std::sort(newest_first.begin(), newest_first.end(),
            [](const auto* a, const auto* b) { return a->name.seq > b->name.seq; });
  for (const OutputFolder::Entry* file : newest_first) {
    absl::StatusOr<Profile> profile = ReadPprofFile(spool.profiles().PathOf(file->name));
    if (!profile.ok() || profile->CommentValue("process") != process) continue;
    DropTailCalls(&*profile);
    return *std::move(profile);
  }
  return std::nullopt;
}

// Lines of source that were not found in time: next time they are.
bool HasMoreToSay(const Profile& profile) {
  return std::any_of(profile.comments.begin(), profile.comments.end(), [&](StringId comment) {
    const std::string_view text = profile.strings[comment];
    return text.starts_with("no lines: ") && text.find(": not in time") != std::string_view::npos;
  });
}

std::string KeyOf(const ProcessTable& process) {
  return fmt::format("{}/{} {}", process.folder, process.table.name(), process.table.inode());
}

}  // namespace

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
  for (ProcessTable& process : LiveProcesses(choice)) {
    table_folders_.insert(process.folder);
    std::string key = KeyOf(process);
    const auto [place, is_new] = watched_.try_emplace(std::move(key), std::move(process));
    if (is_new) exits_.Watch(place->second.process);
  }
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
  if (!snapshot.ok()) return;  // being made, or damaged: the exporter says so
  if (!snapshot->live_threads.empty()) watched->program.Look(table, &*snapshot);
  watched->program.LookAtLibcMappings(table, &*snapshot);
  watched->program.LookAtResident(table, &*snapshot);
  if (watched->spool == nullptr && !Begin(watched, *snapshot)) return;
  watched->quiet.Begin(records);
  const auto now = [&](ProfileKind kind, const CumulativeValues& told) {
    std::optional<NewProfile> made;
    if ((snapshot->profiles & KindBit(kind)) == 0) return made;
    const Profile now = BuildProfile(*snapshot, kind);
    made = {.increase = IncreaseSince(told, now), .values = CumulativeValues(now)};
    names_.Give(*snapshot, kind, &made->increase);
    return made;
  };
  if (!snapshot->resident_rows.empty()) TellResident(watched, *snapshot);
  TellKinds(watched->spool.get(), &watched->told, now, &watched->quiet);
  max_bytes_[watched->spool.get()] = options_.max_disk_bytes.value_or(snapshot->max_disk_bytes);
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

template <typename Now>
void Collector::TellKinds(Spool* spool, ToldProcess* told, Now now, QuietProcess* quiet) {
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
  }
  std::erase_if(watched_, [](const auto& one) { return one.second.ended; });
  times_.ForgetBefore(NowNs(CLOCK_REALTIME) - 60 * kSecond);
  ShrinkSpools();
}

void Collector::TellOfEarlier() {
  for (const auto& spool : all_spools_) {
    TellByTables(spool.get());
    TellByFiles(spool.get());
  }
}

// Nobody has made a file of them yet.
void Collector::TellByTables(Spool* spool) {
  const std::vector<ToldProcess> all = spool->Earlier();
  const auto is_left = [&](const ToldProcess& told) { return !told_here_.contains(told.process); };
  if (std::none_of(all.begin(), all.end(), is_left)) return;
  for (ProcessTable& process : FindTables(options_.choice.tables).tables) {
    if (process.out() != spool->out()) continue;
    for (const ToldProcess& told : all) {
      if (!is_left(told) || process.table.owner().pid != told.pid) continue;
      if (process.liveness != Liveness::kDead) {
        told_here_.insert(told.process);  // as if: it is another choice's
        continue;
      }
      const absl::StatusOr<Snapshot> snapshot = process.table.TakeSnapshot();
      if (!snapshot.ok() || ProcessId(snapshot->process) != told.process) continue;
      Watched watched(std::move(process));
      Tell(&watched);
      spool->Finish(told.process);
      break;
    }
  }
}

void Collector::TellByFiles(Spool* spool) {
  for (ToldProcess& told : spool->Earlier()) {
    if (told_here_.contains(told.process)) continue;
    std::vector<OutputFolder::Entry> files = spool->profiles().ListOf(ProgramForFileName(told.program), told.pid);
    bool any = false;
    TellKinds(spool, &told, [&](ProfileKind kind, const CumulativeValues& values) {
      std::optional<Profile> last = LastProfileOf(*spool, files, told.process, kind);
      std::optional<NewProfile> made;
      any = any || last.has_value();
      if (!last.has_value() || last->time_nanos <= values.time_nanos()) return made;
      made = {.increase = IncreaseSince(values, *last), .values = CumulativeValues(*last)};
      return made;
    });
    if (!any) continue;
    told_here_.insert(told.process);
    spool->Finish(told.process);
  }
}

void Collector::TellUnseen(int64_t since_ns) {
  for (const auto& spool : all_spools_) {
    std::map<std::pair<std::string, uint32_t>, std::vector<OutputFolder::Entry>> files;
    for (OutputFolder::Entry& file : spool->profiles().List()) {
      if (file.regular && file.own && file.modified_ns >= since_ns) {
        files[{file.name.program, file.name.pid}].push_back(std::move(file));
      }
    }
    for (const auto& entry : files) {
      const std::vector<OutputFolder::Entry>& of_pid = entry.second;
      for (const OutputFolder::Entry& file : of_pid) {  // the first one of each process
        ToldProcess told;
        const absl::StatusOr<Profile> any = ReadPprofFile(spool->profiles().PathOf(file.name));
        if (any.ok()) BeginByFile(*any, &told);
        if (told.process.empty()) continue;
        TellKinds(spool.get(), &told, [&](ProfileKind kind, const CumulativeValues& values) {
          std::optional<NewProfile> made;
          const std::optional<Profile> last = LastProfileOf(*spool, of_pid, told.process, kind);
          if (last.has_value()) made = {.increase = IncreaseSince(values, *last), .values = CumulativeValues(*last)};
          return made;
        });
        spool->Finish(told.process);
      }
    }
  }
}

// Leaves `told` empty where it is known from its table, or the file is of no single process.
void Collector::BeginByFile(const Profile& profile, ToldProcess* told) {
  const std::string process(profile.CommentValue("process"));
  uint32_t pid = 0;
  if (process.empty() || told_here_.contains(process) || profile.mappings.empty() ||
      !absl::SimpleAtoi(std::string(profile.CommentValue("pid")), &pid)) {
    return;
  }
  told_here_.insert(process);
  told->process = process;
  told->program = std::string(profile.CommentValue("program"));
  told->pid = pid;
  told->labels = LabelsOfEnded(told->program, process.substr(0, process.find('/')), pid,
                               profile.strings[profile.mappings[0].build_id], options_.labels);
}

}  // namespace holdfast
