// The part of FilteredStacks that examines each location once: which nodes the location becomes after the filters by
// name, and what filters of whole stacks must know about it. Used only by filtered_stacks.cc.
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_LOCATION_NODES_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_LOCATION_NODES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/base/pattern.h"

namespace holdfast {

class LocationNodes {
 public:
  // The messages of errors name the option.
  static absl::StatusOr<LocationNodes> Make(const Profile& profile, const StackOptions& options,
                                            std::vector<FrameNode>* nodes);

  struct Flags {
    bool focused = false, ignored = false, shown_from = false;
    bool pruned = false;          // by the profile's own drop_frames: remove this frame and all below it …
    bool pruned_beneath = false;  // … or only the frames below it
  };
  const Flags& FlagsOf(uint32_t location) const { return flags_[location]; }
  // Returns the nodes, innermost first. Returns none if the location is hidden.
  std::span<const uint32_t> NodesOf(uint32_t location) const {
    return {at_.data() + first_[location], at_.data() + first_[location + 1]};
  }
  // Whether every location becomes at most one node. If so, OnlyNodeOf returns it, or kNone for a hidden location.
  bool IsOneAtMost() const { return only_.size() == flags_.size(); }
  uint32_t OnlyNodeOf(uint32_t location) const { return only_[location]; }
  // Returns the node of a folded location, for stacks that have nothing else left.
  uint32_t FoldedNode(uint32_t location, std::vector<FrameNode>* nodes);

  // Moves out what NodesOf returns, as two columns. Call last.
  void Take(std::vector<uint32_t>* first, std::vector<uint32_t>* nodes) {
    *first = std::move(first_);
    *nodes = std::move(at_);
  }

  bool has_focus() const { return !focus_.empty() || !ignore_.empty(); }
  bool has_show_from() const { return !show_from_.empty(); }
  bool prunes() const { return !drop_.empty(); }

 private:
  explicit LocationNodes(const Profile& profile, const StackOptions& options)
      : profile_(profile), object_names_(profile), options_(options) {}

  void Look(uint32_t location, std::vector<FrameNode>* nodes);
  bool Prunes(StringId name);
  bool IsFolded(uint32_t function, uint32_t mapping);
  std::vector<Profile::Line> Remaining(uint32_t location, Flags* flags);
  // `line`: null if the location has none. `is_inlined`: into another line of the same location.
  uint32_t NodeOf(const Profile::Line* line, uint32_t mapping, bool is_inlined, std::vector<FrameNode>* nodes);

  // A pattern that caches its answer for each function and mapping.
  class Cached {
   public:
    void Set(Pattern pattern, const Profile& profile);
    bool empty() const { return pattern_.empty(); }
    bool MatchesFunction(const Profile& profile, uint32_t function);
    bool MatchesMapping(const Profile& profile, uint32_t mapping);
    bool MatchesLocation(const Profile& profile, uint32_t mapping, std::span<const Profile::Line> lines);

   private:
    Pattern pattern_;
    std::vector<int8_t> functions_, mappings_;  // -1: not asked yet
  };

  const Profile& profile_;
  const ObjectNames object_names_;
  const StackOptions& options_;
  Cached focus_, ignore_, hide_, show_, show_from_;
  Pattern drop_, keep_;
  absl::flat_hash_map<StringId, bool> pruned_names_;
  absl::flat_hash_map<std::string, uint32_t> by_name_;
  std::vector<int8_t> system_;        // per function; -1: not asked yet
  std::optional<Plumbing> plumbing_;  // set if plumbing is folded
  std::vector<Flags> flags_;
  std::vector<uint32_t> first_, at_;
  std::vector<uint32_t> only_;  // up to the first location with more than one node
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_LOCATION_NODES_H_
