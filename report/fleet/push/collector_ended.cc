// The part of Collector for processes that were never found running. Some were reported in part by an earlier pusher;
// others were short-lived.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "report/base/time_budget.h"
#include "report/builder/profile_builder.h"
#include "report/builder/written_files.h"
#include "report/fleet/push/collector.h"
#include "report/observe/table/noted_folders.h"
#include "report/observe/table/process_info.h"
#include "report/profile/pprof.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// Undoes the addition of frames from names: stacks are identified by the addresses in the program.
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

// Reads the last profile from the files of the process. The files state their process, because a program that executes
// itself uses the same file names.
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
    if (!profile.ok() || profile->process().id != process) continue;
    DropTailCalls(&*profile);
    return *std::move(profile);
  }
  return std::nullopt;
}

// Servers reject profiles older than an hour; allow a minute for clocks that differ.
constexpr int64_t kOldestFile = int64_t{59} * 60 * kSecond;
// A process that was found running wrote its files after that. An older image of it wrote its files before, or soon
// after.
constexpr int64_t kExecRest = 10 * kSecond;

bool IsOfKind(const OutputFolder::Entry& file) {
  return std::find(std::begin(kProfileKindNames), std::end(kProfileKindNames), file.name.kind) !=
         std::end(kProfileKindNames);
}

// Returns whether a process that left files has ended, with all of them written.
Liveness LivenessOfWriter(const std::string& process, const std::vector<ProcessTable>& tables) {
  std::optional<TableOwner> owner = OwnerOnAnyHost(process);  // each container is a host
  if (!owner.has_value()) return Liveness::kUnknown;
  owner->table_name = "none";  // no process has that mapped
  bool executed_another = false;
  for (const ProcessTable& table : tables) {
    if (!table.table.owner().SameProcess(*owner)) continue;
    const absl::StatusOr<TableSnapshot> snapshot = table.table.TakeSnapshot();
    // Its table will report it, or its exporter has not written the last file yet.
    if (!snapshot.ok() || ProcessId(snapshot->process) == process) return Liveness::kAlive;
    executed_another = true;
  }
  if (executed_another) return Liveness::kDead;
  // A pid on another host may belong to a different process here, and a container is a host of its own.
  return OwnerOnThisHost(process).has_value() ? LivenessOf(*owner) : Liveness::kUnknown;
}

// "/proc/4242/root/dev/shm" → "/proc/4242/root"; else "".
std::string RootOfFolder(const std::string& folder) {
  const std::string root = "/root";
  const size_t at = folder.starts_with("/proc/") ? folder.find(root + "/") : std::string::npos;
  return at == std::string::npos ? "" : folder.substr(0, at + root.size());
}

// Returns when a file was last created in the folder; 0: no such folder.
int64_t ChangedNs(const std::string& folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return 0;
  return info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec;
}

bool HasProfilesSince(const std::string& folder, int64_t since_ns) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  while (const dirent* entry = listing != nullptr ? readdir(listing.get()) : nullptr) {
    struct stat info;
    if (ParseProfileName(entry->d_name).has_value() &&
        fstatat(dirfd(listing.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        info.st_mtim.tv_sec * kSecond >= since_ns) {
      return true;
    }
  }
  return false;
}

}  // namespace

class Collector::Tables {
 public:
  explicit Tables(const ProcessChoice& choice) : choice_(choice) {}

  std::vector<ProcessTable>& All() {
    if (found_ns_ == 0) FindAgain();
    return tables_;
  }
  void FindAgain() {
    found_ns_ = NowNs(CLOCK_REALTIME);
    tables_ = FindTables(choice_.tables).tables;
  }
  // Whether a file is older than the list, so that its process is in the list or has written its last file.
  bool IsNewerThan(const OutputFolder::Entry& file) const {
    constexpr int64_t kTick = 20 * kMs;  // file times come from a clock that ticks
    return file.modified_ns < found_ns_ - kTick;
  }

