#include "report/builder/process_exporter.h"

#include <unistd.h>

#include <algorithm>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "report/base/time_budget.h"
#include "report/builder/lock_names.h"
#include "report/builder/unseen_allocator.h"
#include "report/builder/written_files.h"
#include "report/names/symbolize/earlier_names.h"
#include "report/names/symbolize/profile_symbolizer.h"
#include "report/observe/memory/account_records.h"
#include "report/observe/outside/look_at_waits.h"
#include "report/observe/table/process_info.h"
#include "report/profile/lock_record_limits.h"
#include "report/profile/pprof.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// Identifies the state of this kind: every counter only grows, so a change changes the hash.
uint64_t Fingerprint(const Snapshot& snapshot, ProfileKind kind) {
  uint64_t hash = 0;
  for (const RowInfo& row : snapshot.rows) {
    if ((row.profile == kind || (kind == ProfileKind::kMap && row.has_thread_stacks())) && row.sums[0] != 0) {
      hash = absl::HashOf(hash, row.stack, row.class_bytes, row.mark, row.number, row.sums[0], row.sums[1], row.sums[2],
                          row.sums[3]);
    }
  }
  if (kind == ProfileKind::kThreads || kind == ProfileKind::kMap) {
    for (const LiveThreadInfo& thread : snapshot.live_threads) hash = absl::HashOf(hash, thread.id, thread.gone);
  }
  if (kind != ProfileKind::kBlock) return hash;
  for (const OngoingWaitInfo& wait : snapshot.ongoing) {
    // Idle threads sleep unchanged; a thread that still waits for a lock has waited longer.
    const bool is_idle = HasNoHolder(wait.kind) || wait.kind == WaitKind::kFutex;
    hash = absl::HashOf(hash, wait.place, wait.owner, is_idle ? 0 : snapshot.monotonic_ns);
  }
  return hash;
}

// For a process that ends this soon, with nearly everything in use that it had at its peak, the heap profile is enough:
// a build has thousands of them.
constexpr int64_t kShortLife = kSecond;
// Accounts of memory take at most 1/kShareOfAccounts of a core, because the kernel walks the page tables.
constexpr int64_t kShareOfAccounts = 100;
// An account locks the process's memory map, about 15 ms for each GiB, which blocks its mmap and munmap. So larger
// processes are examined only on request (holdfast memory PID).
constexpr uint64_t kMaxAccounted = 1 << 30;

constexpr char kNamesLeftOut[] = "names left out: ";

// Identifies the freed blocks and the bytes in use: ages alone are no change.
uint64_t FingerprintOfAges(const Snapshot& snapshot) {
  uint64_t hash = 0;
  for (const AgesInfo& info : snapshot.ages) hash = absl::HashOf(hash, info.stack, info.bucket, info.objects);
  if (snapshot.ages_are_drawn) {
    for (const RowInfo& row : snapshot.rows) {
      if (row.profile == ProfileKind::kHeap && row.sums[kFreeObjects] > 0)
        hash = absl::HashOf(hash, row.stack, row.class_bytes, row.sums[kFreeObjects]);
    }
  }
  double alive = 0;
  for (const RowInfo& row : snapshot.rows) {
    if (row.profile == ProfileKind::kHeap) alive += std::max(0.0, row.sums[kAllocSpace] - row.sums[kFreeSpace]);
  }
  return hash == 0 && alive == 0 ? 0 : absl::HashOf(hash, alive);
}

// Makes a symbolizer use the files of one process, during this object's lifetime.
class HeldFiles {
 public:
  HeldFiles(ModuleSymbolizer* symbolizer, const LoadedFiles* files) : symbolizer_(*symbolizer) {
    symbolizer_.UseFilesOf(files);
  }
  HeldFiles(const HeldFiles&) = delete;
  HeldFiles& operator=(const HeldFiles&) = delete;
  ~HeldFiles() { symbolizer_.UseFilesOf(nullptr); }

 private:
  ModuleSymbolizer& symbolizer_;
};

// Rows may be in any order.
uint64_t FingerprintOfResident(const Snapshot& snapshot) {
  uint64_t hash = 0;
  for (const ResidentRow& row : snapshot.resident_rows)
    hash += absl::HashOf(row.row, row.objects, row.bytes, row.resident, row.swapped);
  return hash;
}

