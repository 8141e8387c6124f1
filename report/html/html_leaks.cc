#include "report/html/html_leaks.h"

#include <unistd.h>

#include <memory>
#include <utility>

#include "report/growth/leak_series.h"
#include "report/pprof/pprof.h"
#include "report/profiles/metric.h"

namespace holdfast {

void HtmlLeaks::See(const ProfileFile& file) {
  if (!file.cumulative() || file.path == "-") return;
  if (FindMetric(*file.profile, "inuse_space").ok() && FindMetric(*file.profile, "inuse_objects").ok()) {
    paths_[file.process].push_back(file.path);
  }
}

absl::Status HtmlLeaks::Find(ReportBuilder* data) const {
  const Suppressions none;
  for (const auto& [process, paths] : paths_) {
    if (paths.size() < kLeastSnapshots) continue;
    LeakSeries series(StackOptions{}, 0, &none);
    for (const std::string& path : paths) {
      auto profile = ReadPprofFile(path);
      if (!profile.ok()) {
        if (access(path.c_str(), F_OK) != 0) continue;  // replaced by a newer one meanwhile
        return profile.status();
      }
      ProfileFile file = DescribeFile(path, *profile);
      file.profile = std::make_shared<Profile>(*std::move(profile));
      if (const absl::Status added = series.Add(file); !added.ok()) return added;
    }
    if (series.snapshots() < kLeastSnapshots) continue;
    ReportBuilder::Growths growths{.process = process,
                                   .snapshots = series.snapshots(),
                                   .hours = series.Hours(),
                                   .total = series.Total(),
                                   .total_now = series.TotalNow()};
    size_t others = 0;
    const std::vector<LeakSeries::Entry> entries = series.Entries();
    growths.answer = AnswerOf(series, entries);
    for (const LeakSeries::Entry& entry : entries) {
      if (entry.bytes.growth_class == GrowthClass::kGrowing) {
        if (growths.growing++ >= kMostGrowing) continue;
      } else if (others++ >= kMostOthers) {
        break;  // those that grow come first
      }
      growths.stacks.push_back({.frames = series.FramesOf(entry),
                                .bytes = entry.bytes,
                                .objects = entry.objects,
                                .bytes_now = entry.bytes_now,
                                .objects_now = entry.objects_now,
                                .course = series.CourseOf(entry, kMostPoints)});
    }
    data->AddGrowths(std::move(growths));
  }
  return absl::OkStatus();
}

}  // namespace holdfast
