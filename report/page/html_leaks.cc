#include "report/page/html_leaks.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "report/analysis/growth/distinct_stacks.h"
#include "report/analysis/growth/held_until.h"
#include "report/analysis/growth/process_series.h"
#include "report/analysis/profiles/function_identity.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/visible_directions.h"

namespace holdfast {
namespace {

constexpr size_t kFew = 4;  // functions of a stack

}  // namespace

ReportBuilder::Growths HtmlLeaks::GrowthsOf(const std::string& process, std::string_view kind,
                                            const ProcessSeries& series,
                                            const std::vector<ProcessSeries::Entry>& entries) {
  ReportBuilder::Growths growths{.process = process,
                                 .kind = std::string(kind),
                                 .snapshots = series.evidence(),
                                 .by_births = series.is_by_births(),
                                 .hours = series.Hours(),
                                 .total = series.Total(),
                                 .total_now = series.TotalNow(),
                                 .answer = AnswerOf(series, entries)};
  size_t others = 0;
  std::vector<std::vector<std::string>> stacks;
  for (const ProcessSeries::Entry& entry : entries) {
    if (IsLeak(entry.bytes.growth_class)) {
      if (growths.growing++ >= kMaxGrowing) continue;
    } else if (others++ >= kMaxOthers) {
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
                              .course = series.CourseOf(entry, kMaxPoints)});
  }
  const std::vector<std::string> texts = DistinctStacks(stacks, kFew, ShortName);
  for (size_t i = 0; i < texts.size(); ++i) growths.stacks[i].text = texts[i];
  return growths;
}

std::vector<std::string> HtmlLeaks::LinesOf(const AllMemory& memory) {
  const auto answer = memory.Answer();
  if (!answer.has_value()) return {};
  std::vector<std::string> lines = TextsOf(*answer);
  if (std::string text = UnexplainedText(*answer); !text.empty()) lines.push_back(std::move(text));
  return lines;
}

void HtmlLeaks::See(const ProfileFile& file) {
  if (!file.cumulative() || file.path == "-" || file.kind == kResidentKind) return;
  if (file.kind == kLifetimesKind) {
    std::vector<std::pair<int64_t, std::string>>& newest = ages_at_[file.process];
    newest.emplace_back(file.steady_nanos, file.path);
    std::ranges::sort(newest);
    if (newest.size() > 2) newest.erase(newest.begin());
    return;
  }
  const bool has_blocks =
      FindMetric(*file.profile, "inuse_space").ok() && FindMetric(*file.profile, "inuse_objects").ok();
  if (!has_blocks && file.kind != "threads") return;
  Files& files = files_[file.process];
  if (file.moment != ProfileMoment::kAfterHandlers) files.newest_ns = std::max(files.newest_ns, file.steady_nanos);
  files.has_course = files.has_course || file.profile->records().course.has_value();
  if (has_blocks) (file.kind == "map" ? files.map : files.heap).push_back(file.path);
}

absl::Status HtmlLeaks::Find(const std::vector<std::string>& plumbing, ReportBuilder* data) const {
  const Suppressions none;
  StackOptions folded;  // as in `holdfast leaks`
  folded.fold_plumbing = true;
  folded.plumbing = plumbing;
  std::vector<ReportBuilder::Growths> all;
  std::vector<std::vector<std::string>> stacks;
  for (const auto& [process, files] : files_) {
    const auto ages = ages_at_.find(process);
    // One snapshot says nothing without ages or a course.
    if (files.heap.size() < 2 && files.map.size() < 2 && ages == ages_at_.end() && !files.has_course) continue;
    ProcessSeries heap(folded, 0, &none), map(folded, 0, &none);
    AllMemory memory;
    ProfileFile newest_heap, newest_map;
    const auto read = [&](const std::vector<std::string>& paths, ProcessSeries* series, ProfileFile* newest) {
      for (const std::string& path : paths) {
        auto profile = ReadProfileToView(path);
        if (!profile.ok()) {
          if (access(path.c_str(), F_OK) != 0) continue;  // replaced by a newer one meanwhile
          return profile.status();
        }
        ProfileFile file = DescribeFile(path, *profile);
        file.profile = std::make_shared<Profile>(*std::move(profile));
        if (const absl::Status added = series->Add(file); !added.ok()) return added;
        if (!process.empty()) memory.Add(file);
        if (newest->profile == nullptr || newest->steady_nanos < file.steady_nanos) *newest = std::move(file);
      }
      return absl::OkStatus();
    };
    if (const absl::Status status = read(files.heap, &heap, &newest_heap); !status.ok()) return status;
    if (const absl::Status status = read(files.map, &map, &newest_map); !status.ok()) return status;
    // A kind without a file did not change if other kinds have one of a later snapshot.
    for (const auto& [series, last] : {std::pair(&heap, &newest_heap), std::pair(&map, &newest_map)}) {
      if (process.empty() || series->snapshots() == 0) continue;
      series->LastsUntil(files.newest_ns);
      if (const int64_t held_ns = HeldForNs(*last->profile); held_ns > 0)
        series->HeldUntil(last->steady_nanos + held_ns);
    }
    if (ages != ages_at_.end() && heap.snapshots() > 0) {
      for (const auto& [time, path] : ages->second) {
        auto profile = ReadProfileToView(path);
        if (!profile.ok()) continue;  // gone meanwhile, or unreadable: the ages are unknown then
        ProfileFile file = DescribeFile(path, *profile);
        file.profile = std::make_shared<Profile>(*std::move(profile));
        if (absl::Status added = heap.AddAges(file); !added.ok()) return added;
      }
    }
    std::vector<std::string> lines = LinesOf(memory);
    for (const ProcessSeries* series : {&heap, &map}) {
      if (!HasAnswer(*series)) continue;
      ReportBuilder::Growths growths = GrowthsOf(process, series == &heap ? "heap" : "map", *series, series->Entries());
      for (const ReportBuilder::GrowingStack& stack : growths.stacks) stacks.push_back(stack.frames);
      growths.memory = std::exchange(lines, {});
      all.push_back(std::move(growths));
    }
  }
  // Make rows distinguishable, even across two processes.
  const std::vector<std::string> texts = DistinctStacks(stacks, kFew, ShortName);
  size_t next = 0;
  for (ReportBuilder::Growths& growths : all) {
    for (ReportBuilder::GrowingStack& stack : growths.stacks) stack.text = WithVisibleDirections(texts[next++]);
    data->AddGrowths(std::move(growths));
  }
  return absl::OkStatus();
}

}  // namespace holdfast
