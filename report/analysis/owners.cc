#include "report/analysis/owners.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace holdfast {
namespace {

// Breaks ties by name, as the page does. Names are computed only for ties.
template <typename V, typename Name, typename OtherName>
bool IsLarger(V a, Name a_name, V b, OtherName b_name) {
  return a != b ? a > b : a_name() < b_name();
}

// Numbers the nodes with at least a tenth of the total. They are few, and a smaller node is no branch.
class LargeNodes {
 public:
  LargeNodes(const FilteredStacks& stacks, const FlatTable& flat, const std::vector<bool>& is_plumbing)
      : numbers_(stacks.nodes().size()) {
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const FrameNode& node = stacks.nodes()[i];
      const auto total = static_cast<double>(flat.Total(static_cast<uint32_t>(i)));
      numbers_[i] = is_plumbing[i] ? kPlumbing : kSmall;
      if (numbers_[i] == kPlumbing || node.is_label || total < static_cast<double>(stacks.Whole(0)) / 10) continue;
      numbers_[i] = static_cast<int>(nodes_.size());
      nodes_.push_back(static_cast<uint32_t>(i));
    }
  }

  const std::vector<uint32_t>& nodes() const { return nodes_; }

  // Calls f(caller, callee) with the numbers of each pair, from the outermost frame inwards, until a node is small or
  // `f` stops the walk.
  template <typename F>
  void Walk(std::span<const uint32_t> leaf_first, F f) const {
    int caller = kPlumbing;
    for (size_t i = leaf_first.size(); i-- > 0;) {
      const int number = numbers_[leaf_first[i]];
      if (number == kPlumbing || number == caller) continue;
      if (number == kSmall || (caller >= 0 && !f(static_cast<size_t>(caller), static_cast<size_t>(number)))) return;
      caller = number;
    }
  }

 private:
  static constexpr int kSmall = -1, kPlumbing = -2;
  std::vector<int> numbers_;     // by node
  std::vector<uint32_t> nodes_;  // by number
};

}  // namespace

bool IsC(std::string_view name) {
  return !IsNameless(name) && !name.starts_with('[') && name.find_first_of(":(<") == std::string_view::npos;
}

Owners::Owners(const FilteredStacks& stacks, const std::vector<WaitRank>& ranks, Plumbing* plumbing)
    : stacks_(stacks), plumbing_(plumbing), of_(stacks.size(), kNobody), unheld_stacks_(stacks.size()) {
  const Profile& profile = stacks.profile();
  // A node is a name, which a lambda of the program and one of the standard library may share: it is plumbing if all
  // are.
  std::vector<bool> is_users(profile.strings.size());
  for (const Profile::Location& location : profile.locations) {
    for (const Profile::Line& line : profile.LinesOf(location)) {
      if (line.function == Profile::kNone || plumbing->Holds(line.function, location.mapping)) continue;
      is_users[profile.functions[line.function].name] = true;
    }
  }
  for (const FrameNode& node : stacks.nodes()) {
    is_plumbing_.push_back(node.function == 0 ? plumbing->HoldsObject(node.mapping) : !is_users[node.function]);
  }
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> by_name;
  for (size_t i = 0; i < stacks.size(); ++i) {
    const size_t sample = stacks.SampleOf(i);
    const int64_t value = stacks.ValuesOf(i)[0];
    if (const WaitRank rank = ranks.empty() ? WaitRank::kLock : ranks[sample]; rank != WaitRank::kLock) {
      int64_t& sum = rank == WaitRank::kIdle ? idle_ : unheld_;
      sum = WrappedSum(sum, value);
      unheld_stacks_[i] = true;
      continue;
    }
    const auto frames = profile.FramesOf(profile.samples[sample]);
    const auto place = plumbing->OwnerOf(frames);
    if (!place.has_value()) continue;
    const Profile::Location& location = profile.locations[frames[place->frame]];
    const auto lines = profile.LinesOf(location);
    const std::pair key(lines.empty() ? 0 : profile.functions[lines[place->line].function].name,
                        lines.empty() ? location.mapping : 0);
    const auto [owner, added] = by_name.emplace(key, static_cast<uint32_t>(sums_.size()));
    if (added) sums_.push_back({key.first, key.second, 0, sample});
    int64_t& sum = sums_[owner->second].value;
    sum = WrappedSum(sum, value);
    of_[i] = owner->second;
  }
}