// Returns whether any heap block or mapping was freed between two snapshots. Both sums only grow.
bool FreesAnything(const Snapshot& before, const Snapshot& after) {
  const auto freed = [](const Snapshot& snapshot) {
    double objects = 0;
    for (const RowInfo& row : snapshot.rows) {
      if (row.profile == ProfileKind::kHeap || row.profile == ProfileKind::kMap) objects += row.sums[kFreeObjects];
    }
    return objects;
  };
  return freed(before) < freed(after);
}

bool WantsLifetimes(const Snapshot& snapshot) {
  return snapshot.lifetimes == Lifetimes::kYes ||
         (snapshot.lifetimes == Lifetimes::kUnlessShort && snapshot.elapsed_ns >= kShortLife);
}

// What is written of one kind of file, and when.
struct FileKind {
  uint32_t needs;             // one of these kinds must be recorded
  bool shows_growth = false;  // two equal files far apart are evidence that nothing grew
  bool keeps_newest = false;  // a new file replaces the previous one
  bool is_shared = true;      // also written for short processes that share a file
  bool (*is_wanted)(const Snapshot&) = [](const Snapshot&) { return true; };
  // Equal if nothing changed since the last file; 0, as for a missing kind, if there was never anything.
  uint64_t (*fingerprint)(const Snapshot&, const PeakState&);
  Profile (*build)(const Snapshot&, const PeakState&);
};

// A kind of the table's rows.
template <ProfileKind kKind>
constexpr FileKind OfRows(bool shows_growth = false) {
  return {.needs = KindBit(kKind),
          .shows_growth = shows_growth,
          .fingerprint = [](const Snapshot& snapshot, const PeakState&) { return Fingerprint(snapshot, kKind); },
          .build = [](const Snapshot& snapshot, const PeakState&) { return BuildProfile(snapshot, kKind); }};
}

// The heap file contains the account, which must be as recent as the resident bytes.
constexpr FileKind OfHeap() {
  FileKind kind = OfRows<ProfileKind::kHeap>(/*shows_growth=*/true);
  kind.fingerprint = [](const Snapshot& snapshot, const PeakState&) {
    return Fingerprint(snapshot, ProfileKind::kHeap) + FingerprintOfResident(snapshot);
  };
  return kind;
}

// In the order of kFileKindNames.
constexpr FileKind kFiles[kFileKinds] = {
    OfHeap(),
    OfRows<ProfileKind::kMutex>(),
    OfRows<ProfileKind::kBlock>(),
    OfRows<ProfileKind::kMap>(/*shows_growth=*/true),
    OfRows<ProfileKind::kThreads>(),
    OfRows<ProfileKind::kExceptions>(),
    {.needs = KindBit(ProfileKind::kHeap),
     .keeps_newest = true,
     .is_shared = false,  // ProgramFiles::AddPeak
     .is_wanted = [](const Snapshot& snapshot) { return snapshot.peak; },
     .fingerprint = [](const Snapshot&, const PeakState& peak) -> uint64_t {
       return peak.bytes == 0 ? 0 : absl::HashOf(peak.bytes, peak.wall_ns);
     },
     .build = [](const Snapshot& snapshot, const PeakState& peak) { return BuildPeakProfile(snapshot, peak); }},
    {.needs = KindBit(ProfileKind::kHeap),
     .is_wanted = WantsLifetimes,
     .fingerprint = [](const Snapshot& snapshot, const PeakState&) { return FingerprintOfAges(snapshot); },
     .build = [](const Snapshot& snapshot, const PeakState&) { return BuildLifetimesProfile(snapshot); }},
    {.needs = kKindsOfResident,
     .is_shared = false,  // resident memory is not examined then
     .fingerprint = [](const Snapshot& snapshot, const PeakState&) { return FingerprintOfResident(snapshot); },
     .build = [](const Snapshot& snapshot, const PeakState&) { return BuildResidentProfile(snapshot); }}};

}  // namespace

