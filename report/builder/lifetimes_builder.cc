#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/builder/file_kinds.h"
#include "report/builder/profile_builder.h"
#include "report/builder/profile_comments.h"
#include "report/builder/stack_interner.h"
#include "report/builder/written_threads.h"
#include "sampler/contract/age_buckets.h"

namespace holdfast {
namespace {

constexpr std::string_view kFreedByNames[kFreedBys] = {"same thread", "other thread", "temporary"};
constexpr int kNoBucket = -1;
enum Type { kObjects, kSpace, kLifetime, kAlive, kTypes };
constexpr std::pair<const char*, const char*> kTypesOfLifetimes[] = {
    {"freed_objects", "count"}, {"freed_space", "bytes"}, {"lifetime", "nanoseconds"}, {"alive_space", "bytes"}};

class LifetimesBuilder {
 public:
  explicit LifetimesBuilder(const ProcessState& state)
      : state_(state), segments_(state), stacks_(state, segments_, &profile_) {}

  Profile Build() {
    DescribeBlocks(state_, kTypesOfLifetimes, kSpace, &profile_);
    AddAllFreed();
    AddAllAlive();
    AddComments(state_, kFileKinds[kLifetimesFile], variances_, columns_.full_sums(), &profile_);
    const FramesOfStack frames = [this](uint32_t stack) { return stacks_.Frames(stacks_.Intern(stack)); };
    if (!profile_.samples.empty()) AddThreadRecords(state_, frames, &profile_);
    segments_.AddMappings(&profile_);
    return std::move(profile_);
  }

 private:
  StringId Intern(std::string_view text) { return profile_.strings.Intern(text); }

  // The freed blocks of a stack with its labels: size classes and threads are merged.
  struct OfStack {
    uint32_t stack = 0;  // one of the merged stacks
    std::vector<AgesInfo> ages;
    double objects = 0, bytes = 0;  // freed, of known or unknown age
  };

  OfStack& Of(uint32_t stack) {
    const auto [place, added] =
        index_.emplace(std::pair(stacks_.Intern(stack), state_.stack(stack).labels), freed_.size());
    if (added) freed_.emplace_back().stack = stack;
    return freed_[place->second];
  }

  void AddAllFreed() {
    for (const AgesInfo& info : state_.table->ages) {
      std::vector<AgesInfo>& ages = Of(info.stack).ages;
      const auto same = std::find_if(ages.begin(), ages.end(), [&info](const AgesInfo& other) {
        return other.bucket == info.bucket && other.freed_by == info.freed_by;
      });
      if (same == ages.end()) {
        ages.push_back(info);
        continue;
      }
      same->objects += info.objects;
      same->bytes += info.bytes;
      same->ages_ns += info.ages_ns;
      same->variance += info.variance;
    }
    // If only some blocks have known ages, the rows still count every free.
    if (state_.table->ages_are_drawn) {
      for (const RowInfo& row : state_.table->rows) {
        if (row.profile != ProfileKind::kHeap || row.sums[kFreeObjects] <= 0) continue;
        OfStack& of = Of(row.stack);
        of.objects += row.sums[kFreeObjects];
        of.bytes += row.sums[kFreeSpace];
        variances_[kObjects] += row.sums[kFreeObjectsVariance];
        variances_[kSpace] += row.sums[kFreeSpaceVariance];
      }
    }
    for (OfStack& of : freed_) AddFreed(&of);
  }

  // Takes the counts from the rows. If ages are known for randomly chosen blocks, they represent all blocks, in
  // proportion. If no block was chosen yet, each known age represents only its own block, and the other ages are
  // unknown.
  void AddFreed(OfStack* of) {
    AgesInfo known{};
    for (const AgesInfo& info : of->ages) {
      known.objects += info.objects;
      known.bytes += info.bytes;
      known.variance += info.variance;
    }
    const bool counted = state_.table->ages_are_drawn && of->objects > 0;
    const bool represent_all = counted && known.variance > 0;
    const double objects = represent_all ? of->objects / known.objects : 1;
    const double bytes = represent_all && known.bytes > 0 ? of->bytes / known.bytes : 1;
    // Rounds so that the parts add up to the whole.
    std::array<double, 2> sum = {}, whole = {};
    const auto part = [&](int type, double value) {
      sum[type] += value;
      const double before = std::exchange(whole[type], std::round(sum[type]));
      return columns_.Value(type, whole[type] - before);
    };
    for (const AgesInfo& info : of->ages) {
      const double mean = info.bytes / info.objects, mean_age = info.ages_ns / info.objects;
      if (!state_.table->ages_are_drawn) {
        variances_[kObjects] += info.variance;
        variances_[kSpace] += info.variance * mean * mean;
      }
      variances_[kLifetime] += info.variance * mean_age * mean_age;
      values_ = {part(kObjects, info.objects * objects), part(kSpace, info.bytes * bytes),
                 columns_.Value(kLifetime, info.ages_ns * objects), 0};
      Add(info.stack, info.bucket,
          {.key = Intern("freed"), .text = Intern(kFreedByNames[static_cast<int>(info.freed_by)])});
    }
    if (!counted || represent_all) return;
    values_ = {part(kObjects, std::max(0.0, of->objects - sum[kObjects])),
               part(kSpace, std::max(0.0, of->bytes - sum[kSpace])), 0, 0};
    Add(of->stack, kNoBucket, {.key = Intern("freed"), .text = Intern(kAgeNotKnown)});
  }

