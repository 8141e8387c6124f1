#include "report/show/profile_diff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "report/analysis/flat_table.h"
#include "report/analysis/profiles/function_identity.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/stack_keys.h"
#include "report/analysis/profiles/zero_profile.h"
#include "report/base/base_name.h"
#include "report/base/printable.h"
#include "report/base/progress.h"

namespace holdfast {
namespace {

constexpr double kSigmas = 3;

// One side: its files, read and selected.
struct Side {
  ProfileSet set;
  std::vector<const ProfileFile*> files;
  std::vector<const ProfileFile*> ended = {};  // not in `files`, see EndedOf
};

// Returns a profile of zeros for a side without a file of `kind`, because nothing happened.
std::optional<Side> ZeroSide(const std::vector<std::string>& arguments, const std::string& kind) {
  auto zero = ZeroProfileIn(arguments, kind);
  if (!zero.has_value()) return std::nullopt;
  Side side;
  side.set.groups.push_back({.process = "", .kind = kind, .program = zero->program, .files = {*std::move(zero)}});
  side.files.push_back(&side.set.groups[0].files[0]);
  return side;
}

// The data kept of one side.
struct Sums {
  struct Function {
    NodeCells cells;
    std::string short_name, full_name;  // the full name is shown if the short one is ambiguous
    int64_t self, total;
    double self_variance, total_variance;
  };
  struct StackError {
    uint64_t key;
    double variance, allocated_variance;  // allocated: of all that was counted up to now
  };
  View view;
  std::string path = {}, kind = {}, types = {}, process = {}, main_object = {},
              default_metric = {};                           // of the first file; `process` is "" for several processes
  std::map<std::string, std::set<std::string>> builds = {};  // for each object's file name: its build ids
  bool cumulative = false;
  int64_t whole = 0, selected = 0;
  double variance = 0;
  bool variances_known = false;
  absl::flat_hash_map<std::string, Function> functions = {};  // keyed by identity across both sides
  std::vector<StackError> stacks = {};                        // only if a snapshot of the same process may follow
};

absl::StatusOr<Side> ReadSide(const std::vector<std::string>& arguments, const ViewOptions& options,
                              std::ostream& err) {
  Progress progress("reading profile");
  auto set = ReadProfileSet(
      arguments, {.kind = options.kind, .progress = [&](size_t done, size_t all) { progress.Show(done, all); }});
  progress.Clear();
  if (!set.ok()) {
    if (auto zero = ZeroSide(arguments, options.kind); zero.has_value()) return *std::move(zero);
    return set.status();
  }
  Side side{*std::move(set), {}};
  ViewOptions own = options;
  own.files = arguments;
  auto files = FilesThatCount(&side.set, own, err);
  if (!files.ok()) return files.status();
  side.files = *std::move(files);
  side.ended = EndedOf(&side.files, own);
  return side;
}

// For one folder: the oldest and the newest snapshot of each process.
absl::StatusOr<std::pair<Side, Side>> FirstAndLast(const ViewOptions& options, std::ostream& err) {
  // The state after exit handlers is the head only if there is no other.
  for (const bool after_exit : {false, true}) {
    auto set =
        ReadProfileSet(options.files, {.keep = KeepProfiles::kAll, .after_exit = after_exit, .kind = options.kind});
    if (!set.ok()) return set.status();
    std::pair<Side, Side> sides;
    std::ostream nowhere(nullptr);  // discard messages about selected files
    if (const auto one_kind = FilesThatCount(&*set, options, nowhere); !one_kind.ok()) return one_kind.status();
    int64_t first_ns = std::numeric_limits<int64_t>::max();
    for (const ProfileGroup& group : set->groups) {
      if (group.files.size() < 2 || group.process.empty()) continue;
      sides.first.files.push_back(&group.files.front());
      sides.second.files.push_back(&group.files.back());
      first_ns = std::min(first_ns, group.files.front().steady_nanos);
    }
    if (sides.first.files.empty()) continue;
    for (const ProfileGroup& group : set->groups) {
      if (group.files.size() != 1 || group.process.empty()) continue;
      const ProfileFile& only = group.files[0];
      if (only.start_nanos > first_ns) {
        sides.second.files.push_back(&only);  // it began later: it had nothing before
      } else {
        err << fmt::format("holdfast: {}: skipped, because its process has no earlier snapshot to compare with.\n",
                           Printable(only.path));
      }
    }
    sides.first.set = *std::move(set);
    return sides;
  }
  return absl::InvalidArgumentError(fmt::format(
      "{}: nothing to compare, because no process has two snapshots there. Give a base and a head: holdfast diff BASE HEAD.",
      options.files[0]));
}

// Leaves out processes that ended before the others, of both sides.
void LeaveOutEnded(const ViewOptions& options, std::pair<Side, Side>* sides) {
  auto& [base, head] = *sides;
  head.ended = EndedOf(&head.files, options);
  std::set<std::string_view> ended;
  for (const ProfileFile* file : head.ended) ended.insert(file->process);
  std::erase_if(base.files, [&](const ProfileFile* file) { return ended.contains(file->process); });
}

std::string ProcessOf(const Side& side) {
  std::string process = side.files[0]->process;
  for (const ProfileFile* file : side.files) {
    if (file->process != process) return "";
  }
  return process;
}

// Names a node by what distinguishes LocationNodes of one profile. Nodes of both sides with equal keys are the same.
std::string KeyOf(const FrameNode& node) {
  if (node.is_label) return "\2" + node.name;
  return node.function == 0 ? "\1" + node.name : node.name;
}

// Finds the head's stacks among those of the base. Files of one process have them in nearly the same order.
class StackErrors {
 public:
  explicit StackErrors(const std::vector<Sums::StackError>& stacks) : stacks_(stacks) {}
  Sums::StackError Of(uint64_t key) {  // without variance if the base has no such stack
    if (next_ >= stacks_.size() || stacks_[next_].key != key) {
      if (by_key_.empty()) {
        by_key_.reserve(stacks_.size());
        for (uint32_t i = 0; i < stacks_.size(); ++i) by_key_.try_emplace(stacks_[i].key, i);
      }
      const auto found = by_key_.find(key);
      if (found == by_key_.end()) return {key, 0, 0};
      next_ = found->second;
    }
    return stacks_[next_++];
  }

