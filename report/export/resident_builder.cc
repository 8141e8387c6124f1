#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/export/code_segments.h"
#include "report/export/profile_builder.h"
#include "report/export/profile_comments.h"
#include "report/export/running_program.h"
#include "report/export/stack_interner.h"

namespace holdfast {
namespace {

enum ResidentType { kLiveObjects, kLiveSpace, kResidentSpace, kResidentTypes };

constexpr std::pair<const char*, const char*> kTypesOfResident[] = {
    {"inuse_objects", "count"}, {"inuse_space", "bytes"}, {"resident_space", "bytes"}};

// What one sample of the profile adds up.
struct SummedUp {
  uint32_t stack;  // index into Snapshot::stacks: one of those that are alike
  uint64_t class_bytes;
  std::array<double, kResidentTypes> sums;
};

class ResidentBuilder {
 public:
  explicit ResidentBuilder(const Snapshot& snapshot)
      : snapshot_(snapshot), segments_(snapshot), stacks_(snapshot, segments_, &profile_) {}

  Profile Build() {
    DescribeBlocks(snapshot_, kTypesOfResident, kResidentSpace, &profile_);
    for (const SummedUp& group : Grouped()) Add(group);
    AddComments(snapshot_, kResidentFile, nullptr, variances_, columns_.full_sums(), &profile_);
    const FramesOfStack frames = [this](uint32_t stack) { return stacks_.Frames(stacks_.Intern(stack)); };
    if (!profile_.samples.empty()) AddThreadComments(snapshot_, frames, &profile_);
    segments_.AddMappings(&profile_);
    return std::move(profile_);
  }

 private:
  StringId Intern(std::string_view text) { return profile_.strings.Intern(text); }

  // A row that is not in the snapshot was made after it.
  std::vector<SummedUp> Grouped() {
    absl::flat_hash_map<Offset, const ResidentRow*> found;
    for (const ResidentRow& row : snapshot_.resident_rows) found.emplace(row.row, &row);
    std::vector<SummedUp> groups;
    absl::flat_hash_map<std::tuple<uint32_t, uint64_t, uint32_t>, size_t> index;
    for (const RowInfo& row : snapshot_.rows) {
      const auto of = found.find(row.place);
      if (row.profile != ProfileKind::kHeap || of == found.end()) continue;
      const ResidentRow& resident = *of->second;
      const auto [place, added] = index.emplace(
          std::tuple(stacks_.Intern(row.stack), row.class_bytes, snapshot_.stacks[row.stack].labels), groups.size());
      if (added) groups.push_back({row.stack, row.class_bytes, {}});
      std::array<double, kResidentTypes>& sums = groups[place->second].sums;
      sums[kLiveObjects] += resident.objects;
      sums[kLiveSpace] += resident.bytes;
      sums[kResidentSpace] += resident.resident;
      variances_[kLiveObjects] += resident.objects_variance;
      variances_[kLiveSpace] += resident.bytes_variance;
      variances_[kResidentSpace] += resident.resident_variance;
    }
    return groups;
  }

  void Add(const SummedUp& group) {
    const StackInfo& stack = snapshot_.stacks[group.stack];
    const std::array<int64_t, kResidentTypes> values = {columns_.Value(kLiveObjects, group.sums[kLiveObjects]),
                                                        columns_.Value(kLiveSpace, group.sums[kLiveSpace]),
                                                        columns_.Value(kResidentSpace, group.sums[kResidentSpace])};
    labels_.clear();
    if (!stack.overflow) {
      labels_.push_back(
          {.key = Intern("bytes"), .number = static_cast<int64_t>(group.class_bytes), .unit = Intern("bytes")});
    }
    AddThreadLabels(snapshot_.label_sets[stack.labels], &profile_, &labels_);
    profile_.AddSample(stacks_.Frames(stacks_.Intern(group.stack)), values, labels_);
  }

  const Snapshot& snapshot_;
  Profile profile_;
  Segments segments_;
  StackInterner stacks_;
  std::vector<Profile::Label> labels_;  // of the sample that is being made
  std::array<double, kResidentTypes> variances_ = {};
  Columns columns_;
};

}  // namespace

Profile BuildResidentProfile(const Snapshot& snapshot) { return ResidentBuilder(snapshot).Build(); }

}  // namespace holdfast
