#include "report/fleet/serve/growth_watch.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "report/analysis/profiles/function_identity.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/base/time_budget.h"
#include "report/builder/output_folder.h"
#include "report/daemon/held_in_table.h"
#include "report/page/html_leaks.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

std::string TableKeyOf(const ProcessTable& process) { return process.table.key(); }

const Suppressions& NoSuppressions() {
  static const Suppressions none;
  return none;
}

ProcessSeries NewSeries() {
  StackOptions folded;  // as in `holdfast leaks`
  folded.fold_plumbing = true;
  return {std::move(folded), 0, &NoSuppressions()};
}

// The files of one process from which growth is judged: the names per kind, oldest first.
struct OwnFiles {
  std::vector<std::string> heap, map, lifetimes;
};

OwnFiles OwnFilesOf(const ProcessTable& process) {
  OwnFiles own;
  const auto found = FindProfiles({process.out()});
  if (!found.ok()) return own;
  for (const FoundFile& file : *found) {
    const auto name = ParseProfileName(std::filesystem::path(file.path).filename().string());
    if (!name.has_value() || name->pid != process.table.owner().pid) continue;
    if (name->kind == "heap") own.heap.push_back(file.path);
    if (name->kind == "map") own.map.push_back(file.path);
    if (name->kind == kLifetimesKind) own.lifetimes.push_back(file.path);
  }
  return own;
}

// Adds the ages of what is in use, if there is a lifetimes profile.
void AddNewestAges(const std::vector<std::string>& lifetimes, const std::string& process, ProcessSeries* heap) {
  if (lifetimes.empty()) return;
  auto profile = ReadProfileToView(lifetimes.back());
  if (!profile.ok()) return;  // deleted meanwhile
  ProfileFile file = DescribeFile(lifetimes.back(), *profile);
  if (file.process != process || file.kind != kLifetimesKind) return;
  file.profile = std::make_shared<Profile>(*std::move(profile));
  heap->AddAges(file).IgnoreError();  // without ages, the verdict is less certain
}

}  // namespace

struct GrowthWatch::Watched {
  std::set<std::string> seen;  // paths
  std::string process;         // identity, from the newest file
  int64_t newest_ns = 0;       // time of that file
  ProcessSeries heap = NewSeries(), map = NewSeries();
  WrittenState heap_written, map_written;  // by their newest files
  int64_t next_look_ns = 0;                // CLOCK_MONOTONIC: when LookWhatHolds may read the table again
  AllMemory memory;
  std::vector<WatchedGrowth> growths;
  uint64_t version = 0;
  bool is_whole = false;  // all files have been read
};

// A process that grew may be idle since: then there are no newer files, and the table says for how long nothing changed.
// Spends at most 1 % of the time. Returns whether a series lasts longer.
bool GrowthWatch::LookWhatHolds(const ProcessTable& process, Watched* watched) {
  constexpr int64_t kRest = 100;
  const int64_t start = NowNs();
  const bool matters = std::ranges::any_of(
      watched->growths, [](const WatchedGrowth& growth) { return growth.answer.grows != Grows::kNo; });
  if (!matters || start < watched->next_look_ns) return false;
  bool lasts = false;
  for (auto [series, written] :
       {std::pair(&watched->heap, &watched->heap_written), std::pair(&watched->map, &watched->map_written)}) {
    const int64_t held_ns = HeldInTableNs(process, *written);
    if (held_ns == 0) continue;
    series->HeldUntil(series->NewestEvidence() + held_ns);
    lasts = true;
  }
  watched->next_look_ns = NowNs() + kRest * (NowNs() - start);
  return lasts;
}

GrowthWatch::GrowthWatch() = default;
GrowthWatch::~GrowthWatch() = default;