std::string Owners::NameOf(uint32_t owner) const {
  const Profile& profile = stacks_.profile();
  return plumbing_->OwnerName(profile.FramesOf(profile.samples[sums_[owner].sample]));
}

// Returns the function that is mostly responsible for `owner`. Candidates are functions through which at least half of
// the owner's value comes, but not nearly the whole total (as through main or an event loop). Returns the outermost
// candidate, or the largest of several; "" if there is none.
std::string Owners::MainCallerOf(uint32_t owner, const FlatTable& flat) const {
  std::vector<bool> is_owner;  // by node: filters may have removed the owner from a stack
  for (const FrameNode& node : stacks_.nodes()) {
    const Sum& sum = sums_[owner];
    is_owner.push_back(node.function == sum.function && (sum.function != 0 || node.mapping == sum.mapping));
  }
  std::vector<int64_t> through(stacks_.nodes().size()), total;
  for (uint32_t node = 0; node < through.size(); ++node) total.push_back(flat.Total(node));
  std::vector<size_t> counted(through.size(), SIZE_MAX);  // the last stack that counted the node: each counts once
  for (size_t i = 0; i < stacks_.size(); ++i) {
    if (!unheld_stacks_[i] && of_[i] != owner) continue;
    const auto frames = stacks_.FramesOf(i);
    if (!unheld_stacks_[i] && std::none_of(frames.begin(), frames.end(), [&](uint32_t n) { return is_owner[n]; }))
      continue;
    for (const uint32_t node : frames) {
      if (std::exchange(counted[node], i) == i) continue;
      if (unheld_stacks_[i]) {
        total[node] = WrappedDifference(total[node], stacks_.ValuesOf(i)[0]);
      } else {
        through[node] = WrappedSum(through[node], stacks_.ValuesOf(i)[0]);
      }
    }
  }
  std::vector<bool> answers(through.size());
  for (size_t i = 0; i < through.size(); ++i) {
    const FrameNode& node = stacks_.nodes()[i];
    const bool is_half = 2 * Magnitude(through[i]) >= Magnitude(sums_[owner].value);
    const bool is_all = 10 * Magnitude(total[i]) > 9 * Magnitude(stacks_.Whole(0));
    answers[i] = is_half && !is_all && !node.is_label && !is_plumbing_[i];
  }
  std::map<uint32_t, int64_t> outermost;
  for (size_t i = 0; i < stacks_.size(); ++i) {
    if (of_[i] != owner) continue;
    const auto frames = stacks_.FramesOf(i);
    const auto found = std::find_if(frames.rbegin(), frames.rend(), [&](uint32_t node) { return answers[node]; });
    if (found == frames.rend() || is_owner[*found]) continue;
    int64_t& sum = outermost[*found];
    sum = WrappedSum(sum, stacks_.ValuesOf(i)[0]);
  }
  const auto& nodes = stacks_.nodes();
  const auto most = std::max_element(outermost.begin(), outermost.end(), [&](const auto& a, const auto& b) {
    return IsLarger(
        Magnitude(b.second), [&] { return nodes[b.first].name; }, Magnitude(a.second),
        [&] { return nodes[a.first].name; });
  });
  return most == outermost.end() ? "" : nodes[most->first].name;
}