 private:
  const ProcessChoice& choice_;
  std::vector<ProcessTable> tables_;
  int64_t found_ns_ = 0;
};

void Collector::ReportLast(ProcessTable process, TableSnapshot snapshot) {
  Watched watched(std::move(process));
  if (ReportNow(&watched, watched.table.table.RecordsHash(), std::move(snapshot))) {
    if (watched.spool != nullptr) watched.spool->Finish(watched.reported);
    return;
  }
  // If the disk is full, try again at the next interval; the table stays open until then. If the
  // folder can never be used, no more than this many stay open.
  constexpr size_t kMaxEndedKept = 64;
  if (watched_.size() - processes() >= kMaxEndedKept) return;
  watched.ended = true;
  std::string key = watched.table.table.key();
  watched_.insert_or_assign(std::move(key), std::move(watched));
}

void Collector::ReportEndedUnseen(std::vector<ProcessTable> ended) {
  for (ProcessTable& process : ended) {
    std::string key = process.table.key();
    if (watched_.contains(key) || !ended_.insert(std::move(key)).second || !has_looked_) continue;
    // Older processes, including those of the first look, are reported by ReportEarlier if a push has begun with them.
    absl::StatusOr<TableSnapshot> snapshot = process.table.TakeSnapshot();
    if (!snapshot.ok() || reported_here_.contains(ProcessId(snapshot->process))) continue;
    Watched watched(std::move(process));
    watched.ended = true;
    if (!BeganLongAgo(watched, *snapshot)) ReportLast(std::move(watched.table), *std::move(snapshot));
  }
  has_looked_ = true;
}

void Collector::ReportEarlier() {
  Tables tables(options_.choice);
  for (const auto& spool : all_spools_) {
    ReportByTables(spool.get(), &tables);
    ReportByFiles(spool.get(), &tables);
  }
}

// Nobody has made a file of them yet.
void Collector::ReportByTables(Spool* spool, Tables* tables) {
  const std::vector<ReportedProcess> all = spool->Earlier();
  const auto is_left = [&](const ReportedProcess& reported) { return !reported_here_.contains(reported.process); };
  if (std::none_of(all.begin(), all.end(), is_left)) return;
  const auto is_reported = [&](ProcessTable& process) {
    if (process.out() != spool->out()) return false;
    for (const ReportedProcess& reported : all) {
      if (!is_left(reported) || process.table.owner().pid != reported.pid) continue;
      if (process.liveness != Liveness::kDead) {
        reported_here_.insert(reported.process);  // not really reported: another choice covers it
        continue;
      }
      absl::StatusOr<TableSnapshot> snapshot = process.table.TakeSnapshot();
      if (!snapshot.ok() || ProcessId(snapshot->process) != reported.process) continue;
      ReportLast(std::move(process), *std::move(snapshot));
      return true;
    }
    return false;
  };
  std::vector<ProcessTable>& found = tables->All();
  for (auto process = found.begin(); process != found.end();)
    process = is_reported(*process) ? found.erase(process) : process + 1;
}

void Collector::ReportByFiles(Spool* spool, Tables* tables) {
  for (const ReportedProcess& reported : spool->Earlier()) {
    if (reported_here_.contains(reported.process)) continue;
    const Liveness liveness = LivenessOfWriter(reported.process, tables->All());
    const std::vector<OutputFolder::Entry> files =
        spool->profiles().ListOf(ProgramForFileName(reported.program), reported.pid);
    if (!files.empty() && liveness != Liveness::kAlive)
      ReportByFile(spool, reported.process, files, liveness == Liveness::kDead);
  }
}