bool ProcessExporter::WasWrittenBefore(const Kind& kind, const Profile& profile) {
  return !kind.files.empty() && kind.files.back().totals == TotalsOf(profile);
}

// An earlier exporter may have been killed or have ended while this process continued: its files count for `keep`. A
// file is removed only if its records name this process.
void ProcessExporter::AdoptEarlierFiles(const OutputFolder& output, const Snapshot& snapshot) {
  adopted_ = true;
  const std::string program = ProgramForFileName(snapshot.process.program);
  const std::string process = ProcessId(snapshot.process);
  std::vector<ProfileName> names;
  for (const OutputFolder::Entry& entry : output.ListOf(program, snapshot.process.pid)) {
    if (entry.regular && entry.own && entry.modified_ns >= snapshot.process.start_wall_ns) names.push_back(entry.name);
  }
  const std::vector<std::optional<WrittenFile>> files = ReadWrittenFiles(output, names);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto* kind = std::find(std::begin(kFileKindNames), std::end(kFileKindNames), names[i].kind);
    if (kind == std::end(kFileKindNames) || !files[i].has_value() || files[i]->process != process) continue;
    std::vector<Written>& known = kinds_[kind - kFileKindNames].files;  // includes files that a child built
    if (std::none_of(known.begin(), known.end(), [&](const Written& file) { return file.name.seq == names[i].seq; }))
      known.push_back({names[i], files[i]->time_nanos, files[i]->totals});
  }
  for (Kind& kind : kinds_) {
    std::sort(kind.files.begin(), kind.files.end(),
              [](const Written& a, const Written& b) { return a.time_ns < b.time_ns; });
  }
}

bool ProcessExporter::WasHigherBefore(const Kind& kind, const Profile& profile) {
  return !kind.files.empty() && !kind.files.back().totals.empty() &&
         kind.files.back().totals.back() >= TotalsOf(profile).back();
}

void ProcessExporter::KeepPeak(Snapshot* snapshot) {
  if (!snapshot->peak) return;
  const uint64_t still = peak_.Consider(*snapshot);
  const PeakState& state = peak_.state();
  peak_is_told_ = snapshot->elapsed_ns < kShortLife && still >= state.bytes - state.bytes / 50;
  if (snapshot->highest_bytes >= state.estimated_bytes()) return;
  snapshot->highest_bytes = state.estimated_bytes();
  snapshot->highest_wall_ns = state.wall_ns;
}

// With enough files, these are the course.
bool ProcessExporter::NeedsCourse() const {
  constexpr size_t kEnoughFiles = 4;
  return kinds_[static_cast<int>(ProfileKind::kHeap)].files.size() < kEnoughFiles;
}

// Stops here rather than in Write, which runs in a child for some programs.
void ProcessExporter::LookAtCourse() {
  if (NeedsCourse()) {
    course_.Look(table_);
  } else {
    course_.Stop();
  }
}

void ProcessExporter::AddAccount(const Snapshot& snapshot, Profile* profile) {
  const int64_t start = NowNs(), used = NowNs(CLOCK_THREAD_CPUTIME_ID);
  if (start < next_account_ns_ || snapshot.elapsed_ns < kShortLife) return;
  const std::optional<pid_t> pid = FindProcess(table_.owner());
  if (!pid.has_value()) return;
  if (snapshot.resident_bytes > kMaxAccounted) {
    profile->AddComment("memory left out: it is too large to be looked at each time; holdfast memory PID does");
    return;
  }
  const absl::StatusOr<MemoryAccount> account = ReadAccount(*pid, table_);
  next_account_ns_ = start + kShareOfAccounts * (NowNs(CLOCK_THREAD_CPUTIME_ID) - used);
  if (!account.ok() || account->total == 0) return;
  profile->mutable_records()->account = RecordOf(*account);
}

