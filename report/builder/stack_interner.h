// Shared by the builders of profiles: a snapshot's stacks as lists of a profile's locations, labels, and rounding. Only
// for report/builder. One thread.
#ifndef HOLDFAST_REPORT_BUILDER_STACK_INTERNER_H_
#define HOLDFAST_REPORT_BUILDER_STACK_INTERNER_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "report/builder/code_segments.h"
#include "report/observe/process_state.h"
#include "report/profile/profile.h"
#include "sampler/contract/deep_stacks.h"

namespace holdfast {

// Rounds to the nearest; negative values and NaN become 0.
int64_t Rounded(double value);

// Rounds the values of a profile's columns. Limits values so that viewers can add up each column (kMaxValue).
class Columns {
 public:
  // Returns the value as written to the file.
  int64_t Value(size_t type, double value);
  uint64_t full_sums() const { return full_sums_; }  // how many values were limited

 private:
  std::array<uint64_t, 4> totals_ = {};
  uint64_t full_sums_ = 0;
};

// Sets the sample types for a profile of blocks; viewers show the one at `shown` by default.
void DescribeBlocks(const ProcessState& state, std::span<const std::pair<const char*, const char*>> types, size_t shown,
                    Profile* profile);

// Adds the program's own labels from `set`.
void AddThreadLabels(const LabelPairs& set, Profile* profile, std::vector<Profile::Label>* labels);

// Addresses below this contain no code: Linux maps nothing in the first page (vm.mmap_min_addr).
inline constexpr uint64_t kLowestCode = 4096;
inline constexpr uint64_t kOverflowAddress = 1, kNoStackAddress = 2, kTruncatedAddress = 3, kOmittedAddress = 4,
                          kFirstNamedAddress = 16;

// Interns stacks as lists of location indices. Two records of the table may have the same frames (a race between two
// threads), and collectors distinguish stacks only by addresses and labels.
class StackInterner {
 public:
  StackInterner(const ProcessState& state, const Segments& segments, Profile* profile)
      : state_(state), segments_(segments), profile_(profile), ids_(state.stack_count(), Profile::kNone) {}

  uint32_t Intern(uint32_t stack) {
    if (stack == kNoStack) return InternFrames({Synthetic(kNoStackAddress, "[no stack]")});
    if (ids_[stack] != Profile::kNone) return ids_[stack];
    return ids_[stack] = InternFrames(FramesOf(state_.stack(stack)));
  }
  // A stack with a single synthetic frame; `number` identifies it.
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
      if (pc == kOmittedFrames) {
        frames.push_back(Synthetic(kOmittedAddress, "[…]"));
        continue;
      }
      if ((pc & kPcMask) <= kLowestCode) {  // not code: the frames above it are unreliable
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

  // kOurs: not one of the program's frames. Millions of frames have a few thousand addresses, so most are found without
  // hashing.
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

  const ProcessState& state_;
  const Segments& segments_;
  Profile* profile_;
  std::vector<uint32_t> ids_;  // stack of the snapshot → index into frames_
  std::unordered_map<std::vector<uint32_t>, uint32_t, HashFrames> by_frames_;  // keys have stable addresses
  std::vector<const std::vector<uint32_t>*> frames_;
  absl::flat_hash_map<uint64_t, uint32_t> by_address_;
  static constexpr uint32_t kOurs = Profile::kNone;
  static constexpr uint64_t kRecent = 4093;  // a prime, because return addresses are not random
  struct Recent {
    uint64_t address;
    uint32_t location;
  };
  std::vector<Recent> recent_ = std::vector<Recent>(kRecent);
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_STACK_INTERNER_H_
