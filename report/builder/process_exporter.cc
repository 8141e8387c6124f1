#include "report/builder/process_exporter.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "report/base/time_budget.h"
#include "report/builder/lock_names.h"
#include "report/builder/profile_builder.h"
#include "report/builder/unseen_allocator.h"
#include "report/builder/wall_locks.h"
#include "report/builder/written_files.h"
#include "report/names/symbolize/earlier_names.h"
#include "report/names/symbolize/profile_symbolizer.h"
#include "report/observe/memory/account_records.h"
#include "report/observe/table/entry_text.h"
#include "report/profile/pprof.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// Accounts of memory take at most 1/kShareOfAccounts of a core, because the kernel walks the page tables.
constexpr int64_t kShareOfAccounts = 100;
// An account locks the process's memory map, about 15 ms for each GiB, which blocks its mmap and munmap. So larger
// processes are examined only on request (holdfast memory PID).
constexpr uint64_t kMaxAccounted = 1 << 30;

constexpr char kNamesLeftOut[] = "names left out: ";

// Returns whether any heap block or mapping was freed between two snapshots. Both sums only grow.
bool FreesAnything(const TableSnapshot& before, const TableSnapshot& after) {
  const auto freed = [](const TableSnapshot& snapshot) {
    double objects = 0;
    for (const RowInfo& row : snapshot.rows) {
      if (row.profile == ProfileKind::kHeap || row.profile == ProfileKind::kMap) objects += row.sums[kFreeObjects];
    }
    return objects;
  };
  return freed(before) < freed(after);
}

// Whether resident memory has changed since the last file although no block has, as when a program touches its memory:
// by at least a sixteenth and 4 MiB. 0: not known.
bool HasMoved(uint64_t before, uint64_t now) {
  constexpr uint64_t kLeast = 4 << 20, kShare = 16;
  if (before == 0 || now == 0) return false;
  return std::max(before, now) - std::min(before, now) >= std::max(kLeast, before / kShare);
}

}  // namespace

bool ProcessExporter::WasWrittenBefore(const Kind& kind, const Profile& profile) {
  return !kind.files.empty() && kind.files.back().totals == TotalsOf(profile);
}

