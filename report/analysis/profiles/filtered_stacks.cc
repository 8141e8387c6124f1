#include "report/analysis/profiles/filtered_stacks.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/profiles/label_filter.h"
#include "report/analysis/profiles/location_nodes.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/thread_start.h"
#include "report/base/huge_pages.h"
#include "report/base/value_units.h"

namespace holdfast {
namespace {

constexpr std::string_view kLevels[] = {"function", "line", "file", "object", "package"};

bool IsLevel(std::string_view by) { return std::find(std::begin(kLevels), std::end(kLevels), by) != std::end(kLevels); }

std::set<std::string_view> LabelKeys(const Profile& profile) {
  std::set<std::string_view> keys;
  for (const Profile::Sample& sample : profile.samples) {
    for (const Profile::Label& label : profile.LabelsOf(sample)) keys.insert(profile.strings[label.key]);
  }
  return keys;
}

}  // namespace

class StacksBuilder {
 public:
  StacksBuilder(std::shared_ptr<const Profile> profile, std::vector<size_t> columns, const StackOptions& options,
                std::span<const double> variances)
      : p_(*profile), columns_(std::move(columns)), options_(options), variances_(variances) {
    made_.object_names_ = ObjectNames(*profile);
    made_.profile_ = std::move(profile);
    made_.columns_ = columns_.size();
    made_.selected_.resize(columns_.size());
    made_.whole_.resize(columns_.size());
    made_.selected_variance_.resize(columns_.size());
  }

  absl::StatusOr<FilteredStacks> Build() {
    const bool by_label = !options_.single_frames && !IsLevel(options_.by);
    if (by_label) {
      std::set<std::string_view> keys = LabelKeys(p_);
      by_thread_start_ = options_.by == "thread" && !keys.contains("thread");
      // In a short run, no age may be known.
      const bool has_no_age = options_.by == "age" && FindMetric(p_, "alive_space").ok();
      if (!by_thread_start_ && !has_no_age && !keys.contains(options_.by)) {
        keys.insert("thread");
        return absl::InvalidArgumentError(fmt::format("--by {}: the profile has no such label. Use {}, {}.",
                                                      options_.by, fmt::join(kLevels, ", "), fmt::join(keys, ", ")));
      }
    }
    auto tag_focus = LabelFilter::Parse("--tagfocus", options_.tag_focus, p_);
    if (!tag_focus.ok()) return tag_focus.status();
    auto tag_ignore = LabelFilter::Parse("--tagignore", options_.tag_ignore, p_);
    if (!tag_ignore.ok()) return tag_ignore.status();
    auto nodes = LocationNodes::Make(p_, options_, &made_.nodes_);
    if (!nodes.ok()) return nodes.status();

    ReserveHuge(&made_.stacks_, p_.samples.size());
    ReserveHuge(&made_.values_, p_.samples.size() * columns_.size());
    if (!variances_.empty()) ReserveHuge(&made_.variances_, p_.samples.size() * columns_.size());
    size_t frames = 0;
    for (const Profile::Sample& sample : p_.samples) frames += sample.frames;
    ReserveHuge(&made_.frames_, frames);
    collapse_ = !options_.single_frames && options_.by != "function" && options_.by != "line";
    for (size_t i = 0; i < p_.samples.size(); ++i) {
      const Profile::Sample& sample = p_.samples[i];
      const auto values = p_.ValuesOf(i);
      bool any = false;
      for (size_t c = 0; c < columns_.size(); ++c) {
        made_.whole_[c] = WrappedSum(made_.whole_[c], values[columns_[c]]);
        any = any || values[columns_[c]] != 0;
      }
      if (!any) continue;
      if (!tag_focus->empty() && !tag_focus->Matches(p_, sample)) continue;
      if (!tag_ignore->empty() && tag_ignore->Matches(p_, sample)) continue;
      const uint64_t first = made_.frames_.size();
      if (!AddFrames(p_.FramesOf(sample), *nodes)) {
        made_.frames_.resize(first);
        continue;
      }
      if (by_label) made_.frames_.push_back(LabelNode(sample));
      made_.stacks_.push_back({first, static_cast<uint32_t>(made_.frames_.size() - first), static_cast<uint32_t>(i)});
      AddValues(i, values);
    }
    nodes->Take(&made_.first_location_node_, &made_.location_nodes_);
    return std::move(made_);
  }

 private:
  // Returns false if the filters drop the stack.
  bool AddFrames(std::span<const uint32_t> frames, LocationNodes& nodes) {
    if (nodes.prunes()) frames = Pruned(frames, nodes);
    if (nodes.has_focus()) {
      bool focused = false;
      for (const uint32_t frame : frames) {
        if (nodes.FlagsOf(frame).ignored) return false;
        focused = focused || nodes.FlagsOf(frame).focused;
      }
      if (!focused) return false;
    }
    if (nodes.has_show_from()) {
      while (!frames.empty() && !(nodes.FlagsOf(frames.back()).shown_from && !nodes.NodesOf(frames.back()).empty())) {
        frames = frames.first(frames.size() - 1);
      }
      if (frames.empty()) return false;
    }
    const size_t first = made_.frames_.size();
    if (nodes.IsOneAtMost() && !collapse_) {
      AppendOnlyNodes(frames, nodes);
    } else {
      AppendNodes(frames, nodes);
    }
    if (options_.fold_recursion) FoldRecursion(first);
    if (made_.frames_.size() > first || frames.empty()) return true;
    if (!options_.folds() || !options_.hide.empty() || !options_.show.empty()) return false;
    made_.frames_.push_back(nodes.FoldedNode(frames.back(), &made_.nodes_));  // all frames are system frames
    return true;
  }