std::optional<Biggest> Owners::LargestBranch(const FlatTable& flat) const {
  constexpr size_t kMaxNodes = 512;  // more mean deep recursion, and their pairs would need megabytes
  const LargeNodes large(stacks_, flat, is_plumbing_);
  const size_t count = large.nodes().size();
  if (count < 2 || count > kMaxNodes) return std::nullopt;
  const auto total = [&](size_t number) { return static_cast<double>(flat.Total(large.nodes()[number])); };
  struct Flow {
    double value = 0;
    size_t counted = SIZE_MAX;  // the last stack that counted the pair: each stack counts once
  };
  std::vector<Flow> flows(count * count);
  for (size_t i = 0; i < stacks_.size(); ++i) {
    large.Walk(stacks_.FramesOf(i), [&](size_t caller, size_t callee) {
      Flow& flow = flows[caller * count + callee];
      if (flow.counted != i) flow.value += static_cast<double>(stacks_.ValuesOf(i)[0]);
      flow.counted = i;
      return true;
    });
  }
  struct Branch {
    double value = 0;
    std::map<uint32_t, double> by;  // its owners
  };
  std::map<size_t, Branch> branches;
  const double most = 0.9 * static_cast<double>(stacks_.Whole(0));
  for (size_t i = 0; i < stacks_.size(); ++i) {
    if (stacks_.ValuesOf(i)[0] < 0) return std::nullopt;  // a difference of profiles
    std::optional<size_t> branch;
    large.Walk(stacks_.FramesOf(i), [&](size_t caller, size_t callee) {
      const double flow = flows[caller * count + callee].value;
      if (total(callee) > most) return true;
      if (flow < 0.9 * total(callee)) return false;
      if (flow >= 0.25 * total(caller) && flow < 0.75 * total(caller)) branch = callee;
      return true;
    });
    if (!branch.has_value()) continue;
    Branch& of = branches[*branch];
    of.value += static_cast<double>(stacks_.ValuesOf(i)[0]);
    if (of_[i] != kNobody) of.by[of_[i]] += static_cast<double>(stacks_.ValuesOf(i)[0]);
  }
  const auto name = [&](size_t number) -> const std::string& { return stacks_.nodes()[large.nodes()[number]].name; };
  const Branch* best = nullptr;
  size_t best_number = 0;
  for (const auto& entry : branches) {
    const size_t number = entry.first;  // separate names, because clang 14 cannot capture structured bindings
    const Branch& branch = entry.second;
    if (!IsC(name(number)) || branch.value < 0.75 * total(number)) continue;
    if (best == nullptr ||
        IsLarger(
            branch.value, [&] { return name(number); }, best->value, [&] { return name(best_number); })) {
      best = &branch;
      best_number = number;
    }
  }
  if (best == nullptr) return std::nullopt;
  Biggest answer;
  answer.name = name(best_number);
  answer.value = flat.Total(large.nodes()[best_number]);
  answer.is_branch = true;
  const auto by = std::max_element(best->by.begin(), best->by.end(), [&](const auto& a, const auto& b) {
    return IsLarger(
        b.second, [&] { return NameOf(b.first); }, a.second, [&] { return NameOf(a.first); });
  });
  if (by != best->by.end()) answer.other = NameOf(by->first);
  return answer;
}

std::optional<Biggest> Owners::BiggestOf(const FlatTable& flat, bool with_branches) const {
  uint32_t most = kNobody;
  for (uint32_t i = 0; i < sums_.size(); ++i) {
    if (most == kNobody || IsLarger(
                               Magnitude(sums_[i].value), [&] { return NameOf(i); }, Magnitude(sums_[most].value),
                               [&] { return NameOf(most); })) {
      most = i;
    }
  }
  if (most == kNobody || sums_[most].value == 0) return std::nullopt;
  Biggest biggest;
  biggest.name = NameOf(most);
  biggest.value = sums_[most].value;
  if (with_branches && IsC(biggest.name)) {
    std::optional<Biggest> branch = LargestBranch(flat);
    if (branch.has_value() && Magnitude(branch->value) >= Magnitude(biggest.value) / 2) {
      if (branch->other == branch->name) branch->other.clear();
      return branch;
    }
  }
  biggest.other = MainCallerOf(most, flat);
  return biggest;
}

}  // namespace holdfast
