// What builders of profiles share: stacks of a snapshot as lists of a profile's locations, labels, and rounding.
// Inside of report/export only. One thread.
#ifndef HOLDFAST_REPORT_EXPORT_STACK_INTERNER_H_
#define HOLDFAST_REPORT_EXPORT_STACK_INTERNER_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "report/export/code_segments.h"
#include "report/pprof/profile.h"
#include "report/table/snapshot.h"

namespace holdfast {

// To the nearest; what is below 0, or no number, is 0.
int64_t Rounded(double value);

// The values of a profile's columns, column by column, rounded; cut where a viewer could not add the column up (kMostValue).
class Columns {
 public:
  // As it is to stand in the file.
  int64_t Value(size_t type, double value);
  uint64_t full_sums() const { return full_sums_; }  // how many were cut

 private:
  std::array<uint64_t, 4> totals_ = {};
  uint64_t full_sums_ = 0;
};

// What the builders of a profile of blocks say of its types; by default viewers show the one at `shown`.
void DescribeBlocks(const Snapshot& snapshot, std::span<const std::pair<const char*, const char*>> types, size_t shown,
                    Profile* profile);

// Of the program's own, as `set` has them.
void AddThreadLabels(const LabelPairs& set, Profile* profile, std::vector<Profile::Label>* labels);

// Where no code can be: Linux maps nothing in the first page (vm.mmap_min_addr).
inline constexpr uint64_t kLowestCode = 4096;
inline constexpr uint64_t kOverflowAddress = 1, kNoStackAddress = 2, kTruncatedAddress = 3, kFirstNamedAddress = 16;

// Stacks as lists of location indices, each list once: two records of the table may hold the same frames (a race
// between two threads), and collectors tell stacks apart by addresses and labels alone.
class StackInterner {
 public:
  StackInterner(const Snapshot& snapshot, const Segments& segments, Profile* profile)
      : snapshot_(snapshot), segments_(segments), profile_(profile), ids_(snapshot.stacks.size(), Profile::kNone) {}

  uint32_t Intern(uint32_t stack) {
    if (stack == kNoStack) return InternFrames({Synthetic(kNoStackAddress, "[no stack]")});
    if (ids_[stack] != Profile::kNone) return ids_[stack];
    return ids_[stack] = InternFrames(FramesOf(snapshot_.stacks[stack]));
  }
  // A stack of one frame that is no code; `number` tells it from others.
  uint32_t InternNamed(uint32_t number, std::string_view name) {
    return InternFrames({Synthetic(kFirstNamedAddress + number, name)});
  }
  const std::vector<uint32_t>& Frames(uint32_t id) const { return *frames_[id]; }

 private:
  uint32_t InternFrames(std::vector<uint32_t> frames) {
    const auto next = static_cast<uint32_t>(frames_.size());
    const auto [place, added] = by_frames_.emplace(std::move(frames), next);
    if (added) frames_.push_back(&place->first);
    return place->second;
  }

  std::vector<uint32_t> FramesOf(const StackInfo& stack) {
    if (stack.overflow) return {Synthetic(kOverflowAddress, "[overflow]")};
    std::vector<uint32_t> frames;
    frames.reserve(stack.frames.size() + 1);
    bool truncated = stack.truncated;
    for (const TaggedPc pc : stack.frames) {
      if ((pc & kPcMask) <= kLowestCode) {  // not code: what is above it cannot be trusted
        truncated = true;
        break;
      }
      const uint32_t location = LocationAt(pc - 1);
      if (location != kOurs) frames.push_back(location);
    }
    if (frames.empty()) return {Synthetic(kNoStackAddress, "[no stack]")};
    if (truncated) frames.push_back(Synthetic(kTruncatedAddress, "[truncated]"));
    return frames;
  }

  // kOurs: none of the program's. Millions of frames are a few thousand addresses: most are found without a hash.
  uint32_t LocationAt(uint64_t address) {
    Recent& recent = recent_[address % kRecent];
    if (recent.address == address) return recent.location;
    if (const uint64_t plain = address & kPcMask;
        IsOutsideModules(address) && segments_.Find(plain) == Profile::kNone) {
      const uint32_t location = LocationAt(plain);
      recent = {address, location};
      return location;
    }
    const auto [place, added] = by_address_.emplace(address, kOurs);
    if (added && !segments_.IsOurs(address)) {
      place->second = static_cast<uint32_t>(profile_->locations.size());
      profile_->locations.push_back({.address = address, .mapping = segments_.Find(address)});
    }
    recent = {address, place->second};
    return place->second;
  }

  uint32_t Synthetic(uint64_t address, std::string_view name) {
    const auto before = profile_->locations.size();
    const uint32_t index = LocationAt(address);
    if (profile_->locations.size() != before) {
      const Profile::Line line{.function = static_cast<uint32_t>(profile_->functions.size())};
      profile_->functions.push_back({.name = profile_->strings.Intern(name)});
      profile_->SetLines(&profile_->locations[index], {&line, 1});
    }
    return index;
  }

  struct HashFrames {
    size_t operator()(const std::vector<uint32_t>& frames) const { return absl::HashOf(frames); }
  };

  const Snapshot& snapshot_;
  const Segments& segments_;
  Profile* profile_;
  std::vector<uint32_t> ids_;  // stack of the snapshot → index into frames_
  std::unordered_map<std::vector<uint32_t>, uint32_t, HashFrames> by_frames_;  // its keys stay where they are
  std::vector<const std::vector<uint32_t>*> frames_;
  absl::flat_hash_map<uint64_t, uint32_t> by_address_;
  static constexpr uint32_t kOurs = Profile::kNone;
  static constexpr uint64_t kRecent = 4093;  // a prime: return addresses are no random numbers
  struct Recent {
    uint64_t address;
    uint32_t location;
  };
  std::vector<Recent> recent_ = std::vector<Recent>(kRecent);
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_STACK_INTERNER_H_
