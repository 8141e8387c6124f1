#include "report/builder/program_files.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/variance.h"
#include "report/base/printable.h"
#include "report/base/value_units.h"
#include "report/builder/file_kinds.h"
#include "report/builder/profile_builder.h"
#include "report/profile/pprof.h"
#include "report/profile/process_comments.h"
#include "report/profile/typed_records.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

uint64_t ProcessesIn(const Profile& profile) {
  return profile.records().merged.has_value() ? profile.records().merged->processes : 0;
}

}  // namespace

absl::Status ProgramFiles::AddTo(Sum* sum, const Profile& profile, uint64_t processes) {
  const absl::Status added = sum->merger->Add(profile, VariancesOf(profile));
  if (!added.ok()) return added;
  sum->processes += processes;
  sum->time_nanos = std::max(sum->time_nanos, profile.time_nanos);
  const record::Profile& records = profile.records();
  for (const record::Loss& loss : records.loss) sum->lost[loss.cause] += loss.count;
  if (records.sampling.has_value()) {
    const record::Sampling& sampling = *records.sampling;
    // The time of a change differs from process to process.
    if (!sampling.interval.empty()) {
      const record::Interval newest = {.mean = sampling.interval.back().mean, .unit = sampling.interval.back().unit};
      if (std::find(sum->intervals.begin(), sum->intervals.end(), newest) == sum->intervals.end())
        sum->intervals.push_back(newest);
    }
    if (!sampling.ages_known.empty() && sum->ages.ages_known.find(sampling.ages_known) == std::string::npos) {
      sum->ages.ages_known += (sum->ages.ages_known.empty() ? "" : "; ") + sampling.ages_known;
      sum->ages.aged_one_in = std::max(sum->ages.aged_one_in, sampling.aged_one_in);
      sum->ages.aged_up_to_bytes = std::max(sum->ages.aged_up_to_bytes, sampling.aged_up_to_bytes);
    }
  }
  if (sum->name.empty()) {
    sum->name = profile.process().program;
    sum->host = profile.process().id.substr(0, profile.process().id.find('/'));
  }
  return absl::OkStatus();
}

absl::Status ProgramFiles::KeepHigher(Sum* sum, const Profile& profile, uint64_t processes) {
  sum->processes += processes;
  const record::Peak peak = profile.records().peak.value_or(record::Peak());
  if (peak.bytes > sum->peak.bytes) {
    sum->peak.bytes = peak.bytes;
    sum->peak.time_ns = peak.time_ns;
  }
  if (peak.stacks_bytes <= sum->peak.stacks_bytes) return absl::OkStatus();
  sum->peak.stacks_bytes = peak.stacks_bytes;
  sum->peak.stacks_time_ns = peak.stacks_time_ns;
  sum->command = profile.process().command;
  sum->merger = std::make_unique<ProfileMerger>();
  sum->time_nanos = 0;
  sum->lost.clear();
  sum->intervals.clear();
  return AddTo(sum, profile, 0);
}

absl::Status ProgramFiles::Adopt(const OutputFolder& output, const Key& key, Sum* sum) {
  for (const OutputFolder::Entry& entry : output.ListOf(key.first, 0)) {
    if (!entry.regular || entry.name.kind != key.second || (sum->has_file && entry.name.seq < sum->file.seq)) continue;
    sum->file = entry.name;
    sum->has_file = true;
  }
  if (!sum->has_file) return absl::OkStatus();
  const absl::StatusOr<Profile> profile = ReadPprofFile(output.PathOf(sum->file));
  // Another program's file: keep it, and write ours separately.
  const auto add = key.second == kFileKinds[kPeakFile].name ? KeepHigher : AddTo;
  if (!profile.ok() || ProcessesIn(*profile) == 0 || !add(sum, *profile, ProcessesIn(*profile)).ok()) {
    *sum = Sum();
  }
  return absl::OkStatus();
}

absl::StatusOr<ProgramFiles::Sum*> ProgramFiles::SumOf(const OutputFolder& output, const Key& key) {
  const auto [place, is_new] = sums_.try_emplace(key);
  if (is_new) {
    if (const absl::Status adopted = Adopt(output, key, &place->second); !adopted.ok()) return adopted;
  }
  return &place->second;
}

