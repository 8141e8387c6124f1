#include "report/show/holders_profile.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr char kSmaller[] = "[smaller holders]";

class TreeAsProfile {
 public:
  TreeAsProfile() {
    profile_.sample_types = {{Intern("held_objects"), Intern("count")}, {Intern("held_space"), Intern("bytes")}};
    profile_.default_sample_type = Intern("held_space");
    profile_.mutable_process()->kind = kHoldersKind;
  }
  // Adds what is below a node. `path_` leads to the node, outermost first.
  void AddBelow(const HolderNode& node) {
    for (const HolderNode& below : node.below) {
      path_.push_back(LocationOf(below.label));
      AddBelow(below);
      // Retained bytes in no row below are the row's own: its blocks, and everything too deep to show.
      uint64_t shown = below.hidden;
      for (const HolderNode& one : below.below) shown += one.retained;
      AddHere(below.bytes == 0 ? 0 : below.blocks, below.retained - std::min(below.retained, shown));
      path_.pop_back();
    }
    if (node.hidden == 0) return;
    path_.push_back(LocationOf(kSmaller));
    AddHere(0, node.hidden);
    path_.pop_back();
  }
  Profile Take() { return std::move(profile_); }

 private:
  StringId Intern(std::string_view text) { return profile_.strings.Intern(text); }
  void AddHere(uint64_t blocks, uint64_t bytes) {
    if (blocks == 0 && bytes == 0) return;
    const std::vector<uint32_t> frames(path_.rbegin(), path_.rend());
    const std::array<int64_t, 2> values = {static_cast<int64_t>(blocks), static_cast<int64_t>(bytes)};
    profile_.AddSample(frames, values, {});
  }
  uint32_t LocationOf(const std::string& label) {
    const auto [place, added] = locations_.emplace(label, static_cast<uint32_t>(profile_.locations.size()));
    if (!added) return place->second;
    const auto function = static_cast<uint32_t>(profile_.functions.size());
    profile_.functions.push_back({.name = Intern(label)});
    Profile::Location& location = profile_.locations.emplace_back();
    const Profile::Line line{.function = function};
    profile_.SetLines(&location, {&line, 1});
    return place->second;
  }

  Profile profile_;
  std::vector<uint32_t> path_;
  std::map<std::string, uint32_t> locations_;
};

}  // namespace

Profile HoldersProfile(const HolderNode& all) {
  TreeAsProfile profile;
  profile.AddBelow(all);
  return profile.Take();
}

}  // namespace holdfast
