#include "report/analysis/top_answer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "report/analysis/flat_table.h"
#include "report/analysis/locks/idle_waits.h"
#include "report/analysis/profiles/short_name.h"

namespace holdfast {
namespace {

std::vector<WaitRank> RanksOfSamples(const Profile& profile, const IdleWaits& idle) {
  std::vector<WaitRank> ranks(idle.any() ? profile.samples.size() : 0);
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = idle.RankOf(profile.samples[i]);
  return ranks;
}

// Per node: time waited for locks, and for events. By total or self.
using OfRank = std::array<int64_t, 2>;

// Sorts contended locks first, then work that waits for events (nobody holds those), then idle threads. Keeps the order
// within each group.
std::vector<OfRank> IdleLast(const FilteredStacks& stacks, const std::vector<WaitRank>& ranks, bool by_total,
                             std::vector<uint32_t>* nodes) {
  std::vector<OfRank> values(stacks.nodes().size());
  for (size_t i = 0; i < stacks.size(); ++i) {
    const auto rank = static_cast<size_t>(ranks[stacks.SampleOf(i)]);
    if (rank >= std::tuple_size_v<OfRank>) continue;
    const auto frames = stacks.FramesOf(i);
    std::set<uint32_t> once(frames.begin(), by_total || frames.empty() ? frames.end() : frames.begin() + 1);
    for (const uint32_t node : once) values[node][rank] = WrappedSum(values[node][rank], stacks.ValuesOf(i)[0]);
  }
  const auto key = [&](uint32_t node) {
    const OfRank& of = values[node];
    return std::pair(Magnitude(of[0]), of[0] == 0 ? Magnitude(of[1]) : 0);
  };
  std::stable_sort(nodes->begin(), nodes->end(), [&](uint32_t a, uint32_t b) { return key(a) > key(b); });
  return values;
}

bool HasThreadLabel(const Profile& profile) {
  return std::any_of(profile.samples.begin(), profile.samples.end(), [&](const Profile::Sample& sample) {
    const auto labels = profile.LabelsOf(sample);
    return std::any_of(labels.begin(), labels.end(),
                       [&](const Profile::Label& label) { return profile.strings[label.key] == "thread"; });
  });
}

// The shown name of each function of these stacks, by its whole name: no two are alike.
class DistinctNames {
 public:
  explicit DistinctNames(const FilteredStacks& stacks) {
    std::vector<std::string> names;
    for (const FrameNode& node : stacks.nodes()) {
      if (!node.is_label) names.push_back(node.name);
    }
    const std::vector<std::string> shown = ShownNames(names);
    for (size_t i = 0; i < names.size(); ++i) shown_.emplace(names[i], shown[i]);
  }
  std::string Of(const std::string& name) const {
    const auto found = shown_.find(name);
    return found == shown_.end() ? ShortName(name) : found->second;
  }

 private:
  std::map<std::string, std::string, std::less<>> shown_;
};

}  // namespace

TopAnswer AnswerTop(const FilteredStacks& stacks, const TopQuestion& question, Plumbing* plumbing) {
  const Profile& profile = stacks.profile();
  const std::vector<FrameNode>& all = stacks.nodes();
  const FlatTable flat(stacks);
  TopAnswer answer;
  std::vector<uint32_t> nodes = flat.Sorted(question.by_total);
  // By a label: show the totals of the label's values.
  answer.by_label = std::any_of(all.begin(), all.end(), [](const FrameNode& node) { return node.is_label; });
  if (answer.by_label) std::erase_if(nodes, [&](uint32_t node) { return !all[node].is_label; });
  answer.by_thread_start = answer.by_label && question.by == "thread" && !HasThreadLabel(profile);
  const IdleWaits idle =
      question.contends.has_value() ? IdleWaits(profile, plumbing, *question.contends) : IdleWaits(profile, plumbing);
  const std::vector<WaitRank> ranks = RanksOfSamples(profile, idle);
  std::vector<OfRank> waited;
  if (idle.any()) waited = IdleLast(stacks, ranks, question.by_total || answer.by_label, &nodes);
  const Owners owners(stacks, ranks, plumbing);
  answer.events = owners.unheld();
  answer.idle = owners.idle();
  answer.locks = WrappedDifference(stacks.Selected(0), WrappedSum(owners.unheld(), owners.idle()));
  // Oldest first: memory that is never freed is at the top.
  if (answer.by_label && question.by == "age") {
    std::stable_sort(nodes.begin(), nodes.end(), [&](uint32_t a, uint32_t b) { return all[a].number > all[b].number; });
  }
  answer.all_rows = nodes.size();
  if (question.max_rows != 0 && nodes.size() > question.max_rows) nodes.resize(question.max_rows);

  const DistinctNames names(stacks);
  answer.biggest = owners.BiggestOf(flat, question.with_branches);
  if (answer.biggest.has_value() && !answer.has_unheld_waits() && !nodes.empty() &&
      answer.biggest->name == all[nodes[0]].name)
    answer.biggest.reset();
  if (answer.biggest.has_value()) {
    answer.biggest_name = names.Of(answer.biggest->name);
    if (!answer.biggest->other.empty()) answer.biggest_other = names.Of(answer.biggest->other);
  }
  for (const uint32_t node : nodes) {
    answer.rows.push_back({.node = node,
                           .short_name = names.Of(all[node].name),
                           .self = answer.by_label ? flat.Total(node) : flat.Self(node),
                           .total = flat.Total(node),
                           .self_variance = answer.by_label ? flat.TotalVariance(node) : flat.SelfVariance(node),
                           .total_variance = flat.TotalVariance(node),
                           .for_locks = waited.empty() ? 0 : waited[node][0]});
  }
  return answer;
}

}  // namespace holdfast
