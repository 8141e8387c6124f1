// The stacks of a profile as every view works on them: filters applied, frames turned into nodes, once.
//
// A *node* is one line of a table or one box of a graph: a function (its name, wherever it lies), or with `by` a source
// line, a file, an object, a package. A stack is a list of nodes, leaf first, and one value for each chosen column.
//
//   Profile ──(drop frames, focus, ignore, hide, show, show_from, tags, fold)──► FilteredStacks ──► FlatTable, CallTree,
//   CallTree, ReportBuilder
//
// The rules of filters are those of `go tool pprof` (tests compare row by row):
//   focus, ignore   keep or drop whole stacks by a function, source file or object in them
//   hide, show      drop matching frames, or all that do not match; a stack without frames is dropped
//   show_from       cuts what is above the outermost matching frame; stacks without one are dropped
//   tag_focus, tag_ignore   by label: "wait=mutex", "bytes=1KiB:64KiB", or an expression on key:value
// Frames without a name are one node for each object: [libfoo.so]. Inlined functions are nodes of their own unless
// `inlines` is off: then only the function that they were inlined into counts.
//
// 1,000,000 stacks of 30 frames: 0.2 s and 130 MB. Keeps the profile. Not changed after Build: any number of threads.
#ifndef HOLDFAST_REPORT_PROFILES_FILTERED_STACKS_H_
#define HOLDFAST_REPORT_PROFILES_FILTERED_STACKS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "report/pprof/object_names.h"
#include "report/pprof/profile.h"

namespace holdfast {

struct StackOptions {
  std::string focus = "", ignore = "", hide = "", show = "", show_from = "", tag_focus = "", tag_ignore = "";
  bool fold_system = false;                // system frames (frame_origin.h) count for their callers
  bool fold_plumbing = false;              // all plumbing (plumbing.h) does …
  std::vector<std::string> plumbing = {};  // … and what these patterns match
  bool inlines = true;
  bool folds() const { return fold_system || fold_plumbing; }
  // function, line, file, object, package; anything else is a label, whose value becomes the outermost node. thread,
  // where the profile has no such label: what the thread was started with (thread_start.h).
  std::string by = "function";
  // Functions are one that are one in two builds of a program (function_identity.h), and so are objects of one file name.
  bool across_builds = false;
  // Nodes are single frames, whatever `by` says: function, line, object, whether inlined. For the HTML page, which adds
  // up by functions itself.
  bool single_frames = false;
};

struct FrameNode {
  std::string name;  // as it is shown; may hold any bytes
  StringId function = 0, file = 0;
  int64_t line = 0;               // of its first location, 0: not known
  std::vector<StringId> objects;  // paths, the first few
  bool is_label = false;          // a label's value, no frame
  int64_t number = 0;             // then, if it is one
  // Of its first location: indices into the profile, kNone: not known.
  uint32_t profile_function = Profile::kNone, mapping = Profile::kNone;
  bool is_inlined = false;
};

class FilteredStacks {
 public:
  // Nodes name at most so many objects.
  static constexpr size_t kMaxObjects = 16;

  // `columns`: sample types to keep. `variances` as VariancesOf gives them, or empty.
  static absl::StatusOr<FilteredStacks> Build(std::shared_ptr<const Profile> profile, std::vector<size_t> columns,
                                              const StackOptions& options, std::span<const double> variances = {});

  const Profile& profile() const { return *profile_; }
  const std::vector<FrameNode>& nodes() const { return nodes_; }
  const ObjectNames& object_names() const { return object_names_; }
  size_t columns() const { return columns_; }
  size_t size() const { return stacks_.size(); }

  // Leaf first.
  std::span<const uint32_t> FramesOf(size_t stack) const {
    return {frames_.data() + stacks_[stack].first, stacks_[stack].frames};
  }
  std::span<const int64_t> ValuesOf(size_t stack) const { return {values_.data() + stack * columns_, columns_}; }
  // Zeros when nothing is known.
  double VarianceOf(size_t stack, size_t column) const {
    return variances_.empty() ? 0 : variances_[stack * columns_ + column];
  }
  bool has_variances() const { return !variances_.empty(); }
  // The nodes of one of the profile's locations, innermost first, after the filters by name.
  std::span<const uint32_t> NodesOf(uint32_t location) const {
    return {location_nodes_.data() + first_location_node_[location],
            location_nodes_.data() + first_location_node_[location + 1]};
  }
  // The index of the sample in the profile.
  size_t SampleOf(size_t stack) const { return stacks_[stack].sample; }

  // Of the stacks that the filters left, and of all.
  int64_t Selected(size_t column) const { return selected_[column]; }
  int64_t Whole(size_t column) const { return whole_[column]; }
  double SelectedVariance(size_t column) const { return selected_variance_[column]; }

 private:
  friend class StacksBuilder;
  struct Stack {
    uint64_t first;
    uint32_t frames, sample;
  };

  std::shared_ptr<const Profile> profile_;
  ObjectNames object_names_;
  size_t columns_ = 0;
  std::vector<FrameNode> nodes_;
  std::vector<Stack> stacks_;
  std::vector<uint32_t> frames_;
  std::vector<uint32_t> first_location_node_, location_nodes_;
  std::vector<int64_t> values_, selected_, whole_;
  std::vector<double> variances_, selected_variance_;
};

// Sums wrap as they do in other readers: a hostile file must not be undefined behaviour.
inline int64_t WrappedSum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t WrappedDifference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline uint64_t Magnitude(int64_t a) { return a < 0 ? -static_cast<uint64_t>(a) : static_cast<uint64_t>(a); }

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILES_FILTERED_STACKS_H_
