#include "report/export/program_files.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/variance.h"
#include "report/base/printable.h"
#include "report/export/profile_builder.h"
#include "report/pprof/pprof.h"
#include "report/profiles/metric.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

constexpr char kMerged[] = "merged", kAgesKnown[] = "ages known", kPeak[] = "peak", kPeakStacks[] = "peak stacks";
constexpr std::string_view kSumOf = "sum of ";

// "sum of 312 processes", "the highest of 312 processes" → 312.
uint64_t ProcessesIn(const Profile& profile) {
  std::string_view text = profile.CommentValue(kMerged);
  uint64_t count = 0;
  for (const std::string_view start : {kSumOf, kHighestOf}) {
    if (!text.starts_with(start)) continue;
    text.remove_prefix(start.size());
    return absl::SimpleAtoi(std::string(text.substr(0, text.find(' '))), &count) ? count : 0;
  }
  return 0;
}

// "73400320 bytes at 2026-…" → 73400320.
double BytesIn(std::string_view text) {
  double bytes = 0;
  return absl::SimpleAtod(std::string(text.substr(0, text.find(' '))), &bytes) ? bytes : 0;
}

}  // namespace

absl::Status ProgramFiles::AddTo(Sum* sum, const Profile& profile, uint64_t processes) {
  const absl::Status added = sum->merger->Add(profile, VariancesOf(profile));
  if (!added.ok()) return added;
  sum->processes += processes;
  sum->time_nanos = std::max(sum->time_nanos, profile.time_nanos);
  for (const char* name : kLossNames) {
    const std::string key = absl::StrCat("lost ", name);
    uint64_t count = 0;
    if (absl::SimpleAtoi(std::string(profile.CommentValue(key)), &count)) sum->lost[key] += count;
  }
  if (const auto interval = profile.CommentValue("interval"); !interval.empty()) sum->intervals.emplace(interval);
  if (const auto known = profile.CommentValue(kAgesKnown); !known.empty()) sum->ages_known.emplace(known);
  if (sum->name.empty()) {
    sum->name = profile.CommentValue("program");
    const std::string_view process = profile.CommentValue("process");
    sum->host = process.substr(0, process.find('/'));
  }
  return absl::OkStatus();
}

absl::Status ProgramFiles::KeepHigher(Sum* sum, const Profile& profile, uint64_t processes) {
  sum->processes += processes;
  const std::string_view peak = profile.CommentValue(kPeak), seen = profile.CommentValue(kPeakStacks);
  if (BytesIn(peak) > BytesIn(sum->peak)) sum->peak = peak;
  if (BytesIn(seen) <= BytesIn(sum->peak_stacks)) return absl::OkStatus();
  sum->peak_stacks = seen;
  sum->command = profile.CommentValue("command");
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
  const auto add = key.second == kPeak ? KeepHigher : AddTo;
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
  const Key key = {program, kPeak};
  const absl::StatusOr<Sum*> sum = SumOf(output, key);
  if (!sum.ok()) return sum.status();
  const bool is_higher = highest > BytesIn((*sum)->peak) || seen > BytesIn((*sum)->peak_stacks);
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
  const auto add = [&profile](const std::string& text) { profile.AddComment(Printable(text)); };
  add(absl::StrCat("kind: ", key.second));
  // The same for each file of this program, because each one includes its predecessors.
  add(fmt::format("process: {}/0/0/0/{:016x}", sum->host, std::hash<std::string>{}(key.first)));
  add(absl::StrCat("program: ", sum->name));
  add(absl::StrCat("version: holdfast ", HoldfastVersion()));
  if (sum->intervals.size() == 1) add(absl::StrCat("interval: ", *sum->intervals.begin()));
  if (!sum->ages_known.empty()) add(fmt::format("{}: {}", kAgesKnown, fmt::join(sum->ages_known, "; ")));
  add(fmt::format("{}: {}{} process{}", kMerged, key.second == kPeak ? kHighestOf : kSumOf, sum->processes,
                  sum->processes == 1 ? "" : "es"));
  for (const auto& [what, text] :
       {std::pair("command", sum->command), {kPeak, sum->peak}, {kPeakStacks, sum->peak_stacks}}) {
    if (!text.empty()) add(absl::StrCat(what, ": ", text));
  }
  const size_t types = profile.sample_types.size();
  for (size_t type = 0; !merged.variances.empty() && type < types; ++type) {
    double variance = 0;
    for (size_t i = type; i < merged.variances.size(); i += types) variance += merged.variances[i];
    add(fmt::format("total {}: {} ± {:.0f}", profile.strings[profile.sample_types[type].type], profile.Total(type),
                    HalfWidthOf(variance)));
  }
  for (const auto& [what, count] : sum->lost) add(absl::StrCat(what, ": ", count));
  if (sum->lost.empty()) add("losses: none");
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