  // The bytes in use of a stack with its labels, for one size class.
  struct AliveOfClass {
    uint32_t stack = 0;  // one of the merged stacks
    uint64_t class_bytes = 0;
    double bytes = 0;  // from the rows, as in the heap profile
    // By age: exactly counted blocks, and blocks that represent others.
    std::array<double, kAgeBuckets> counted = {}, represented = {};
  };
  using DrawnAges = std::array<double, kAgeBuckets>;

  // The rows have the bytes in use, exactly if every allocation is recorded. The live samples have the ages.
  void AddAllAlive() {
    std::vector<AliveOfClass> classes;
    absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint64_t>, size_t> index;
    const auto of_class = [&](uint32_t stack, uint64_t class_bytes) -> AliveOfClass& {
      // The overflow stack has all sizes.
      if (state_.stack(stack).overflow) class_bytes = 0;
      const auto [place, added] =
          index.emplace(std::tuple(stacks_.Intern(stack), state_.stack(stack).labels, class_bytes), classes.size());
      if (added) classes.push_back({.stack = stack, .class_bytes = class_bytes});
      return classes[place->second];
    };
    for (const RowInfo& row : state_.table->rows) {
      if (row.profile != ProfileKind::kHeap) continue;
      const double bytes = std::max(0.0, row.sums[kAllocSpace] - row.sums[kFreeSpace]);
      if (bytes == 0) continue;
      of_class(row.stack, row.class_bytes).bytes += bytes;
      variances_[kAlive] += std::max(0.0, row.sums[kAllocSpaceVariance] - row.sums[kFreeSpaceVariance]);
    }
    // A size class without a block of known age takes the ages of the stack's other small blocks.
    absl::flat_hash_map<std::pair<uint32_t, uint32_t>, DrawnAges> drawn;
    for (const AliveInfo& info : state_.table->alive) {
      AliveOfClass& of = of_class(info.stack, info.class_bytes);
      (info.variance > 0 ? of.represented : of.counted)[info.bucket] += info.bytes;
      if (state_.table->ages_are_drawn && info.variance > 0)
        drawn[{stacks_.Intern(info.stack), state_.stack(info.stack).labels}][info.bucket] += info.bytes;
    }
    for (const AliveOfClass& of : classes) {
      const auto ages = drawn.find({stacks_.Intern(of.stack), state_.stack(of.stack).labels});
      AddAlive(of, ages != drawn.end() && of.class_bytes <= kLargestShadowed ? &ages->second : nullptr);
    }
  }

  void AddAlive(const AliveOfClass& of, const DrawnAges* of_others) {
    const auto sum = [](const std::array<double, kAgeBuckets>& ages) {
      return std::accumulate(ages.begin(), ages.end(), 0.0);
    };
    // A block may have been freed between reading the rows and the live samples.
    const double counted = sum(of.counted), left = std::max(0.0, of.bytes - counted);
    const double scale = counted > of.bytes ? of.bytes / counted : 1;
    const std::array<double, kAgeBuckets>* drawn = sum(of.represented) > 0 ? &of.represented : of_others;
    const double represents = drawn != nullptr ? left / sum(*drawn) : 0;
    double whole = 0, added = 0;
    // Rounds so that the parts add up to the whole.
    const auto add = [&](int bucket, double bytes) {
      whole += bytes;
      const double before = std::exchange(added, std::round(whole));
      values_ = {0, 0, 0, columns_.Value(kAlive, added - before)};
      Profile::Label size{};
      if (!state_.stack(of.stack).overflow)
        size = {.key = Intern("bytes"), .number = static_cast<int64_t>(of.class_bytes), .unit = Intern("bytes")};
      Add(of.stack, bucket, size);
    };
    for (int bucket = 0; bucket < kAgeBuckets; ++bucket)
      add(bucket, scale * of.counted[bucket] + (drawn != nullptr ? represents * (*drawn)[bucket] : 0));
    add(kNoBucket, of.bytes - whole);
  }

  void Add(uint32_t stack, int bucket, const Profile::Label& label) {
    if (values_ == std::array<int64_t, kTypes>{}) return;
    labels_.clear();
    if (bucket != kNoBucket)
      labels_.push_back({.key = Intern("age"), .number = kAgeBucketEdges.ns[bucket], .unit = Intern("nanoseconds")});
    if (label.key != 0) labels_.push_back(label);
    AddThreadLabels(state_.table->label_sets[state_.stack(stack).labels], &profile_, &labels_);
    profile_.AddSample(stacks_.Frames(stacks_.Intern(stack)), values_, labels_);
  }

  const ProcessState& state_;
  Profile profile_;
  Segments segments_;
  StackInterner stacks_;
  std::vector<OfStack> freed_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, size_t> index_;  // of the merged groups, by stack and labels
  std::vector<Profile::Label> labels_;                                // of the current sample
  std::array<int64_t, kTypes> values_ = {};
  std::array<double, kTypes> variances_ = {};
  Columns columns_;
};

}  // namespace

Profile BuildLifetimesProfile(const ProcessState& state) { return LifetimesBuilder(state).Build(); }

}  // namespace holdfast