  // The common case. Whether a frame is hidden is unpredictable, so the loop has no branch for it.
  void AppendOnlyNodes(std::span<const uint32_t> frames, const LocationNodes& nodes) {
    const size_t first = made_.frames_.size();
    made_.frames_.resize(first + frames.size());
    size_t end = first;
    for (const uint32_t frame : frames) {
      made_.frames_[end] = nodes.OnlyNodeOf(frame);
      end += made_.frames_[end] != Profile::kNone;
    }
    made_.frames_.resize(end);
  }

  void AppendNodes(std::span<const uint32_t> frames, const LocationNodes& nodes) {
    const size_t first = made_.frames_.size();
    for (const uint32_t frame : frames) {
      for (const uint32_t node : nodes.NodesOf(frame)) {
        // On a coarse level, recursion is one step.
        if (collapse_ && made_.frames_.size() > first && made_.frames_.back() == node) continue;
        made_.frames_.push_back(node);
      }
    }
  }

  // From the outermost frame on: a function that comes again drops all frames since it came first.
  //
  //     main ─ value ─ list ─ value ─ list ─ value ─ string      becomes      main ─ value ─ string
  void FoldRecursion(size_t first) {
    std::vector<uint32_t>& frames = made_.frames_;
    folded_.clear();
    depth_of_.clear();
    for (size_t i = frames.size(); i-- > first;) {
      const auto [place, is_new] = depth_of_.try_emplace(FunctionKey(frames[i]), folded_.size());
      while (!is_new && folded_.size() > place->second) {
        const uint64_t dropped = FunctionKey(folded_.back());
        if (dropped != place->first) depth_of_.erase(dropped);
        folded_.pop_back();
      }
      folded_.push_back(frames[i]);
    }
    frames.resize(first);
    frames.insert(frames.end(), folded_.rbegin(), folded_.rend());
  }
  // The same for all nodes of a function. A node without one is a key of its own.
  uint64_t FunctionKey(uint32_t node) const {
    const StringId function = made_.nodes_[node].function;
    return function != 0 ? uint64_t{function} : uint64_t{node} | uint64_t{1} << 32;
  }

  // Removes the frames that the profile itself wants dropped: from the outermost such frame below a frame that stays.
  static std::span<const uint32_t> Pruned(std::span<const uint32_t> frames, const LocationNodes& nodes) {
    bool found_user = false;
    for (size_t i = frames.size(); i-- > 0;) {
      const auto& flags = nodes.FlagsOf(frames[i]);
      if (!flags.pruned && !flags.pruned_beneath) {
        found_user = true;
      } else if (found_user) {
        return frames.subspan(flags.pruned ? i + 1 : i);
      }
    }
    return frames;
  }

  uint32_t LabelNode(const Profile::Sample& sample) {
    std::string text;
    int64_t number = 0;
    if (by_thread_start_) text = ThreadStartOf(p_, p_.FramesOf(sample));
    for (const Profile::Label& label : p_.LabelsOf(sample)) {
      if (p_.strings[label.key] != options_.by) continue;
      if (!text.empty()) text += ", ";
      number = label.number;
      text += label.text != 0 ? std::string(p_.strings[label.text])
                              : FormatValue(label.number, p_.strings[label.unit], "auto");
    }
    if (text.empty()) text = options_.by == "age" ? "(age unknown)" : fmt::format("(no {})", options_.by);
    const auto [place, added] = labels_.emplace(text, static_cast<uint32_t>(made_.nodes_.size()));
    if (added) made_.nodes_.push_back({.name = text, .objects = {}, .is_label = true, .number = number});
    return place->second;
  }

  void AddValues(size_t sample, std::span<const int64_t> values) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      const int64_t value = values[columns_[c]];
      made_.values_.push_back(value);
      made_.selected_[c] = WrappedSum(made_.selected_[c], value);
      if (variances_.empty()) continue;
      const double variance = variances_[sample * p_.sample_types.size() + columns_[c]];
      made_.variances_.push_back(variance);
      made_.selected_variance_[c] += variance;
    }
  }

  const Profile& p_;
  const std::vector<size_t> columns_;
  const StackOptions& options_;
  const std::span<const double> variances_;
  bool by_thread_start_ = false;  // --by thread, and the profile has no such labels
  bool collapse_ = false;         // on a coarse level
  FilteredStacks made_;
  absl::flat_hash_map<std::string, uint32_t> labels_;
  std::vector<uint32_t> folded_;  // FoldRecursion
  absl::flat_hash_map<uint64_t, size_t> depth_of_;
};

absl::StatusOr<FilteredStacks> FilteredStacks::Build(std::shared_ptr<const Profile> profile,
                                                     std::vector<size_t> columns, const StackOptions& options,
                                                     std::span<const double> variances) {
  return StacksBuilder(std::move(profile), std::move(columns), options, variances).Build();
}

}  // namespace holdfast