void Collector::ReportUnseen(const std::set<std::string>& tables) {
  if (options_.choice.pids.empty() && options_.choice.outs.empty()) OpenNoted(tables);
  const std::vector<std::shared_ptr<Spool>> all = all_spools_;
  Tables found(options_.choice);
  for (const auto& spool : all) {
    const std::vector<std::string>& outs = options_.choice.outs;
    const bool is_named = std::find(outs.begin(), outs.end(), spool->out()) != outs.end();
    if (is_named || (outs.empty() && options_.choice.pids.empty())) ReportByFolder(spool.get(), &found);
  }
  CloseIdle();
}

// Opens only folders with new files: an open folder uses descriptors, and most folders have nothing to report.
void Collector::OpenNoted(const std::set<std::string>& tables) {
  const int64_t now_ns = NowNs(CLOCK_REALTIME);
  for (const std::string& folder : tables) {
    const std::string root = RootOfFolder(folder);
    for (const NotedFolder& noted : NotedFoldersIn(folder)) {
      const std::string out = root + noted.path;
      if (spools_.contains(out) || FolderIdOf(out) != noted.id) continue;
      const int64_t changed_ns = ChangedNs(out);
      int64_t& looked_ns = noted_looked_[out];
      // Changes within one tick of the clock may have the same time.
      if (changed_ns == looked_ns && now_ns - changed_ns > kSecond) continue;
      looked_ns = changed_ns;
      if (HasProfilesSince(out, now_ns - kOldestFile)) SpoolOf(out);
    }
  }
}

void Collector::CloseIdle() {
  std::set<const Spool*> used;
  for (const auto& [key, watched] : watched_) used.insert(watched.spool.get());
  const auto is_idle = [&](const std::shared_ptr<Spool>& spool) {
    return noted_looked_.contains(spool->out()) && !used.contains(spool.get()) && spool->waiting() == 0 &&
           NowNs(CLOCK_REALTIME) - ChangedNs(spool->out()) > kExecRest;
  };
  std::erase_if(all_spools_, [&](const std::shared_ptr<Spool>& spool) {
    if (!is_idle(spool)) return false;
    max_bytes_.erase(spool.get());
    process_of_.erase(spool->out());
    spools_.erase(spool->out());
    return true;
  });
}

std::map<std::string, std::vector<OutputFolder::Entry>> Collector::UnseenIn(Spool* spool) {
  std::map<std::pair<std::string, uint32_t>, int64_t> running;  // the time at which each was found
  for (const auto& [key, watched] : watched_) {
    const TableFile& table = watched.table.table;
    if (watched.table.out() != spool->out()) continue;
    running[{ProgramForFileName(table.program()), table.owner().pid}] = watched.found_ns;
  }
  const int64_t since_ns = std::max(NowNs(CLOCK_REALTIME) - kOldestFile, spool->done_since_ns());
  std::map<std::string, std::string>& process_of = process_of_[spool->out()];
  std::vector<OutputFolder::Entry> files;
  std::vector<ProfileName> unread;
  for (OutputFolder::Entry& file : spool->profiles().List()) {
    if (!file.regular || !file.own || !IsOfKind(file) || file.modified_ns < since_ns) continue;
    if (!process_of.contains(file.name.ToString())) {
      const auto its = running.find({file.name.program, file.name.pid});
      if (its != running.end() && file.modified_ns > its->second + kExecRest) continue;
      unread.push_back(file.name);
    }
    files.push_back(std::move(file));
  }
  const std::vector<std::optional<WrittenFile>> read =
      unread.empty() ? std::vector<std::optional<WrittenFile>>() : ReadWrittenFiles(spool->profiles(), unread);
  for (size_t i = 0; i < read.size(); ++i) {
    const bool is_of_one = read[i].has_value() && read[i]->by_holdfast && !read[i]->is_sum;
    process_of[unread[i].ToString()] = is_of_one ? read[i]->process : "";
  }
  std::map<std::string, std::string> there;
  std::map<std::string, std::vector<OutputFolder::Entry>> unseen;
  for (OutputFolder::Entry& file : files) {
    const std::string name = file.name.ToString(), process = process_of[name];
    there[name] = process;
    if (!process.empty() && !reported_here_.contains(process) && !spool->IsDone(process)) {
      unseen[process].push_back(std::move(file));
    }
  }
  process_of = std::move(there);
  return unseen;
}