// An earlier exporter may have been killed or have ended while this process continued: its files count for `keep`. A
// file is removed only if its records name this process.
void ProcessExporter::AdoptEarlierFiles(const OutputFolder& output, const TableSnapshot& snapshot) {
  adopted_ = true;
  const std::string program = ProgramForFileName(snapshot.process.program);
  const std::string process = ProcessId(snapshot.process);
  std::vector<ProfileName> names;
  for (const OutputFolder::Entry& entry : output.ListOf(program, snapshot.process.pid)) {
    if (entry.regular && entry.own && entry.modified_ns >= snapshot.process.start_wall_ns) names.push_back(entry.name);
  }
  const std::vector<std::optional<WrittenFile>> files = ReadWrittenFiles(output, names);
  for (size_t i = 0; i < names.size(); ++i) {
    const std::optional<int> kind = FileKindNamed(names[i].kind);
    if (!kind.has_value() || !files[i].has_value() || files[i]->process != process) continue;
    std::vector<Written>& known = kinds_[*kind].files;  // includes files that a child built
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

void ProcessExporter::KeepPeak(ProcessState* state) {
  if (!state->table->peak) return;
  const uint64_t still_in_use = peak_.Consider(*state->table);
  const PeakState& peak = peak_.state();
  const bool heap_shows_it = state->table->elapsed_ns < kShortLife && still_in_use >= peak.bytes - peak.bytes / 50;
  state->peak = heap_shows_it ? nullptr : &peak;
  if (state->highest_bytes >= peak.estimated_bytes()) return;
  state->highest_bytes = peak.estimated_bytes();
  state->highest_wall_ns = peak.wall_ns;
}

// With enough files, these are the course.
bool ProcessExporter::NeedsCourse() const {
  constexpr size_t kEnoughFiles = 4;
  return kinds_[kHeapFile].files.size() < kEnoughFiles;
}

// Stops here rather than in Write, which runs in a child for some programs.
void ProcessExporter::LookAtCourse() {
  if (NeedsCourse()) {
    course_.Look(table_);
  } else {
    course_.Stop();
  }
}

// The memory of another user's program is not read with our rights.
void ProcessExporter::LookAtThreads() {
  if (is_child_) return;  // what a child sees would be lost
  if (const int64_t now_ns = NowNs(); now_ns >= next_wall_wish_ns_) {
    next_wall_wish_ns_ = now_ns + kSecond;
    const bool is_wanted = table_.WantsWall();
    if (thread_looks_ != nullptr) is_wanted ? thread_looks_->Resume() : thread_looks_->Pause(table_);
    const std::optional<TableFile::Rights> rights = is_wanted ? table_.ReadWith() : std::nullopt;
    auto user = rights.has_value() ? std::optional(rights->user) : std::nullopt;
    // Its table is read as nobody after a chroot, but it may still be root.
    if (user == kNobody) user = UserOfProcess(table_.owner()).value_or(kNobody);
    const std::optional<pid_t> pid = is_wanted && thread_looks_ == nullptr ? FindProcess(table_.owner()) : std::nullopt;
    if (pid.has_value()) {
      thread_looks_ =
          std::make_unique<ThreadLooks>(LookedAtProcess::Of(*pid, !table_.owner().IsOfOurNamespace(), user));
    } else if (thread_looks_ != nullptr && user.has_value()) {
      thread_looks_->ReadNoMoreMemory(*user);
    }
  }
  if (thread_looks_ != nullptr) thread_looks_->Look(table_);
}

int64_t ProcessExporter::next_thread_look_ns() const {
  return thread_looks_ != nullptr ? thread_looks_->next_ns() : INT64_MAX;
}

void ProcessExporter::AddAccount(ProcessState* state, Profile* profile) {
  const int64_t start = NowNs(), used = NowNs(CLOCK_THREAD_CPUTIME_ID);
  if (start < next_account_ns_ || state->table->elapsed_ns < kShortLife) return;
  if (state->resident_bytes > kMaxAccounted) {
    profile->AddComment("memory left out: it is too large to be looked at each time; holdfast memory PID does");
    return;
  }
  observer_.Observe(table_, {.account = true}, state);
  next_account_ns_ = start + kShareOfAccounts * (NowNs(CLOCK_THREAD_CPUTIME_ID) - used);
  if (!state->account.ok() || state->account->total == 0) return;
  profile->mutable_records()->account = RecordOf(*state->account);
}

void ProcessExporter::Thin(const OutputFolder& output, uint32_t keep, int index) {
  Kind* const kind = &kinds_[index];
  if (kFileKinds[index].keeps_newest) {
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
  return ExportWith(table_.ReadWith(), output, symbolizer, lines_by, occasion);
}

absl::StatusOr<std::vector<ProfileName>> ProcessExporter::ExportWith(const std::optional<TableFile::Rights>& rights,
                                                                     const OutputFolder& output,
                                                                     ModuleSymbolizer& symbolizer,
                                                                     const Deadline& lines_by,
                                                                     const SnapshotOccasion& occasion) {
  return rights.has_value() || occasion.begin_child != nullptr
             ? ExportInChild(rights, output, symbolizer, lines_by, occasion)
             : ExportHere(output, symbolizer, lines_by, occasion);
}

absl::StatusOr<std::vector<ProfileName>> ProcessExporter::ExportHere(const OutputFolder& output,
                                                                     ModuleSymbolizer& symbolizer,
                                                                     const Deadline& lines_by,
                                                                     const SnapshotOccasion& occasion) {
  absl::StatusOr<TableSnapshot> newest = table_.TakeSnapshot();
  if (!newest.ok()) return newest.status();
  std::vector<ProfileName> written;
  if (before_exit_.has_value() && FreesAnything(*before_exit_, *newest)) {
    absl::StatusOr<std::vector<ProfileName>> earlier =
        Write(*std::exchange(before_exit_, std::nullopt), output, symbolizer, lines_by, occasion);
    if (!earlier.ok()) return earlier.status();
    written = *std::move(earlier);
  }
  absl::StatusOr<std::vector<ProfileName>> last = Write(*std::move(newest), output, symbolizer, lines_by, occasion);
  if (!last.ok()) return last.status();
  written.insert(written.end(), last->begin(), last->end());
  return written;
}

void ProcessExporter::CopyBeforeExit() {
  // The table of another user's program is read by a child, which takes too long here.
  absl::StatusOr<TableSnapshot> copy = table_.ReadWith().has_value() ? absl::CancelledError() : table_.TakeSnapshot();
  // With other threads it asks for the last profile a moment later, and waits for that one.
  if (const auto words = table_.ReadWords(); words.ok() && words->exit_request != 0) return;
  if (!table_.AnswerExitMoment() || !copy.ok()) return;
  before_exit_ = *std::move(copy);
}

absl::StatusOr<std::vector<ProfileName>> ProcessExporter::Write(TableSnapshot taken, const OutputFolder& output,
                                                                ModuleSymbolizer& symbolizer, const Deadline& lines_by,
                                                                const SnapshotOccasion& occasion) {
  LookAtModules();
  const HeldFiles held(&symbolizer, &modules_.files());
  const bool all = !occasion.lean;
  ProcessState state = observer_.Observe(table_, std::move(taken),
                                         {.waits = all,
                                          .threads = ThreadsWanted::kYes,
                                          .has_looks = thread_looks_ != nullptr,
                                          .mappings = all,
                                          .residency = all});
  const TableSnapshot& snapshot = *state.table;
  const bool is_last = occasion.is_last || snapshot.exit_request != 0;
  state.reasons = occasion.reasons;
  if (before_exit_.has_value()) state.exit_moment = ExitMoment::kAsked;
  if (thread_looks_ != nullptr && all) {
    if (!is_child_) thread_looks_->ClosePeriod(table_);
    state.thread_times = thread_looks_->Times(state.table->rows, &state.waits);
  }
  KeepPeak(&state);
  if (NeedsCourse()) state.course = course_.moments();
  if (label_blocks_ && all) label_blocks_(&state);
  if (all) FindLockClasses(&modules_.files(), &state);
  keep_ = snapshot.keep;
  tables_max_disk_bytes_ = snapshot.max_disk_bytes;
  std::vector<ProfileName> written;
  ProfileName name;
  name.program = ProgramForFileName(snapshot.process.program);
  name.pid = snapshot.process.pid;
  for (int i = 0; i < kFileKindCount; ++i) {
    const FileKind& kind = kFileKinds[i];
    Kind& known = kinds_[i];
    if ((snapshot.profiles & kind.needs) == 0) continue;
    LookAtThreads();  // names take long, and threads may end meanwhile
    const uint64_t fingerprint = kind.fingerprint(state);
    const bool moved = kind.has_account && !known.files.empty() && HasMoved(known.resident, state.resident_bytes);
    if (fingerprint == known.fingerprint && !moved && !(is_last && known.unchanged > 0)) {
      if (occasion.is_regular && kind.shows_growth && !known.files.empty()) ++known.unchanged;
      continue;
    }
    if (!kind.is_wanted(state) || (occasion.lean && !kind.is_lean)) continue;
    Profile profile = kind.build(state);
    if (profile.samples.empty()) continue;
    if (!occasion.lean) AddUnseenAllocator(modules_.files(), WasSearched(snapshot), &profile);
    if (!adopted_) AdoptEarlierFiles(output, snapshot);
    const bool is_labelled = i == static_cast<int>(ProfileKind::kHeap) && !state.labelled_blocks.empty();
    if (kind.keeps_newest ? WasHigherBefore(known, profile)
                          : known.unchanged == 0 && !is_labelled && WasWrittenBefore(known, profile)) {
      known.fingerprint = fingerprint;
      known.resident = state.resident_bytes;
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
      LookAtThreads();
      is_complete = report.in_time;
      if (!report.no_names.empty() && output.has_files()) TakeEarlierNames(output, known, &profile);
    }
    if (IsLockKind(kind.rows)) WriteLockNames(state, &profile, &modules_.files());
    if (kind.has_account && !occasion.lean) AddAccount(&state, &profile);
    if (known.unchanged > 0) profile.AddComment(absl::StrCat("unchanged snapshots: ", known.unchanged));
    profile.mutable_process()->unchanged_snapshots = known.unchanged;
    if (failed_writes_ > 0) profile.AddComment(absl::StrCat("failed writes: ", failed_writes_));
    if (removed_snapshots_ > 0) profile.AddComment(absl::StrCat("removed snapshots: ", removed_snapshots_));
    if (put_off_ > 0) profile.AddComment(absl::StrCat("snapshots put off: ", put_off_, " (little memory was left)"));
    if (name.seq == 0) name.seq = output.NextSeq(name.program, name.pid);
    name.kind = kind.name;
    absl::StatusOr<ProfileName> got = output.Write(name, [&](int fd) { return WritePprof(profile, fd); });
    if (!got.ok()) {
      ++failed_writes_;
      return got.status();
    }
    name.seq = got->seq;
    if (!occasion.lean) known.fingerprint = fingerprint;
    known.resident = state.resident_bytes;
    known.unchanged = 0;
    known.files.push_back({*got, snapshot.wall_ns, {}, geteuid(), !is_complete});
    written.push_back(*std::move(got));
    Thin(output, snapshot.keep, i);
  }
  if (!written.empty()) Shrink(output, geteuid());
  if (!occasion.lean) modules_.LetGoOfUnloaded(state.waits.modules);
  // An ongoing wait continues until its process has ended.
  if (snapshot.exit_request != 0 && state.waits.ongoing.empty()) exported_records_ = snapshot.records_hash;
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
    NameLocksOfWall(&*profile);
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
  absl::StatusOr<ProcessState> state = observer_.Observe(table_, {.waits = true});
  if (!state.ok()) return state.status();
  const TableSnapshot& snapshot = *state->table;
  LookAtModules();
  const HeldFiles held(&symbolizer, &modules_.files());
  KeepPeak(&*state);
  const Deadline lines_by = Deadline::In(kLinesTime);
  const std::string program = ProgramForFileName(snapshot.process.program);
  if (const PeakState& peak = peak_.state(); snapshot.peak && peak.bytes != 0) {
    state->peak = &peak;
    const auto build = [&] {
      Profile profile = BuildPeakProfile(*state);
      Symbolize(&profile, symbolizer, {.deadline = lines_by, .perf_map = true});
      return profile;
    };
    absl::Status added = shared->AddPeak(output, program, state->highest_bytes, peak.estimated_bytes(), build);
    if (!added.ok()) return added;
  }
  for (const FileKind& kind : kFileKinds) {
    if (!kind.is_shared || (snapshot.profiles & kind.needs) == 0 || !kind.is_wanted(*state)) continue;
    Profile profile = kind.build(*state);
    if (profile.samples.empty()) continue;
    Symbolize(&profile, symbolizer, {.deadline = lines_by, .perf_map = true});
    const absl::Status added = shared->Add(output, program, kind.name, profile);
    if (!added.ok()) return added;
  }
  return absl::OkStatus();
}

}  // namespace holdfast