absl::Status ProgramFiles::Add(const OutputFolder& output, const std::string& program, const std::string& kind,
                               const Profile& profile) {
  const Key key = {program, kind};
  const absl::StatusOr<Sum*> sum = SumOf(output, key);
  if (!sum.ok()) return sum.status();
  const absl::Status added = AddTo(*sum, profile, 1);
  if (added.ok()) unwritten_.insert(key);
  return added;
}

absl::Status ProgramFiles::AddPeak(const OutputFolder& output, const std::string& program, double highest, double seen,
                                   const std::function<Profile()>& build) {
  const Key key = {program, kFileKinds[kPeakFile].name};
  const absl::StatusOr<Sum*> sum = SumOf(output, key);
  if (!sum.ok()) return sum.status();
  const bool is_higher = std::llround(highest) > (*sum)->peak.bytes || std::llround(seen) > (*sum)->peak.stacks_bytes;
  if (!is_higher) {
    ++(*sum)->processes;
  } else if (absl::Status kept = KeepHigher(*sum, build(), 1); !kept.ok()) {
    return kept;
  }
  unwritten_.insert(key);
  return absl::OkStatus();
}

absl::Status ProgramFiles::Write(const OutputFolder& output) {
  while (!unwritten_.empty()) {
    const Key key = *unwritten_.begin();
    if (const absl::Status written = WriteOne(output, key, &sums_.at(key)); !written.ok()) return written;
    unwritten_.erase(key);
  }
  return absl::OkStatus();
}

absl::Status ProgramFiles::WriteOne(const OutputFolder& output, const Key& key, Sum* sum) {
  const Merged merged = sum->merger->Take();
  Profile& profile = *merged.profile;
  profile.time_nanos = sum->time_nanos;
  record::Profile& records = *profile.mutable_records();
  const auto say = [&profile](const std::string& text) { profile.AddComment(Printable(text)); };
  record::Process& process = *profile.mutable_process();
  process.kind = key.second;
  // Each file of this program has the same, because each holds all that the earlier ones held.
  process.id = Printable(fmt::format("{}/0/0/0/{:016x}", sum->host, std::hash<std::string>{}(key.first)));
  process.program = sum->name;
  process.command = sum->command;
  process.version = absl::StrCat("holdfast ", HoldfastVersion());
  record::Sampling& sampling = records.sampling.emplace(sum->ages);
  if (sum->intervals.size() == 1) sampling.interval = sum->intervals;
  AddProcessComments(&profile);
  if (!sampling.ages_known.empty()) say(absl::StrCat("ages known: ", sampling.ages_known));
  const bool is_peak = key.second == kFileKinds[kPeakFile].name;
  records.merged = record::Merged{.how = is_peak ? record::MergeMode::kHighest : record::MergeMode::kSum,
                                  .processes = sum->processes};
  say(fmt::format("merged: {} {} process{}", is_peak ? "the highest of" : "sum of", sum->processes,
                  sum->processes == 1 ? "" : "es"));
  if (is_peak) {
    records.peak = sum->peak;
    say(fmt::format("peak: {} bytes at {}", sum->peak.bytes, FormatWallTime(sum->peak.time_ns)));
    say(fmt::format("peak stacks: {} bytes at {}", sum->peak.stacks_bytes, FormatWallTime(sum->peak.stacks_time_ns)));
  }
  const size_t types = profile.sample_types.size();
  for (size_t type = 0; !merged.variances.empty() && type < types; ++type) {
    double variance = 0;
    for (size_t i = type; i < merged.variances.size(); i += types) variance += merged.variances[i];
    AddTotal(type, HalfWidthOf(variance), &profile);
  }
  for (const auto& [cause, count] : sum->lost) {
    records.loss.push_back({cause, count});
    say(fmt::format("lost {}: {}", cause, count));
  }
  if (sum->lost.empty()) say("losses: none");
  ProfileName name = {key.first, 0, sum->has_file ? sum->file.seq + 1 : 1, key.second};
  const absl::StatusOr<ProfileName> got = output.Write(name, [&](int fd) { return WritePprof(profile, fd); });
  // The merger's result is the start of the next sum.
  sum->merger = std::make_unique<ProfileMerger>();
  if (const absl::Status kept = sum->merger->Add(profile, merged.variances); !kept.ok()) return kept;
  if (!got.ok()) return got.status();
  if (sum->has_file) output.Remove(sum->file);
  sum->file = *got;
  sum->has_file = true;
  return absl::OkStatus();
}

}  // namespace holdfast