 private:
  const std::vector<Sums::StackError>& stacks_;
  size_t next_ = 0;
  absl::flat_hash_map<uint64_t, uint32_t> by_key_;
};

// Returns the column that counts what `metric` is in use of: "alloc_space" of "inuse_space". A counter counts itself.
std::optional<size_t> CounterOf(const Profile& profile, size_t metric) {
  const auto& type = profile.sample_types[metric];
  const std::string name(profile.strings[type.type]);
  if (IsCounter(fmt::format("{}/{}", name, profile.strings[type.unit]))) return metric;
  constexpr std::string_view kInUse = "inuse_";
  if (!name.starts_with(kInUse)) return std::nullopt;
  const auto found = FindMetric(profile, "alloc_" + name.substr(kInUse.size()));
  return found.ok() ? std::optional(*found) : std::nullopt;
}

// Returns by how much the variance of a change is smaller than for independent samples: what is in use at both ends is
// the same sample twice (growth.h has the formula). `came`: of what was counted in between.
double SharedVariance(double before, double now, double came) {
  const double went = std::max(0.0, came - (now - before));
  return std::max(0.0, now - std::min(came, now)) + std::max(0.0, before - std::min(went, before));
}

// Adds up one side. `base`: the other side if it was added up before, otherwise null.
absl::StatusOr<Sums> SumsOf(const Side& side, const ViewOptions& options, const Sums* base,
                            const ProfileDiffOptions& how, bool across_builds) {
  ViewOptions own = options;
  own.errors = true;
  own.stacks.across_builds = across_builds;
  auto view = ViewOf(side.files, own);
  if (!view.ok()) return view.status();
  Sums sums{.view = *std::move(view)};
  sums.view.SetEnded(side.ended);
  const ProfileFile& first = *side.files[0];
  sums.path = first.path;
  sums.kind = first.kind;
  sums.types = first.types;
  sums.process = ProcessOf(side);
  sums.cumulative = first.cumulative();
  const Profile& profile = *sums.view.profile;
  sums.default_metric = profile.strings[profile.sample_types[sums.view.default_metric].type];
  for (const Profile::Mapping& mapping : sums.view.profile->mappings) {
    const StringTable& strings = sums.view.profile->strings;
    const std::string object(BaseName(strings[mapping.file]));
    if (sums.builds.empty()) sums.main_object = object;
    sums.builds[object].emplace(strings[mapping.build_id]);
  }
  std::vector<size_t> columns = {sums.view.metric};
  // Only snapshots of one process share samples.
  const std::optional<size_t> counter =
      sums.process.empty() || !sums.cumulative ? std::nullopt : CounterOf(profile, sums.view.metric);
  if (counter.has_value() && *counter != sums.view.metric) columns.push_back(*counter);
  const size_t counted = columns.size() - 1;
  const auto stacks = FilteredStacks::Build(sums.view.profile, std::move(columns), own.stacks, sums.view.variances);
  if (!stacks.ok()) return stacks.status();
  sums.view.variances = {};
  sums.whole = how.base_label.empty() ? stacks->Whole(0) : stacks->Selected(0);
  if (how.normalize && base != nullptr && base->whole == 0 && sums.whole != 0)
    return absl::InvalidArgumentError(fmt::format(
        "{}: the base's total is 0, so nothing can be scaled to it. Compare without --normalize.", base->path));
  const double scale = how.normalize && base != nullptr && sums.whole != 0
                           ? static_cast<double>(base->whole) / static_cast<double>(sums.whole)
                           : 1;
  const auto scaled = [scale](int64_t value) {
    return scale == 1 ? value : static_cast<int64_t>(std::llround(static_cast<double>(value) * scale));
  };
  sums.selected = scaled(stacks->Selected(0));
  sums.variances_known = stacks->has_variances() || sums.whole == 0;
  if (stacks->has_variances()) sums.variance = stacks->SelectedVariance(0) * scale * scale;
  const FlatTable flat(*stacks);

  // For blocks of one process: by how much the variance is smaller than for independent sides.
  std::vector<double> less_self(stacks->nodes().size()), less_total(stacks->nodes().size());
  if (stacks->has_variances() && counter.has_value()) {
    const std::vector<uint64_t> keys = StackKeys(*stacks);
    if (base != nullptr && base->process == sums.process && base->cumulative) {
      StackErrors before(base->stacks);
      std::vector<uint32_t> seen(stacks->nodes().size());
      for (uint32_t i = 0; i < stacks->size(); ++i) {
        const Sums::StackError then = before.Of(keys[i]);
        const double came = std::max(0.0, stacks->VarianceOf(i, counted) - then.allocated_variance);
        const double less =
            SharedVariance(then.variance, stacks->VarianceOf(i, 0) * scale * scale, came * scale * scale);
        if (less == 0) continue;
        sums.variance -= less;
        const auto frames = stacks->FramesOf(i);
        for (const uint32_t node : frames) {
          if (std::exchange(seen[node], i + 1) != i + 1) less_total[node] += less;
        }
        if (!frames.empty()) less_self[frames[0]] += less;
      }
    }
    if (base == nullptr) {
      sums.stacks.reserve(keys.size());
      for (size_t i = 0; i < keys.size(); ++i)
        sums.stacks.push_back({keys[i], stacks->VarianceOf(i, 0), stacks->VarianceOf(i, counted)});
    }
  }
  for (uint32_t node = 0; node < stacks->nodes().size(); ++node) {
    if (flat.Self(node) == 0 && flat.Total(node) == 0) continue;
    const FrameNode& each = stacks->nodes()[node];
    sums.functions.try_emplace(
        KeyOf(each),
        Sums::Function{CellsOf(*stacks, node, options.full_names), each.is_label ? each.name : ShortName(each.name),
                       CellsOf(*stacks, node, true).with_object.shown, scaled(flat.Self(node)),
                       scaled(flat.Total(node)), flat.SelfVariance(node) * scale * scale - less_self[node],
                       flat.TotalVariance(node) * scale * scale - less_total[node]});
  }
  sums.view.profile.reset();
  return sums;
}

void AddChange(const Sums::Function* base, const Sums::Function* head, std::vector<Change>* changes) {
  Change change;
  if (base != nullptr) {
    change.base_self = base->self;
    change.base_total = base->total;
    change.self_variance += base->self_variance;
    change.total_variance += base->total_variance;
  }
  if (head != nullptr) {
    change.head_self = head->self;
    change.head_total = head->total;
    change.self_variance += head->self_variance;
    change.total_variance += head->total_variance;
  }
  if (change.self() == 0 && change.total() == 0) return;
  change.self_variance = std::max(0.0, change.self_variance);
  change.total_variance = std::max(0.0, change.total_variance);
  change.cells = head != nullptr ? head->cells : base->cells;
  changes->push_back(std::move(change));
}

// Returns whether the sides may be of different builds of a program or library.
bool AreOfTwoBuilds(const Sums& base, const Sums& head) {
  if (!base.process.empty() && base.process == head.process) return false;
  bool any = false;
  for (const auto& [object, ids] : base.builds) {
    const auto found = head.builds.find(object);
    if (found == head.builds.end()) continue;
    any = true;
    if (ids != found->second || ids.contains("")) return true;
  }
  return !any || base.main_object != head.main_object;
}

// Pairs functions that only one side has. Their parameters changed, or one side has debug information, which names
// inlined functions without parameters. First pairs functions that are shown alike, then those with the same name. If
// there are several candidates, they stay separate, with their full names.
class Counterparts {
 public:
  using Functions = absl::flat_hash_map<std::string, Sums::Function>;
  // `pair`: pair functions. Otherwise only gives full names where short ones are ambiguous.
  Counterparts(Functions* base, Functions* head, bool pair) {
    std::vector<Sums::Function*> gone, come;
    for (auto& [key, function] : *base) {
      if (!head->contains(key)) gone.push_back(&function);
    }
    for (auto& [key, function] : *head) {
      if (!base->contains(key)) come.push_back(&function);
    }
    if (pair) {
      Match(gone, come, [](const Sums::Function& function) { return LongerName(function.cells.name.text); });
      Match(gone, come, [](const Sums::Function& function) { return NameWithoutParameters(function.cells.name.text); });
    }
    absl::flat_hash_map<std::string_view, int> shown;  // bit 0: only in base, bit 1: only in head
    for (const auto* function : gone) shown[function->short_name] |= Of(*function) == nullptr ? 1 : 0;
    for (const auto* function : come) shown[function->short_name] |= taken_.contains(function) ? 0 : 2;
    for (auto* functions : {&gone, &come}) {
      for (Sums::Function* function : *functions) {
        if (shown[function->short_name] == 3) function->cells.with_object.shown = function->full_name;
      }
    }
  }

