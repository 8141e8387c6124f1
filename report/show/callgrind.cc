#include "report/show/callgrind.h"

#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/analysis/flat_table.h"
#include "report/base/huge_pages.h"

namespace holdfast {
namespace {

// The callees of each caller, one caller at a time. A hash map of all edges would be larger than the profile: if paths
// differ, stacks have as many edges as frames. Instead, entries (callee, stack) are sorted by caller with a counting
// sort.
class EdgesByCaller {
 public:
  explicit EdgesByCaller(const FilteredStacks& stacks) : stacks_(stacks), first_(stacks.nodes().size() + 1) {
    Each([&](uint32_t caller, uint32_t, uint32_t) { ++first_[caller + 1]; });
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    ReserveHuge(&entries_, first_.back());
    entries_.resize(first_.back());
    std::vector<size_t> next(first_.begin(), first_.end() - 1);
    Each([&](uint32_t caller, uint32_t callee, uint32_t stack) { entries_[next[caller]++] = {callee, stack}; });
    slots_.resize(stacks.nodes().size(), Profile::kNone);
  }

  struct Edge {
    uint32_t callee, latest;  // the last stack that counted
  };
  // Calls visit(callee, values) for each callee of `caller`.
  template <typename Visit>
  void CalleesOf(uint32_t caller, Visit visit) {
    const size_t columns = stacks_.columns();
    edges_.clear();
    values_.clear();
    const size_t end = first_[caller + 1];
    for (size_t i = first_[caller]; i < end; ++i) {
      // Prefetch, because the values are scattered over the profile: otherwise memory latency would be half of an
      // export's time.
      if (i + kAhead < end) __builtin_prefetch(stacks_.ValuesOf(entries_[i + kAhead].second).data());
      const auto [callee, stack] = entries_[i];
      uint32_t& slot = slots_[callee];
      if (slot == Profile::kNone) {
        slot = static_cast<uint32_t>(edges_.size());
        edges_.push_back({callee, Profile::kNone});
        values_.resize(values_.size() + columns);
      }
      if (std::exchange(edges_[slot].latest, stack) == stack) continue;  // count each stack once
      const auto values = stacks_.ValuesOf(stack);
      int64_t* sums = values_.data() + slot * columns;
      for (size_t c = 0; c < columns; ++c) sums[c] = WrappedSum(sums[c], values[c]);
    }
    for (size_t i = 0; i < edges_.size(); ++i) {
      slots_[edges_[i].callee] = Profile::kNone;
      visit(edges_[i].callee, std::span<const int64_t>(values_).subspan(i * columns, columns));
    }
  }

 private:
  template <typename Visit>
  void Each(Visit visit) const {
    for (uint32_t i = 0; i < stacks_.size(); ++i) {
      const auto frames = stacks_.FramesOf(i);
      for (size_t k = frames.size(); k-- > 1;) {
        if (frames[k] != frames[k - 1]) visit(frames[k], frames[k - 1], i);
      }
    }
  }

  static constexpr size_t kAhead = 16;

  const FilteredStacks& stacks_;
  std::vector<size_t> first_;  // per caller
  std::vector<std::pair<uint32_t, uint32_t>> entries_;
  std::vector<Edge> edges_;
  std::vector<int64_t> values_;
  std::vector<uint32_t> slots_;
};

// Names of one kind (files, functions …) in callgrind's short form: "(7) main" the first time, "(7)" afterwards.
class ShortNames {
 public:
  std::string Of(uint32_t id, std::string_view name) {
    if (id >= known_.size()) known_.resize(id + 1);
    if (known_[id]) return fmt::format("({})", id + 1);
    known_[id] = true;
    return fmt::format("({}) {}", id + 1, FrameText(name));
  }

 private:
  std::vector<bool> known_;
};

// The lines for a function that calls and for one that is called. From the second time on, the lines for a called
// function are always the same text, which is made once.
class CallLines {
 public:
  explicit CallLines(const FilteredStacks& stacks) : stacks_(stacks), callees_(stacks.nodes().size()) {}

  std::string Caller(uint32_t node) { return Names("\nob={}\nfl={}\nfn={}\n", node); }
  std::string_view Callee(uint32_t node) {
    std::string& known = callees_[node];
    if (!known.empty()) return known;
    const auto made = [&] {
      return Names("cob={}\ncfi={}\ncfn={}\n", node) + fmt::format("calls=1 {}\n", stacks_.nodes()[node].line);
    };
    first_ = made();
    known = made();
    return first_;
  }

 private:
  std::string Names(fmt::format_string<std::string, std::string, std::string> format, uint32_t index) {
    const FrameNode& node = stacks_.nodes()[index];
    const auto text = [&](StringId id) { return id == 0 ? "???" : stacks_.profile().strings[id]; };
    const StringId object = node.objects.empty() ? 0 : node.objects[0];
    return fmt::format(format, objects_.Of(object, text(object)), files_.Of(node.file, text(node.file)),
                       functions_.Of(index, node.name));
  }

  const FilteredStacks& stacks_;
  ShortNames objects_, files_, functions_;
  std::vector<std::string> callees_;
  std::string first_;
};

}  // namespace

void WriteCallgrind(const View& view, const FilteredStacks& stacks, TextWriter* text) {
  const Profile& profile = stacks.profile();
  const FlatTable flat(stacks);
  EdgesByCaller edges(stacks);
  *text << "# callgrind format\nversion: 1\ncreator: holdfast\n";
  text->Print("cmd: {}\npositions: line\nevents:", FrameText(view.program));
  for (const auto& type : profile.sample_types) text->Print(" {}", FrameText(profile.strings[type.type]));
  *text << "\nsummary:";
  const auto numbers = [&](auto value_of) {
    for (size_t c = 0; c < stacks.columns(); ++c) *text << " " << value_of(c);
    *text << "\n";
  };
  const auto totals = [&](size_t c) { return stacks.Selected(c); };
  numbers(totals);
  CallLines calls(stacks);
  for (uint32_t i = 0; i < stacks.nodes().size(); ++i) {
    const std::string line = fmt::format("{}", stacks.nodes()[i].line);
    bool begun = false;
    const auto begin = [&] {
      if (std::exchange(begun, true)) return;
      *text << calls.Caller(i) << line;
      numbers([&](size_t c) { return flat.Self(i, c); });
    };
    for (size_t c = 0; c < stacks.columns(); ++c) {
      if (flat.Self(i, c) != 0) begin();
    }
    edges.CalleesOf(i, [&](uint32_t callee, std::span<const int64_t> values) {
      begin();
      *text << calls.Callee(callee) << line;
      numbers([&](size_t c) { return values[c]; });
    });
  }
  *text << "\ntotals:";
  numbers(totals);
}

}  // namespace holdfast
