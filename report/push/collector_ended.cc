// Of the Collector: processes that it has never found running. Of some an earlier pusher has told in part; others ran for a moment.
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "report/export/profile_builder.h"
#include "report/pprof/pprof.h"
#include "report/push/collector.h"

namespace holdfast {
namespace {

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

}  // namespace

void Collector::TellLast(ProcessTable process, Snapshot snapshot) {
  Watched watched(std::move(process));
  TellAsItIs(&watched, watched.table.table.RecordsHash(), std::move(snapshot));
  if (watched.spool != nullptr) watched.spool->Finish(watched.told.process);
}

void Collector::TellEndedUnseen(std::vector<ProcessTable> ended) {
  for (ProcessTable& process : ended) {
    std::string key = KeyOf(process);
    if (watched_.contains(key) || !ended_.insert(std::move(key)).second || !has_looked_) continue;
    // Older ones, as those of the first look, are told of where a push has begun with them: TellOfEarlier.
    absl::StatusOr<Snapshot> snapshot = process.table.TakeSnapshot();
    if (!snapshot.ok() || snapshot->process.start_wall_ns < options_.tell_all_begun_after_ns) continue;
    if (!told_here_.contains(ProcessId(snapshot->process))) TellLast(std::move(process), *std::move(snapshot));
  }
  has_looked_ = true;
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
      absl::StatusOr<Snapshot> snapshot = process.table.TakeSnapshot();
      if (!snapshot.ok() || ProcessId(snapshot->process) != told.process) continue;
      TellLast(std::move(process), *std::move(snapshot));
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