  // Returns the head's function for one of the base; null if there is none.
  const Sums::Function* Of(const Sums::Function& base) const {
    const auto found = head_of_.find(&base);
    return found == head_of_.end() ? nullptr : found->second;
  }
  bool IsTaken(const Sums::Function& head) const { return taken_.contains(&head); }

 private:
  template <typename Name>
  void Match(const std::vector<Sums::Function*>& gone, const std::vector<Sums::Function*>& come, Name name) {
    struct Pair {
      const Sums::Function *base = nullptr, *head = nullptr;
      bool is_ambiguous = false;
    };
    absl::flat_hash_map<std::string, Pair> pairs;
    for (const Sums::Function* function : gone) {
      if (head_of_.contains(function)) continue;
      Pair& pair = pairs[name(*function)];
      pair.is_ambiguous = pair.is_ambiguous || pair.base != nullptr;
      pair.base = function;
    }
    for (const Sums::Function* function : come) {
      if (taken_.contains(function)) continue;
      Pair& pair = pairs[name(*function)];
      pair.is_ambiguous = pair.is_ambiguous || pair.head != nullptr;
      pair.head = function;
    }
    for (const auto& [text, pair] : pairs) {
      if (pair.is_ambiguous || pair.base == nullptr || pair.head == nullptr) continue;
      head_of_.emplace(pair.base, pair.head);
      taken_.insert(pair.head);
    }
  }

