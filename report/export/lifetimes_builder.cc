#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "report/export/profile_builder.h"
#include "report/export/profile_comments.h"
#include "report/export/running_program.h"
#include "report/export/stack_interner.h"
#include "sampler/contract/age_buckets.h"

namespace holdfast {
namespace {

constexpr std::string_view kFreedByNames[kFreedBys] = {"same thread", "other thread", "temporary"};
enum Type { kObjects, kSpace, kLifetime, kAlive, kTypes };
constexpr std::pair<const char*, const char*> kTypesOfLifetimes[] = {
    {"freed_objects", "count"}, {"freed_space", "bytes"}, {"lifetime", "nanoseconds"}, {"alive_space", "bytes"}};

class LifetimesBuilder {
 public:
  explicit LifetimesBuilder(const Snapshot& snapshot)
      : snapshot_(snapshot), segments_(snapshot), stacks_(snapshot, segments_, &profile_) {}

  Profile Build() {
    DescribeBlocks(snapshot_, kTypesOfLifetimes, kSpace, &profile_);
    for (const AgesInfo& info : Grouped()) AddFreed(info);
    for (const AliveInfo& info : snapshot_.alive) AddAlive(info);
    AddComments(snapshot_, kLifetimesFile, nullptr, variances_, columns_.full_sums(), &profile_);
    const FramesOfStack frames = [this](uint32_t stack) { return stacks_.Frames(stacks_.Intern(stack)); };
    if (!profile_.samples.empty()) AddThreadComments(snapshot_, frames, &profile_);
    segments_.AddMappings(&profile_);
    return std::move(profile_);
  }

 private:
  StringId Intern(std::string_view text) { return profile_.strings.Intern(text); }

  // Of all rows of a stack together: size classes and threads are not kept apart.
  std::vector<AgesInfo> Grouped() {
    std::vector<AgesInfo> groups;
    absl::flat_hash_map<std::tuple<uint32_t, uint32_t, int, FreedBy>, size_t> index;
    for (const AgesInfo& info : snapshot_.ages) {
      const auto [place, added] = index.emplace(
          std::tuple(stacks_.Intern(info.stack), snapshot_.stacks[info.stack].labels, info.bucket, info.freed_by),
          groups.size());
      const double mean = info.bytes / info.objects, mean_age = info.ages_ns / info.objects;
      variances_[kObjects] += info.variance;
      variances_[kSpace] += info.variance * mean * mean;
      variances_[kLifetime] += info.variance * mean_age * mean_age;
      if (added) {
        groups.push_back(info);
        continue;
      }
      AgesInfo& group = groups[place->second];
      group.objects += info.objects;
      group.bytes += info.bytes;
      group.ages_ns += info.ages_ns;
    }
    return groups;
  }

  void AddFreed(const AgesInfo& info) {
    values_ = {columns_.Value(kObjects, info.objects), columns_.Value(kSpace, info.bytes),
               columns_.Value(kLifetime, info.ages_ns), 0};
    Add(info.stack, info.bucket,
        {.key = Intern("freed"), .text = Intern(kFreedByNames[static_cast<int>(info.freed_by)])});
  }

  void AddAlive(const AliveInfo& info) {
    values_ = {0, 0, 0, columns_.Value(kAlive, info.bytes)};
    variances_[kAlive] += info.variance;
    Add(info.stack, info.bucket,
        {.key = Intern("bytes"), .number = static_cast<int64_t>(info.class_bytes), .unit = Intern("bytes")});
  }

  void Add(uint32_t stack, int bucket, const Profile::Label& label) {
    if (values_ == std::array<int64_t, kTypes>{}) return;
    labels_ = {{.key = Intern("age"), .number = kAgeBucketEdges.ns[bucket], .unit = Intern("nanoseconds")}, label};
    AddThreadLabels(snapshot_.label_sets[snapshot_.stacks[stack].labels], &profile_, &labels_);
    profile_.AddSample(stacks_.Frames(stacks_.Intern(stack)), values_, labels_);
  }

  const Snapshot& snapshot_;
  Profile profile_;
  Segments segments_;
  StackInterner stacks_;
  std::vector<Profile::Label> labels_;  // of the sample that is being made
  std::array<int64_t, kTypes> values_ = {};
  std::array<double, kTypes> variances_ = {};
  Columns columns_;
};

}  // namespace

Profile BuildLifetimesProfile(const Snapshot& snapshot) { return LifetimesBuilder(snapshot).Build(); }

}  // namespace holdfast
