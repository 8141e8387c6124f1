#include "report/html/html_leaks.h"

#include <unistd.h>

#include <memory>
#include <utility>

#include "report/base/visible_directions.h"
#include "report/growth/leak_series.h"
#include "report/growth/telling_stacks.h"
#include "report/profiles/function_identity.h"
#include "report/profiles/metric.h"
#include "report/profiles/short_name.h"

namespace holdfast {
namespace {

constexpr size_t kFew = 4;  // functions of a stack

}  // namespace

ReportBuilder::Growths HtmlLeaks::GrowthsOf(const std::string& process, const LeakSeries& series,
                                            const std::vector<LeakSeries::Entry>& entries) {
  ReportBuilder::Growths growths{.process = process,
                                 .snapshots = series.snapshots(),
                                 .hours = series.Hours(),
                                 .total = series.Total(),
                                 .total_now = series.TotalNow(),
                                 .answer = AnswerOf(series, entries)};
  size_t others = 0;
  std::vector<std::vector<std::string>> stacks;
  for (const LeakSeries::Entry& entry : entries) {
    if (IsLeak(entry.bytes.growth_class)) {
      if (growths.growing++ >= kMostGrowing) continue;
    } else if (others++ >= kMostOthers) {
      break;  // growing stacks come first
    }
    stacks.push_back(series.FramesOf(entry));
    growths.stacks.push_back({.frames = stacks.back(),
                              .bytes = entry.bytes,
                              .objects = entry.objects,
                              .bytes_now = entry.bytes_now,
                              .objects_now = entry.objects_now,
                              .half_age_ns = series.AgesOf(entry).half_ns(),
                              .oldest_age_ns = series.AgesOf(entry).oldest_ns(),
                              .course = series.CourseOf(entry, kMostPoints)});
  }
  const std::vector<std::string> texts = TellingStacks(stacks, kFew, ShortName);
  for (size_t i = 0; i < texts.size(); ++i) growths.stacks[i].text = texts[i];
  return growths;
}

void HtmlLeaks::See(const ProfileFile& file) {
  if (!file.cumulative() || file.path == "-" || file.kind == "map" || file.kind == kResidentKind) return;
  if (file.kind == kLifetimesKind) {
    auto& newest = ages_at_[file.process];
    if (newest.second.empty() || newest.first <= file.time_nanos) newest = {file.time_nanos, file.path};
    return;
  }
  if (FindMetric(*file.profile, "inuse_space").ok() && FindMetric(*file.profile, "inuse_objects").ok()) {
    paths_[file.process].push_back(file.path);
  }
}

absl::Status HtmlLeaks::Find(const std::vector<std::string>& plumbing, ReportBuilder* data) const {
  const Suppressions none;
  StackOptions folded;  // as in `holdfast leaks`
  folded.fold_plumbing = true;
  folded.plumbing = plumbing;
  std::vector<ReportBuilder::Growths> all;
  std::vector<std::vector<std::string>> stacks;
  for (const auto& [process, paths] : paths_) {
    if (paths.size() < kLeastSnapshots) continue;
    LeakSeries series(folded, 0, &none);
    AllMemory memories;
    for (const std::string& path : paths) {
      auto profile = ReadProfileToView(path);
      if (!profile.ok()) {
        if (access(path.c_str(), F_OK) != 0) continue;  // replaced by a newer file meanwhile
        return profile.status();
      }
      ProfileFile file = DescribeFile(path, *profile);
      file.profile = std::make_shared<Profile>(*std::move(profile));
      if (const absl::Status added = series.Add(file); !added.ok()) return added;
      memories.Add(file);
    }
    if (series.snapshots() < kLeastSnapshots) continue;
    if (const auto ages = ages_at_.find(process); ages != ages_at_.end()) {
      // If the file is gone or unreadable, ages are omitted.
      if (auto profile = ReadProfileToView(ages->second.second); profile.ok()) {
        ProfileFile file = DescribeFile(ages->second.second, *profile);
        file.profile = std::make_shared<Profile>(*std::move(profile));
        if (absl::Status added = series.AddAges(file); !added.ok()) return added;
      }
    }
    const std::vector<LeakSeries::Entry> entries = series.Entries();
    ReportBuilder::Growths growths = GrowthsOf(process, series, entries);
    for (const ReportBuilder::GrowingStack& stack : growths.stacks) stacks.push_back(stack.frames);
    if (const auto memory = memories.Answer(); memory.has_value()) growths.memory = TextsOf(*memory);
    all.push_back(std::move(growths));
  }
  // Make rows distinguishable, even across two processes.
  const std::vector<std::string> texts = TellingStacks(stacks, kFew, ShortName);
  size_t next = 0;
  for (ReportBuilder::Growths& growths : all) {
    for (ReportBuilder::GrowingStack& stack : growths.stacks) stack.text = WithVisibleDirections(texts[next++]);
    data->AddGrowths(std::move(growths));
  }
  return absl::OkStatus();
}

}  // namespace holdfast