  absl::flat_hash_map<const Sums::Function*, const Sums::Function*> head_of_;
  absl::flat_hash_set<const Sums::Function*> taken_;
};

}  // namespace

int64_t Change::self() const { return WrappedDifference(head_self, base_self); }
int64_t Change::total() const { return WrappedDifference(head_total, base_total); }
bool Change::WithinError() const {
  return total_variance > 0 && static_cast<double>(Magnitude(total())) <= kSigmas * std::sqrt(total_variance) &&
         static_cast<double>(Magnitude(self())) <= kSigmas * std::sqrt(std::max(self_variance, total_variance));
}
bool ProfileDiff::TotalWithinError() const {
  return variance > 0 &&
         static_cast<double>(Magnitude(WrappedDifference(head_total, base_total))) <= kSigmas * std::sqrt(variance);
}

absl::StatusOr<ProfileDiff> Compare(const ViewOptions& options, const ProfileDiffOptions& how, std::ostream& err) {
  const bool by_label = !how.base_label.empty() || !how.head_label.empty();
  const bool one_folder = !by_label && how.base.empty() && options.files.size() == 1;
  std::pair<Side, Side> sides;
  std::vector<std::string> base_files = how.base, head_files = options.files;
  if (by_label) {
    if (how.base_label.empty() || how.head_label.empty() || !how.base.empty() || !options.stacks.tag_focus.empty()) {
      return absl::InvalidArgumentError(
          "diff: --base-label and --head-label need each other, and exclude --base and --tagfocus. Example: holdfast diff --base-label wait=mutex --head-label wait=condition FILE.");
    }
    base_files = head_files;
  } else if (one_folder) {
    auto both = FirstAndLast(options, err);
    if (!both.ok()) return both.status();
    sides = *std::move(both);
  } else if (how.base.empty()) {
    if (options.files.size() != 2) {
      return absl::InvalidArgumentError(
          "diff: give one base and one head. For several files: holdfast diff --base FILE … HEAD ….");
    }
    base_files = {options.files[0]};
    head_files = {options.files[1]};
  }
  bool two_builds = false, is_second_reading = false;
  std::ostream nowhere(nullptr);
  ViewOptions chosen = options;
  const auto sums_of = [&](const std::vector<std::string>& files, Side* kept,
                           const Sums* before) -> absl::StatusOr<Sums> {
    ViewOptions own = chosen;
    if (by_label) own.stacks.tag_focus = before == nullptr ? how.base_label : how.head_label;
    if (!kept->files.empty()) return SumsOf(*kept, own, before, how, two_builds);
    auto side = ReadSide(files, chosen, is_second_reading ? nowhere : err);
    if (!side.ok()) return side.status();
    auto sums = SumsOf(*side, own, before, how, two_builds);
    // Standard input cannot be read again.
    if (std::ranges::find(files, "-") != files.end()) *kept = *std::move(side);
    return sums;
  };
  // Each side is read, added up and dropped before the next.
  absl::StatusOr<Sums> before, after;
  const std::pair all_of_folder(sides.first.files, sides.second.files);
  const auto read_both = [&]() -> absl::Status {
    if (one_folder) {
      sides.first.files = all_of_folder.first, sides.second.files = all_of_folder.second;
      LeaveOutEnded(chosen, &sides);
    }
    before = sums_of(base_files, &sides.first, nullptr);
    if (!before.ok()) return before.status();
    after = sums_of(head_files, &sides.second, &*before);
    return after.status();
  };
  const auto read_again = [&] {
    is_second_reading = true;
    return read_both();
  };
  absl::Status read = read_both();
  if (!read.ok() && chosen.kind.empty() && !chosen.metric.empty()) {
    // One side may lack the metric's kind, because nothing of that kind happened.
    for (const std::string_view kind : KindsWithMetric(chosen.metric)) {
      if (!ZeroProfileIn(base_files, kind).has_value() && !ZeroProfileIn(head_files, kind).has_value()) continue;
      chosen.kind = kind;
      read = read_again();
      break;
    }
  }
  if (!read.ok()) return read;
  if (before->types != after->types && chosen.kind.empty()) {
    // A folder may lack the other one's default kind, because nothing of that kind happened.
    chosen.kind = before->kind == "heap" ? before->kind : after->kind;
    if (ZeroProfileIn(base_files, chosen.kind).has_value() || ZeroProfileIn(head_files, chosen.kind).has_value()) {
      if (const absl::Status read = read_again(); !read.ok()) return read;
    }
  }
  if (before->types != after->types) {
    return absl::InvalidArgumentError(
        fmt::format("{}: its kind ({}) differs from that of {} ({}). Give files of one kind.", after->path, after->kind,
                    before->path, before->kind));
  }
  // A side that has freed everything shows allocations by default. Compare both sides by one metric.
  if (before->view.metric != after->view.metric) {
    chosen.metric = before->default_metric;
    if (const absl::Status read = read_again(); !read.ok()) return read;
  }
  if (!one_folder && !by_label && AreOfTwoBuilds(*before, *after)) {
    two_builds = true;
    if (const absl::Status read = read_again(); !read.ok()) return read;
  }
  if (before->functions.empty() && after->functions.empty() && (by_label || HasFilter(options.stacks)))
    return NothingLeft();
  ProfileDiff both{.view = std::move(after->view),
                   .base_program = before->view.program,
                   .base_total = before->selected,
                   .head_total = after->selected,
                   .base_ended = before->view.ended,
                   .base_ended_text = before->view.ended > 0 ? before->view.EndedText() : ""};
  both.errors_known = before->variances_known && after->variances_known;
  both.variance = std::max(0.0, before->variance + after->variance);
  const Counterparts counterparts(&before->functions, &after->functions, two_builds && options.stacks.by == "function");
  for (const auto& [key, function] : before->functions) {
    const auto found = after->functions.find(key);
    AddChange(&function, found == after->functions.end() ? counterparts.Of(function) : &found->second, &both.changes);
  }
  for (const auto& [key, function] : after->functions) {
    if (!before->functions.contains(key) && !counterparts.IsTaken(function))
      AddChange(nullptr, &function, &both.changes);
  }
  return both;
}

void SortChanges(bool by_total, std::vector<Change>* changes) {
  std::sort(changes->begin(), changes->end(), [&](const Change& a, const Change& b) {
    const auto key = [by_total](const Change& change) {
      const uint64_t self = Magnitude(change.self()), total = Magnitude(change.total());
      return by_total ? std::pair(total, self) : std::pair(self, total);
    };
    const auto a_key = key(a), b_key = key(b);
    return a_key != b_key ? a_key > b_key : a.name() < b.name();
  });
}

}  // namespace holdfast
