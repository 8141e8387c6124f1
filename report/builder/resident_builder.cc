#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/base/libc_names.h"
#include "report/builder/code_segments.h"
#include "report/builder/file_kinds.h"
#include "report/builder/profile_builder.h"
#include "report/builder/profile_comments.h"
#include "report/builder/stack_interner.h"
#include "report/builder/written_threads.h"
#include "report/observe/memory/libc_mappings.h"

namespace holdfast {
namespace {

enum ResidentType { kLiveObjects, kLiveSpace, kResidentSpace, kSwappedSpace, kResidentTypes };

constexpr std::pair<const char*, const char*> kTypesOfResident[] = {
    {"inuse_objects", "count"}, {"inuse_space", "bytes"}, {"resident_space", "bytes"}, {"swapped_space", "bytes"}};

// The sums of one sample.
struct SummedUp {
  uint32_t stack;   // id from StackInterner
  uint32_t labels;  // index into TableSnapshot::label_sets
  bool overflow;
  MappingKind mapping;  // kNone: blocks
  uint64_t class_bytes;
  std::array<double, kResidentTypes> sums = {};
};

class ResidentBuilder {
 public:
  explicit ResidentBuilder(const ProcessState& state)
      : state_(state), segments_(state), stacks_(state, segments_, &profile_) {}

  Profile Build() {
    DescribeBlocks(state_, kTypesOfResident, kResidentSpace, &profile_);
    for (const SummedUp& group : Grouped()) Add(group);
    AddComments(state_, kFileKinds[kResidentFile], variances_, columns_.full_sums(), &profile_);
    const FramesOfStack frames = [this](uint32_t stack) { return stacks_.Frames(stacks_.Intern(stack)); };
    if (!profile_.samples.empty()) AddThreadRecords(state_, frames, &profile_);
    segments_.AddMappings(&profile_);
    return std::move(profile_);
  }

 private:
  StringId Intern(std::string_view text) { return profile_.strings.Intern(text); }

  // Skips rows that were made after the snapshot.
  std::vector<SummedUp> Grouped() {
    absl::flat_hash_map<Offset, const ResidentRow*> found;
    for (const ResidentRow& row : state_.residency.rows) {
      if (row.libc == nullptr) found.emplace(row.row, &row);
    }
    std::vector<SummedUp> groups;
    absl::flat_hash_map<std::tuple<uint32_t, uint64_t, uint32_t, MappingKind>, size_t> index;
    for (const RowInfo& row : state_.table->rows) {
      const auto of = found.find(row.place);
      const bool is_mapping = row.profile == ProfileKind::kMap || row.has_thread_stacks();
      if ((row.profile != ProfileKind::kHeap && !is_mapping) || of == found.end()) continue;
      const StackInfo& stack = state_.stack(row.stack);
      const MappingKind mapping = !is_mapping               ? MappingKind::kNone
                                  : of->second->has_blocks  ? MappingKind::kArena
                                  : row.has_thread_stacks() ? MappingKind::kStack
                                                            : static_cast<MappingKind>(row.mark);
      const uint64_t class_bytes = is_mapping ? 0 : row.class_bytes;
      const auto [place, added] =
          index.emplace(std::tuple(stacks_.Intern(row.stack), class_bytes, stack.labels, mapping), groups.size());
      if (added) groups.push_back({std::get<0>(place->first), stack.labels, stack.overflow, mapping, class_bytes});
      Sum(*of->second, &groups[place->second]);
    }
    for (const ResidentRow& row : state_.residency.rows) {
      if (row.libc == nullptr) continue;
      // As in the kind `map`, which has all of libc's mappings.
      const auto kind = std::string_view(row.libc) == kGlibcArenas ? MappingKind::kArena : MappingKind::kBrk;
      groups.push_back({stacks_.InternNamed(static_cast<uint32_t>(kind), row.libc), 0, false,
                        row.has_blocks ? MappingKind::kArena : kind, 0});
      Sum(row, &groups.back());
    }
    return groups;
  }

  void Sum(const ResidentRow& row, SummedUp* group) {
    const std::array<double, kResidentTypes> values = {row.objects, row.bytes, row.resident, row.swapped};
    const std::array<double, kResidentTypes> variances = {row.objects_variance, row.bytes_variance,
                                                          row.resident_variance, row.swapped_variance};
    for (int type = 0; type < kResidentTypes; ++type) {
      group->sums[type] += values[type];
      variances_[type] += variances[type];
    }
  }

  void Add(const SummedUp& group) {
    std::array<int64_t, kResidentTypes> values;
    for (int type = 0; type < kResidentTypes; ++type) values[type] = columns_.Value(type, group.sums[type]);
    // Blocks cover all of it, or it has become empty.
    if (values[kLiveSpace] == 0 && group.mapping != MappingKind::kNone) return;
    labels_.clear();
    if (group.mapping != MappingKind::kNone) {
      labels_.push_back(
          {.key = Intern("mapping"), .text = Intern(kMappingKindNames[static_cast<size_t>(group.mapping)])});
    } else if (!group.overflow) {
      labels_.push_back(
          {.key = Intern("bytes"), .number = static_cast<int64_t>(group.class_bytes), .unit = Intern("bytes")});
    }
    AddThreadLabels(state_.table->label_sets[group.labels], &profile_, &labels_);
    profile_.AddSample(stacks_.Frames(group.stack), values, labels_);
  }

  const ProcessState& state_;
  Profile profile_;
  Segments segments_;
  StackInterner stacks_;
  std::vector<Profile::Label> labels_;  // of the current sample
  std::array<double, kResidentTypes> variances_ = {};
  Columns columns_;
};

}  // namespace

Profile BuildResidentProfile(const ProcessState& state) { return ResidentBuilder(state).Build(); }

}  // namespace holdfast
