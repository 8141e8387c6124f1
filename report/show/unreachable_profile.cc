#include "report/show/unreachable_profile.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/base/say.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr char kSite[] = "site", kNotSampled[] = "[not sampled]";

class ProfileOfRows {
 public:
  ProfileOfRows() {
    profile_.sample_types = {{Intern("unreachable_objects"), Intern("count")},
                             {Intern("unreachable_space"), Intern("bytes")}};
    profile_.default_sample_type = Intern("unreachable_space");
    profile_.mutable_process()->kind = kUnreachableKind;
  }
  void Add(const std::string& site, const ObservedProcess::Calls& stack, int64_t blocks, int64_t bytes) {
    std::vector<uint32_t> frames;
    for (const ObservedProcess::Call& call : stack) frames.push_back(LocationOf(call));
    if (frames.empty()) frames.push_back(LocationOf({.function = site}));
    const std::array<int64_t, 2> values = {blocks, bytes};
    const Profile::Label label{.key = Intern(kSite), .text = Intern(site)};
    profile_.AddSample(frames, values, {&label, 1});
  }
  Profile Take() { return std::move(profile_); }

 private:
  StringId Intern(std::string_view text) { return profile_.strings.Intern(text); }
  uint32_t LocationOf(const ObservedProcess::Call& call) {
    const auto [place, added] =
        locations_.emplace(std::pair(call.function, call.path), static_cast<uint32_t>(profile_.locations.size()));
    if (!added) return place->second;
    const auto function = static_cast<uint32_t>(profile_.functions.size());
    profile_.functions.push_back(
        {.name = Intern(call.function), .system_name = call.mangled == call.function ? 0 : Intern(call.mangled)});
    Profile::Location& location = profile_.locations.emplace_back();
    if (!call.path.empty()) location.mapping = MappingOf(call.path);
    const Profile::Line line{.function = function};
    profile_.SetLines(&location, {&line, 1});
    return place->second;
  }
  uint32_t MappingOf(const std::string& path) {
    const auto [place, added] = mappings_.emplace(path, static_cast<uint32_t>(profile_.mappings.size()));
    if (added) profile_.mappings.push_back({.file = Intern(path), .has_functions = true});
    return place->second;
  }

  Profile profile_;
  std::map<std::pair<std::string, std::string>, uint32_t> locations_;
  std::map<std::string, uint32_t> mappings_;
};

absl::StatusOr<UnreachableRecord> UnreachableRecordOf(const ProfileFile& file) {
  const Profile& profile = *file.profile;
  const auto space = FindMetric(profile, "unreachable_space"), objects = FindMetric(profile, "unreachable_objects");
  if (!space.ok() || !objects.ok())
    return absl::InvalidArgumentError(
        fmt::format("{}: is no profile of unreachable blocks. holdfast run --leak-check writes them.", file.path));
  UnreachableRecord record{.program = file.program, .bytes = profile.Total(*space), .blocks = profile.Total(*objects)};
  std::map<std::string, UnreachableRecord::Site> sites;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    std::string label;
    for (const Profile::Label& one : profile.LabelsOf(profile.samples[i])) {
      if (profile.strings[one.key] == kSite) label = profile.strings[one.text];
    }
    UnreachableRecord::Site& site = sites[label];
    site.label = label;
    site.bytes = WrappedSum(site.bytes, profile.ValuesOf(i)[*space]);
    site.blocks = WrappedSum(site.blocks, profile.ValuesOf(i)[*objects]);
  }
  for (auto& [label, site] : sites) record.sites.push_back(std::move(site));
  std::ranges::stable_sort(record.sites, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return record;
}

absl::StatusOr<UnreachableRecord> SearchNow(pid_t pid) {
  absl::StatusOr<std::unique_ptr<ObservedProcess>> process = ObservedProcess::Open(pid, {});
  if (!process.ok()) return process.status();
  const absl::StatusOr<UnreachableReport> report = FindUnreachableOf(process->get(), {}, {});
  if (!report.ok()) return report.status();
  if (report->ExitCode() == kUnreachableUnknown)
    return absl::FailedPreconditionError(fmt::format("{}: {}", report->process, report->Sentence()));
  UnreachableRecord record{.program = report->process};
  for (const UnreachableRow& row : report->rows) {
    if (!row.IsFinding()) continue;
    record.sites.push_back({row.label, row.WholeBytes(), row.WholeBlocks()});
    record.bytes += row.WholeBytes();
    record.blocks += row.WholeBlocks();
  }
  return record;
}

}  // namespace

Profile UnreachableProfile(const UnreachableReport& report) {
  ProfileOfRows profile;
  bool any = false;
  for (const UnreachableRow& row : report.rows) {
    if (!row.IsFinding()) continue;
    profile.Add(row.label, row.stack, row.WholeBlocks(), row.WholeBytes());
    any = true;
  }
  if (!any && report.ExitCode() == kFinding)
    profile.Add(kNotSampled, {}, static_cast<int64_t>(report.found.blocks.size()), static_cast<int64_t>(report.bytes));
  return profile.Take();
}

absl::StatusOr<std::vector<UnreachableRecord>> ReadUnreachable(const std::vector<std::string>& arguments) {
  std::vector<UnreachableRecord> records;
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    const auto pid = AsProcess(argument);
    if (!pid.has_value()) {
      files.push_back(argument);
      continue;
    }
    absl::StatusOr<UnreachableRecord> record = SearchNow(*pid);
    if (!record.ok()) return record.status();
    records.push_back(*std::move(record));
  }
  if (files.empty()) return records;
  const absl::StatusOr<ProfileSet> set = ReadProfileSet(files, {.kind = kUnreachableKind});
  if (!set.ok()) {
    return !absl::IsNotFound(set.status())
               ? set.status()
               : absl::NotFoundError(fmt::format("{}: no process was checked here. Run the program with: holdfast run "
                                                 "--exact --leak-check",
                                                 files.front()));
  }
  for (const ProfileGroup& group : set->groups) {
    if (group.newest().profile == nullptr) continue;
    absl::StatusOr<UnreachableRecord> record = UnreachableRecordOf(group.newest());
    if (!record.ok()) return record.status();
    records.push_back(*std::move(record));
  }
  return records;
}

}  // namespace holdfast