void ProcessExporter::Thin(const OutputFolder& output, uint32_t keep, int index) {
  Kind* const kind = &kinds_[index];
  if (kFiles[index].keeps_newest) {
    for (; kind->files.size() > 1; kind->files.erase(kind->files.begin())) output.Remove(kind->files.front().name);
    return;
  }
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

void ProcessExporter::Shrink(const OutputFolder& output, uid_t user) {
  const uint64_t max_bytes = max_disk_bytes_.value_or(tables_max_disk_bytes_);
  std::vector<Written> may_go;
  for (const Kind& kind : kinds_) {
    if (!kind.files.empty()) may_go.insert(may_go.end(), kind.files.begin(), kind.files.end() - 1);
  }
  std::stable_sort(may_go.begin(), may_go.end(),
                   [](const Written& a, const Written& b) { return a.time_ns < b.time_ns; });
  std::vector<ProfileName> names;
  for (const Written& file : may_go) names.push_back(file.name);
  for (const ProfileName& removed : output.Shrink(max_bytes, names)) {
    for (Kind& kind : kinds_) {
      removed_snapshots_ +=
          std::erase_if(kind.files, [&](const Written& file) { return file.name.ToString() == removed.ToString(); });
    }
  }
  if (ended_ != nullptr) removed_snapshots_ += ended_->Shrink(output, max_bytes, user);
}

void ProcessExporter::HandOver(EndedFiles* ended) const {
  std::vector<Written> all;
  for (const Kind& kind : kinds_) all.insert(all.end(), kind.files.begin(), kind.files.end());
  std::stable_sort(all.begin(), all.end(), [](const Written& a, const Written& b) { return a.time_ns < b.time_ns; });
  for (const Written& file : all) ended->Add(file.user, file.name);
}

absl::StatusOr<std::vector<ProfileName>> ProcessExporter::Export(const OutputFolder& output,
                                                                 ModuleSymbolizer& symbolizer, const Deadline& lines_by,
                                                                 const SnapshotOccasion& occasion) {
  const std::optional<TableFile::Rights> rights = table_.ReadWith();
  return rights.has_value() || occasion.begin_child != nullptr
             ? ExportInChild(rights, output, symbolizer, lines_by, occasion)
             : ExportHere(output, symbolizer, lines_by, occasion);
}

absl::StatusOr<std::vector<ProfileName>> ProcessExporter::ExportHere(const OutputFolder& output,
                                                                     ModuleSymbolizer& symbolizer,
                                                                     const Deadline& lines_by,
                                                                     const SnapshotOccasion& occasion) {
  absl::StatusOr<Snapshot> newest = table_.TakeSnapshot();
  if (!newest.ok()) return newest.status();
  std::vector<ProfileName> written;
  if (before_exit_.has_value() && FreesAnything(*before_exit_, *newest)) {
    absl::StatusOr<std::vector<ProfileName>> earlier =
        Write(*std::exchange(before_exit_, std::nullopt), output, symbolizer, lines_by, occasion);
    if (!earlier.ok()) return earlier.status();
    written = *std::move(earlier);
  } else if (before_exit_.has_value()) {
    newest->exit_moment = ExitMoment::kAsked;
  }
  absl::StatusOr<std::vector<ProfileName>> last = Write(*std::move(newest), output, symbolizer, lines_by, occasion);
  if (!last.ok()) return last.status();
  written.insert(written.end(), last->begin(), last->end());
  return written;
}

void ProcessExporter::CopyBeforeExit() {
  // The table of another user's program is read by a child, which takes too long here.
  absl::StatusOr<Snapshot> copy = table_.ReadWith().has_value() ? absl::CancelledError() : table_.TakeSnapshot();
  if (!table_.AnswerExitMoment() || !copy.ok()) return;
  before_exit_ = *std::move(copy);
}

absl::StatusOr<std::vector<ProfileName>> ProcessExporter::Write(Snapshot taken, const OutputFolder& output,
                                                                ModuleSymbolizer& symbolizer, const Deadline& lines_by,
                                                                const SnapshotOccasion& occasion) {
  Snapshot* const snapshot = &taken;
  const bool is_last = occasion.is_last || snapshot->exit_request != 0;
  LookAtModules();
  const HeldFiles held(&symbolizer, &modules_.files());
  snapshot->reasons = occasion.reasons;
  if (!occasion.lean) LookAtWaits(table_, snapshot);
  KeepPeak(snapshot);
  if (!occasion.lean) program_.LookAtLibcMappings(table_, snapshot);
  program_.Look(table_, snapshot);
  if (!occasion.lean) program_.LookAtResident(table_, snapshot);
  keep_ = snapshot->keep;
  tables_max_disk_bytes_ = snapshot->max_disk_bytes;
  std::vector<ProfileName> written;
  ProfileName name;
  name.program = ProgramForFileName(snapshot->process.program);
  name.pid = snapshot->process.pid;
  for (int i = 0; i < kFileKinds; ++i) {
    const FileKind& kind = kFiles[i];
    const bool is_heap = i == static_cast<int>(ProfileKind::kHeap);
    Kind& state = kinds_[i];
    if ((snapshot->profiles & kind.needs) == 0) continue;
    const uint64_t fingerprint = kind.fingerprint(*snapshot, peak_.state());
    if (fingerprint == state.fingerprint && !(is_last && state.unchanged > 0)) {
      if (occasion.is_regular && kind.shows_growth && !state.files.empty()) ++state.unchanged;
      continue;
    }
    if (!kind.is_wanted(*snapshot) || (i == kPeakFile && peak_is_told_) || (occasion.lean && !is_heap)) continue;
    if (is_heap && NeedsCourse()) snapshot->earlier = course_.moments();
    Profile profile = kind.build(*snapshot, peak_.state());
    if (profile.samples.empty()) continue;
    if (!occasion.lean) AddUnseenAllocator(modules_.files(), &profile);
    if (!adopted_) AdoptEarlierFiles(output, *snapshot);
    if (kind.keeps_newest ? WasHigherBefore(state, profile)
                          : state.unchanged == 0 && WasWrittenBefore(state, profile)) {
      state.fingerprint = fingerprint;
      continue;
    }
    bool is_complete = !occasion.lean;
    if (occasion.lean) {
      Symbolize(&profile, symbolizer, {.lines = false, .files = false});
      profile.AddComment(absl::StrCat(kNamesLeftOut, "little memory was left; holdfast symbolize adds them"));
      profile.mutable_records()->missing_names.push_back(
          {.what = record::NamesMissing::kAll, .why = "little memory was left; holdfast symbolize adds them"});
    } else {
      const SymbolizeReport report = Symbolize(&profile, symbolizer, {.deadline = lines_by, .perf_map = true});
      is_complete = report.in_time;
      if (!report.no_names.empty() && output.has_files()) TakeEarlierNames(output, state, &profile);
    }
    if (i < kProfileKinds && IsLockKind(static_cast<ProfileKind>(i)))
      WriteLockNames(*snapshot, &profile, &modules_.files());
    if (is_heap && !occasion.lean) AddAccount(*snapshot, &profile);
    if (state.unchanged > 0) profile.AddComment(absl::StrCat("unchanged snapshots: ", state.unchanged));
    profile.mutable_process()->unchanged_snapshots = state.unchanged;
    if (failed_writes_ > 0) profile.AddComment(absl::StrCat("failed writes: ", failed_writes_));
    if (removed_snapshots_ > 0) profile.AddComment(absl::StrCat("removed snapshots: ", removed_snapshots_));
    if (put_off_ > 0) profile.AddComment(absl::StrCat("snapshots put off: ", put_off_, " (little memory was left)"));
    if (name.seq == 0) name.seq = output.NextSeq(name.program, name.pid);
    name.kind = kFileKindNames[i];
    absl::StatusOr<ProfileName> got = output.Write(name, [&](int fd) { return WritePprof(profile, fd); });
    if (!got.ok()) {
      ++failed_writes_;
      return got.status();
    }
    name.seq = got->seq;
    if (!occasion.lean) state.fingerprint = fingerprint;
    state.unchanged = 0;
    state.files.push_back({*got, snapshot->wall_ns, {}, geteuid(), !is_complete});
    written.push_back(*std::move(got));
    Thin(output, snapshot->keep, i);
  }
  if (!written.empty()) Shrink(output, geteuid());
  if (!occasion.lean) modules_.LetGoOfUnloaded(snapshot->modules);
  // An ongoing wait continues until its process has ended.
  if (snapshot->exit_request != 0 && snapshot->ongoing.empty()) exported_records_ = snapshot->records_hash;
  return written;
}

bool ProcessExporter::HasIncompleteFiles() const {
  return std::any_of(kinds_.begin(), kinds_.end(), [](const Kind& kind) {
    return std::any_of(kind.files.begin(), kind.files.end(), [](const Written& file) { return file.is_incomplete; });
  });
}

void ProcessExporter::FilesAreCompleted() {
  for (Kind& kind : kinds_) {
    for (Written& file : kind.files) file.is_incomplete = false;
  }
}

void ProcessExporter::CompleteFiles(const OutputFolder& output, ModuleSymbolizer& symbolizer) {
  std::vector<const Written*> files;
  for (const Kind& kind : kinds_) {
    for (const Written& file : kind.files) {
      if (file.is_incomplete) files.push_back(&file);
    }
  }
  std::stable_sort(files.begin(), files.end(),
                   [](const Written* a, const Written* b) { return a->time_ns > b->time_ns; });
  const HeldFiles held(&symbolizer, &modules_.files());
  for (const Written* file : files) {
    absl::StatusOr<Profile> profile = ReadPprofFile(output.PathOf(file->name));
    if (!profile.ok()) continue;  // removed meanwhile
    std::erase_if(profile->comments,
                  [&](StringId comment) { return profile->strings[comment].starts_with(kNamesLeftOut); });
    // A deadline is needed, though a long one: without a deadline tail calls are restored from debug information,
    // unlike in other snapshots.
    Symbolize(&*profile, symbolizer, {.deadline = Deadline::In(std::chrono::hours(1)), .perf_map = true});
    // A failure leaves the file unchanged.
    (void)output.Replace(file->name, [&](int fd) { return WritePprof(*profile, fd); });
  }
}

// Takes names from the last file of this kind, written when the module's file still existed.
void ProcessExporter::TakeEarlierNames(const OutputFolder& output, const Kind& kind, Profile* profile) {
  if (kind.files.empty()) return;
  const absl::StatusOr<Profile> earlier = ReadPprofFile(output.PathOf(kind.files.back().name));
  if (earlier.ok() && earlier->process().id == profile->process().id) TakeNamesFrom(*earlier, profile);
}

bool ProcessExporter::HasNewsSinceItsEnd() const {
  return !exported_records_.has_value() || table_.RecordsHash() != exported_records_;
}

bool ProcessExporter::has_files() const {
  return std::any_of(kinds_.begin(), kinds_.end(), [](const Kind& kind) { return !kind.files.empty(); });
}

absl::Status ProcessExporter::Share(const OutputFolder& output, ModuleSymbolizer& symbolizer, ProgramFiles* shared) {
  absl::StatusOr<Snapshot> snapshot = table_.TakeSnapshot();
  if (!snapshot.ok()) return snapshot.status();
  LookAtModules();
  const HeldFiles held(&symbolizer, &modules_.files());
  LookAtWaits(table_, &*snapshot);
  KeepPeak(&*snapshot);
  const Deadline lines_by = Deadline::In(kLinesTime);
  const std::string program = ProgramForFileName(snapshot->process.program);
  if (const PeakState& state = peak_.state(); snapshot->peak && state.bytes != 0) {
    const auto build = [&] {
      Profile profile = BuildPeakProfile(*snapshot, state);
      Symbolize(&profile, symbolizer, {.deadline = lines_by, .perf_map = true});
      return profile;
    };
    absl::Status added = shared->AddPeak(output, program, snapshot->highest_bytes, state.estimated_bytes(), build);
    if (!added.ok()) return added;
  }
  for (int i = 0; i < kFileKinds; ++i) {
    const FileKind& kind = kFiles[i];
    if (!kind.is_shared || (snapshot->profiles & kind.needs) == 0 || !kind.is_wanted(*snapshot)) continue;
    Profile profile = kind.build(*snapshot, peak_.state());
    if (profile.samples.empty()) continue;
    Symbolize(&profile, symbolizer, {.deadline = lines_by, .perf_map = true});
    const absl::Status added = shared->Add(output, program, kFileKindNames[i], profile);
    if (!added.ok()) return added;
  }
  return absl::OkStatus();
}

}  // namespace holdfast