void Collector::ReportByFolder(Spool* spool, Tables* tables) {
  std::map<std::string, std::vector<OutputFolder::Entry>> unseen = UnseenIn(spool);
  if (unseen.empty()) return;
  // The tables first: of a process without one all files are there by then.
  const auto is_older = [&](const OutputFolder::Entry& file) { return tables->IsNewerThan(file); };
  if (!std::all_of(unseen.begin(), unseen.end(),
                   [&](const auto& one) { return std::all_of(one.second.begin(), one.second.end(), is_older); })) {
    tables->FindAgain();
    unseen = UnseenIn(spool);
  }
  // If more files come, the reported sums are read again.
  std::erase_if(by_files_,
                [&](const auto& one) { return one.second.out == spool->out() && !unseen.contains(one.first); });
  for (const auto& [process, files] : unseen) {
    const Liveness liveness = LivenessOfWriter(process, tables->All());
    if (liveness != Liveness::kAlive) ReportByFile(spool, process, files, liveness == Liveness::kDead);
  }
}

// An invisible process that may still run may write more files, so its values are kept.
void Collector::ReportByFile(Spool* spool, const std::string& process, const std::vector<OutputFolder::Entry>& files,
                             bool has_ended) {
  ByFiles& by_files = by_files_[process];
  by_files.out = spool->out();
  int64_t newest_ns = 0;
  for (const OutputFolder::Entry& file : files) newest_ns = std::max(newest_ns, file.modified_ns);
  if (newest_ns == by_files.newest_ns && !has_ended) return;
  ReportedProcess& reported = by_files.reported;
  if (reported.process.empty()) {
    if (std::optional<ReportedProcess> earlier = spool->ReportedOf(process)) reported = *std::move(earlier);
  }
  std::array<std::optional<Profile>, kProfileKinds> last;
  bool any = false;
  for (int i = 0; i < kProfileKinds; ++i) {
    last[i] = LastProfileOf(*spool, files, process, static_cast<ProfileKind>(i));
    if (!last[i].has_value()) continue;
    any = any || !reported.process.empty() || BeginByFile(*last[i], &reported);
  }
  const bool is_reported = any && ReportKinds(spool, &reported, [&](ProfileKind kind, const CumulativeValues& values) {
                             std::optional<NewProfile> made;
                             const std::optional<Profile>& profile = last[static_cast<size_t>(kind)];
                             if (!profile.has_value()) return made;
                             made = {.increase = IncreaseSince(values, *profile), .values = values};
                             // A file that is older than the last report has nothing new. Time alone does not prove it: the
                             // clock may have been set back.
                             if (profile->time_nanos <= values.time_nanos() && !CountsSomething(made->increase))
                               return std::optional<NewProfile>();
                             made->values.RaiseTo(CumulativeValues(*profile));
                             return made;
                           });
  if (is_reported) by_files.newest_ns = newest_ns;
  if (!has_ended || !is_reported) return;
  reported_here_.insert(process);
  spool->Finish(reported);
  by_files_.erase(process);
}

// Returns false if the file does not belong to a single process.
bool Collector::BeginByFile(const Profile& profile, ReportedProcess* reported) {
  const std::string& process = profile.process().id;
  const uint32_t pid = profile.process().pid;
  if (process.empty() || profile.mappings.empty() || pid == 0) return false;
  reported->process = process;
  reported->program = profile.process().program;
  reported->pid = pid;
  reported->labels = LabelsOfEnded(reported->program, process.substr(0, process.find('/')), pid,
                                   profile.strings[profile.mappings[0].build_id], options_.labels);
  return true;
}

}  // namespace holdfast