GrowthWatch::Watched* GrowthWatch::Look(const ProcessTable& process, const Deadline& until) {
  std::unique_ptr<Watched>& place = watched_[TableKeyOf(process)];
  if (place == nullptr) place = std::make_unique<Watched>();
  Watched& watched = *place;
  const TableOwner& owner = process.table.owner();
  const OwnFiles own = OwnFilesOf(process);
  const std::string identity = fmt::format("/{}/{}/{}/", owner.pid_ns, owner.pid, owner.start_ticks);
  bool is_new = false;
  watched.is_whole = true;
  for (const std::vector<std::string>* paths : {&own.heap, &own.map}) {
    for (const std::string& path : *paths) {
      if (watched.seen.contains(path)) continue;
      if (until.Passed()) {
        watched.is_whole = false;
        break;
      }
      watched.seen.insert(path);
      auto profile = ReadProfileToView(path);
      if (!profile.ok()) continue;  // deleted meanwhile
      ProfileFile file = DescribeFile(path, *profile);
      // The file may belong to an earlier process with the same pid, or to another program image of this process.
      if (file.kind != (paths == &own.heap ? "heap" : "map") || file.process.find(identity) == std::string::npos)
        continue;
      if (profile->process().program != process.table.program()) continue;
      if (!watched.process.empty() && file.process != watched.process) {
        if (file.time_nanos < watched.newest_ns) continue;  // of the previous image
        watched.heap = NewSeries();
        watched.map = NewSeries();
        watched.memory = AllMemory();
      }
      watched.process = file.process;
      watched.newest_ns = std::max(watched.newest_ns, file.time_nanos);
      file.profile = std::make_shared<Profile>(*std::move(profile));
      WrittenState& written = file.kind == "heap" ? watched.heap_written : watched.map_written;
      WrittenState state = WrittenStateOf(*file.profile);
      if (written.process != state.process || written.elapsed_ns < state.elapsed_ns) written = std::move(state);
      watched.memory.Add(file);
      is_new = (file.kind == "heap" ? watched.heap : watched.map).Add(file).ok() || is_new;
    }
  }
  if (!watched.is_whole) return &watched;
  if (!LookWhatHolds(process, &watched) && !is_new) return &watched;
  AddNewestAges(own.lifetimes, watched.process, &watched.heap);
  watched.growths.clear();
  // A kind without a file did not change if the other kind has one of a later snapshot.
  int64_t newest_ns = 0;
  for (const ProcessSeries* series : {&watched.heap, &watched.map})
    newest_ns = std::max(newest_ns, series->NewestEvidence());
  std::vector<std::string> lines = HtmlLeaks::LinesOf(watched.memory);
  for (ProcessSeries* series : {&watched.heap, &watched.map}) {
    if (series->snapshots() == 0) continue;
    series->LastsUntil(newest_ns);
    const std::vector<ProcessSeries::Entry> entries = series->Entries();
    WatchedGrowth growth;
    growth.kind = series == &watched.heap ? "heap" : "map";
    growth.answer = AnswerOf(*series, entries);
    growth.rate = RateOf(*series, entries, growth.answer);
    if (HtmlLeaks::HasAnswer(*series)) {
      growth.page = HtmlLeaks::GrowthsOf(watched.process, growth.kind, *series, entries);
      growth.page.memory = std::exchange(lines, {});
    }
    watched.growths.push_back(std::move(growth));
  }
  ++watched.version;
  return &watched;
}

std::vector<std::vector<WatchedGrowth>> GrowthWatch::Of(const std::vector<ProcessTable>& processes) {
  const std::lock_guard lock(mutex_);
  const Deadline until = Deadline::In(kLook);
  std::vector<std::vector<WatchedGrowth>> all;
  std::set<std::string> live;
  for (const ProcessTable& process : processes) {
    live.insert(TableKeyOf(process));
    const Watched* watched = Look(process, until);
    all.push_back(watched->is_whole ? watched->growths : std::vector<WatchedGrowth>());
  }
  std::erase_if(watched_, [&](const auto& entry) { return !live.contains(entry.first); });
  return all;
}

std::vector<WatchedGrowth> GrowthWatch::OfOne(const ProcessTable& process, uint64_t* version) {
  const std::lock_guard lock(mutex_);
  const Watched* watched = Look(process, Deadline::In(kLook));
  if (version != nullptr) *version = watched->is_whole ? watched->version : 0;
  return watched->is_whole ? watched->growths : std::vector<WatchedGrowth>();
}

}  // namespace holdfast
