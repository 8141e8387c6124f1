#include "report/analysis/locks/stuck.h"

#include <algorithm>
#include <map>
#include <set>

#include "fmt/format.h"
#include "report/analysis/locks/calls_text.h"
#include "report/analysis/locks/stuck_words.h"
#include "report/analysis/profiles/spinning_locks.h"
#include "report/base/printable.h"
#include "report/base/value_units.h"
#include "report/profile/pprof.h"
#include "report/profile/unrecorded_blocks.h"

namespace holdfast {
namespace {

constexpr size_t kMaxHeldShown = 10, kMaxUnheldShown = 10, kMaxIdleShown = 6, kMaxGroupsShown = 3,
                 kMaxDeadlocksShown = 8, kMaxOthersShown = 8, kMaxWaysShown = 4;
constexpr size_t kWayWidth = 100;  // columns of a path on several lines

std::string Threads(size_t count, std::string_view does) {
  return count == 1 ? fmt::format("1 thread {}s", does) : fmt::format("{} threads {}", count, does);
}

class Stuck {
 public:
  Stuck(const Profile& profile, const CallsShown& shown)
      : words_(profile, shown), list_(words_.list()), each_(shown.each), is_attached_(WasAttached(profile)) {
    for (const record::Wait& wait : list_.waits) ranks_.push_back(words_.RankOf(wait));
  }

  std::string Deadlocks() const {
    std::string text;
    for (size_t i = 0; i < list_.deadlocks.size() && i < kMaxDeadlocksShown; ++i) text += Deadlock(list_.deadlocks[i]);
    if (list_.deadlocks.size() > kMaxDeadlocksShown)
      text += fmt::format("deadlock: and {} more\n", list_.deadlocks.size() - kMaxDeadlocksShown);
    return text;
  }

  std::string Screen(const std::string& process) const {
    std::string text = fmt::format("{}: {}\n", process, Summary());
    const std::string deadlocks = Deadlocks() + PerhapsDeadlocks() + PassingCircles();
    if (!deadlocks.empty()) text += "\n" + deadlocks;
    const std::string locks = Section(WaitRank::kLock, kMaxHeldShown, "\nwaits for locks\n");
    const std::string events = Section(WaitRank::kEvent, kMaxUnheldShown,
                                       "\n"
                                       "waits for events\n");
    text += locks + events;
    if (deadlocks.empty() && locks.empty() && events.empty()) {
      // One of these waits may be what all threads wait for.
      const std::string idle = Section(WaitRank::kIdle, kMaxUnheldShown,
                                       "\n"
                                       "waits for events\n");
      text += idle.empty() ? "" : idle + "  in the threads' own loops: idle, or a wake-up was lost\n";
    } else {
      text += Idle();
    }
    text += Others();
    if (!list_.unknown.empty()) {
      text += fmt::format(
          "\n"
          "holders are from the start of each wait; what they do now is unknown: {}\n",
          Printable(list_.unknown));
    }
    return text;
  }

 private:
  bool IsInCircle(uint32_t thread) const { return words_.IsInDeadlock(thread) || words_.IsInPassingCircle(thread); }
  WaitRank RankOf(const record::Wait& wait) const { return ranks_[static_cast<size_t>(&wait - list_.waits.data())]; }

  std::string Deadlock(const std::vector<uint32_t>& circle) const {
    const std::string since = FormatDuration(words_.SinceNs(circle));
    const record::Wait& first = list_.WaitOf(circle[0]);
    if (circle.size() == 1 && first.holder != circle[0]) {
      const std::string calls = words_.Calls(first.stack);
      return fmt::format("deadlock: 1 thread waits for a lock that nobody can release, since {}\n", since) +
             fmt::format("  {}  waits for  {}{}{}, {}\n", words_.ThreadName(circle[0]), words_.LockName(first),
                         calls.empty() ? "" : "  ", calls, words_.HolderText(first)) +
             (list_.ThreadAt(first.holder).gone
                  ? ""
                  : "  the lock was copied by fork while that thread held it: nobody will release the copy\n");
    }
    const bool is_sure = std::all_of(circle.begin(), circle.end(), [this](uint32_t thread) {
      return list_.WaitOf(thread).source == record::HolderSource::kNow;
    });
    const std::string unsure = is_sure ? "" : "; a timeout that would end it cannot be ruled out";
    return (circle.size() == 1
                ? fmt::format("deadlock: 1 thread waits for itself, since {}{}\n", since, unsure)
                : fmt::format("deadlock: {} threads wait for each other, since {}{}\n", circle.size(), since, unsure)) +
           Rows(circle);
  }

  std::string PassingCircles() const {
    std::string text;
    for (const std::vector<uint32_t>& circle : words_.passing_circles()) {
      text += fmt::format("no deadlock: {}, since {}, but a wait has a timeout or has just ended\n",
                          circle.size() == 1 ? "1 thread waits for itself"
                                             : fmt::format("{} threads wait for each other", circle.size()),
                          FormatDuration(words_.SinceNs(circle))) +
              Rows(circle);
    }
    return text;
  }

  // Returns cycles with a lock that does not name its holder: the thread that got it last may have released it since.
  std::string PerhapsDeadlocks() const {
    std::string text;
    for (uint32_t start = 1; start <= list_.threads.size(); ++start) {
      std::vector<uint32_t> way;
      bool is_sure = true;
      uint32_t at = start;
      while (at >= start && list_.IsWaiting(at) && way.size() <= list_.threads.size()) {
        way.push_back(at);
        is_sure = is_sure && list_.WaitOf(at).source != record::HolderSource::kLast;
        at = list_.WaitOf(at).holder;
        if (at == start) break;
      }
      if (at != start || way.empty() || is_sure) continue;
      text += fmt::format("possible deadlock: {} threads wait for locks that another of them acquired last, since {}\n",
                          way.size(), FormatDuration(words_.SinceNs(way))) +
              Rows(way);
    }
    return text;
  }

  std::string Rows(const std::vector<uint32_t>& circle) const {
    std::vector<std::vector<std::string>> rows;
    for (size_t i = 0; i < circle.size(); ++i) {
      const record::Wait& behind = list_.WaitOf(circle[(i + circle.size() - 1) % circle.size()]);
      const record::Wait& wait = list_.WaitOf(circle[i]);
      const bool is_joined = behind.kind == "join";
      rows.push_back({words_.ThreadName(circle[i]),
                      is_joined                                      ? " must exit"
                      : behind.source == record::HolderSource::kLast ? " last acquired "
                                                                     : " holds ",
                      is_joined ? "" : words_.LockName(behind), " waits for ", words_.LockName(wait),
                      " " + words_.Calls(wait.stack)});
    }
    return Aligned(rows);
  }

  std::string Summary() const {
    if (list_.waits.empty()) return is_attached_ ? "no waits seen that began since the attach" : "no waits seen";
    int64_t held = 0, idle = 0, longest_ns = 0;
    for (const record::Wait& wait : list_.waits) {
      idle += RankOf(wait) == WaitRank::kIdle ? 1 : 0;
      if (RankOf(wait) != WaitRank::kLock) continue;
      ++held;
      longest_ns = std::max(longest_ns, wait.delay_ns);
    }
    const int64_t events = std::max<int64_t>(list_.total, static_cast<int64_t>(list_.waits.size())) - held - idle;
    std::string text = held == 0 ? "no lock waits seen"
                                 : fmt::format("{} for locks, the longest for {}",
                                               Threads(static_cast<size_t>(held), "wait"), FormatDuration(longest_ns));
    if (events > 0 || idle == 0) {
      text += fmt::format("; {}{} for events", events, held > 0 ? "" : events == 1 ? " waits" : " wait");
    }
    if (idle > 0) text += fmt::format("; {} idle", idle);
    return text;
  }

  struct Group {
    const record::Wait* longest = nullptr;
    std::map<std::string, std::vector<const record::Wait*>> by_way;
    size_t count = 0, locks = 1;
    std::string class_name = {};  // for several locks with a holder
    std::set<uint32_t> holders = {};
  };
  using Waits = std::vector<const record::Wait*>;

  static void Add(const record::Wait& wait, const std::string& way, Group* group) {
    ++group->count;
    if (group->longest == nullptr || group->longest->delay_ns < wait.delay_ns) group->longest = &wait;
    group->by_way[way].push_back(&wait);
  }

  // For each lock the longest wait is first, too.
  static std::vector<Group> Sorted(std::map<std::string, Group>&& groups) {
    std::vector<Group> sorted;
    for (auto& [key, group] : groups) {
      for (auto& [way, waits] : group.by_way) {
        std::stable_sort(waits.begin(), waits.end(),
                         [](const auto* a, const auto* b) { return a->delay_ns > b->delay_ns; });
      }
      sorted.push_back(std::move(group));
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Group& a, const Group& b) { return a.longest->delay_ns > b.longest->delay_ns; });
    return sorted;
  }

  // Groups waits by lock. Exception: statements that each wait for their own condition, on the same path, are one
  // group.
  std::vector<Group> GroupsOf(WaitRank rank) const {
    std::map<std::string, Group> locks, groups;
    for (const record::Wait& wait : list_.waits) {
      if (RankOf(wait) != rank) continue;
      const std::string kind = wait.kind.starts_with("rwlock") ? "rwlock" : wait.kind;
      const std::string lock = fmt::format("{:x}", wait.kind == "join" ? wait.holder : wait.address);
      Add(wait, rank == WaitRank::kLock ? words_.Calls(wait.stack) : words_.Way(wait.stack),
          &locks[fmt::format("{} {}", kind, lock)]);
    }
    if (rank == WaitRank::kLock) return Sorted(each_ ? std::move(locks) : ByClass(std::move(locks)));
    for (auto& [key, group] : locks) {
      const record::Wait& wait = *group.longest;
      if (group.count > 1 || PluralOf(wait.kind).empty() || words_.HasOwnName(wait)) {
        groups.emplace(key, std::move(group));
        continue;
      }
      Group& alike = groups[fmt::format("{} by {}", wait.kind, words_.Way(wait.stack))];
      alike.locks = alike.count + 1;
      Add(wait, words_.Way(wait.stack), &alike);
    }
    return Sorted(std::move(groups));
  }

  // Merges locks of one class (report/analysis/locks/lock_classes.h). Locks known only by address are merged if their waiters
  // came by the same path and their holders do the same.
  std::map<std::string, Group> ByClass(std::map<std::string, Group>&& locks) const {
    std::map<std::string, Group> classes;
    for (auto& [key, group] : locks) {
      const record::Wait& wait = *group.longest;
      const std::string name = words_.LockClass(wait), kind = key.substr(0, key.find(' '));
      std::string alike = name.empty() ? "" : fmt::format("{} {}", kind, name);
      if (name.empty() && group.by_way.size() == 1 && wait.holder != 0)
        alike = fmt::format("{} by {} from {}", kind, group.by_way.begin()->first, words_.HolderCalls(wait));
      const bool is_alone = alike.empty() || (group.count == 1 && words_.IsInDeadlock(wait.thread));
      const auto [place, added] = classes.try_emplace(is_alone ? key : alike, std::move(group));
      Group& of_class = place->second;
      if (wait.holder != 0) of_class.holders.insert(wait.holder);
      of_class.class_name = name;
      if (added) continue;
      ++of_class.locks;
      of_class.count += group.count;
      if (of_class.longest->delay_ns < wait.delay_ns) of_class.longest = &wait;
      for (auto& [way, waits] : group.by_way) {
        Waits& all = of_class.by_way[way];
        all.insert(all.end(), waits.begin(), waits.end());
      }
    }
    return classes;
  }

  static std::string_view PluralOf(std::string_view kind) {
    if (kind == "mutex" || kind == "futex") return kind == "mutex" ? "mutexes" : "futexes";
    if (kind == "condition" || kind == "semaphore") return kind == "condition" ? "conditions" : "semaphores";
    return kind == "join" || kind == "barrier" || kind == "once" ? "" : "locks";
  }

  std::string WaitTarget(const Group& group) const {
    if (group.locks == 1) return words_.WaitTarget(*group.longest);
    const std::string what = fmt::format("{} {}", group.locks, PluralOf(group.longest->kind));
    return group.class_name.empty() ? what : fmt::format("{}, {}", what, group.class_name);
  }

  // Names the holder; for several locks, the holder of the lock with the longest wait.
  std::string HolderText(const Group& group) const {
    const std::string text = words_.HolderText(*group.longest);
    return group.locks == 1 || text.empty() || group.holders.size() < 2
               ? text
               : fmt::format("{} holders; for the longest wait: {}", group.holders.size(), text);
  }

  std::string Section(WaitRank rank, size_t most, std::string_view title) const {
    std::string text;
    size_t shown = 0, more = 0, more_threads = 0;
    for (const Group& group : GroupsOf(rank)) {
      if (group.count == 1 && IsInCircle(group.longest->thread)) continue;
      if (shown++ >= most) {
        ++more;
        more_threads += group.count;
        continue;
      }
      text += fmt::format("  {}: {}{}, {}{}\n", WaitTarget(group), Threads(group.count, "wait"),
                          group.locks == 1 || group.locks != group.count ? "" : ", one per lock",
                          group.count == 1 ? "for " : "the longest for ", FormatDuration(group.longest->delay_ns));
      if (const std::string holder = HolderText(group); !holder.empty()) text += fmt::format("    {}\n", holder);
      text += Waiters(group);
    }
    if (more > 0) text += fmt::format("  and {} more, for which {}: see --json\n", more, Threads(more_threads, "wait"));
    return text.empty() ? "" : std::string(title) + text;
  }

  // "T6 worker (tid 4715) and 7 more"
  std::string WaiterNames(const Waits& waits) const {
    return words_.ThreadName(waits[0]->thread) +
           (waits.size() == 1 ? "" : fmt::format(" and {} more", waits.size() - 1));
  }

  // Waiters on the same path share a line.
  std::string Waiters(const Group& group) const {
    std::vector<std::pair<std::string, Waits>> ways(group.by_way.begin(), group.by_way.end());
    std::stable_sort(ways.begin(), ways.end(),
                     [](const auto& a, const auto& b) { return a.second[0]->delay_ns > b.second[0]->delay_ns; });
    std::vector<std::vector<std::string>> rows;
    std::vector<std::string> below;
    for (size_t i = 0; i < ways.size() && i < kMaxGroupsShown; ++i) {
      const auto& [way, waits] = ways[i];
      AddRow({"  " + WaiterNames(waits), " " + FormatDuration(waits[0]->delay_ns)}, way, words_.Calls(waits[0]->stack),
             &rows, &below);
    }
    std::string text = AlignedWith(rows, below);
    if (ways.size() > kMaxGroupsShown)
      text += fmt::format("    and {} other call paths\n", ways.size() - kMaxGroupsShown);
    return text;
  }

  // Puts the path on separate lines if it does not fit at the end of the row.
  static void AddRow(std::vector<std::string> cells, const std::string& way, const std::string& calls,
                     std::vector<std::vector<std::string>>* rows, std::vector<std::string>* below) {
    const bool fits = way == calls;
    cells.push_back(fits ? " " + way : "");
    rows->push_back(std::move(cells));
    below->push_back(fits ? "" : WrappedCalls(way, "      ", kWayWidth));
  }
  static std::string AlignedWith(const std::vector<std::vector<std::string>>& rows,
                                 const std::vector<std::string>& below) {
    std::string_view lines;
    const std::string table = Aligned(rows);
    std::string text;
    lines = table;
    for (const std::string& under : below) {
      const size_t end = lines.find('\n') + 1;
      text += std::string(lines.substr(0, end)) + under;
      lines.remove_prefix(end);
    }
    return text;
  }

  // Idle threads, which would only distract.
  std::string Idle() const {
    std::map<std::string, Group> by_calls;
    size_t threads = 0;
    for (const record::Wait& wait : list_.waits) {
      if (RankOf(wait) != WaitRank::kIdle || IsInCircle(wait.thread)) continue;
      ++threads;
      Add(wait, "", &by_calls[words_.Calls(wait.stack)]);
    }
    std::vector<std::vector<std::string>> rows;
    size_t more = 0;
    for (const Group& group : Sorted(std::move(by_calls))) {
      const Waits& waits = group.by_way.begin()->second;
      if (rows.size() == kMaxIdleShown) {
        more += waits.size();
        continue;
      }
      rows.push_back(
          {WaiterNames(waits), " " + FormatDuration(waits[0]->delay_ns), " " + words_.Calls(waits[0]->stack)});
    }
    if (rows.empty()) return "";
    return fmt::format("\nidle, or a wake-up was lost: {} in {} own loop{}\n", Threads(threads, "wait"),
                       threads == 1 ? "its" : "their", threads == 1 ? "" : "s") +
           Aligned(rows) + (more > 0 ? fmt::format("  and {} more: see --json\n", more) : "");
  }

  // Threads that neither wait nor hold a lock: a server that waits for another process is stuck as well. Threads in the
  // middle of work are first.
  std::string Others() const {
    struct Other {
      uint32_t first;
      size_t count = 0;
    };
    std::map<std::pair<bool, std::string>, Other> others;  // among equals the deepest path is first
    for (uint32_t number = 1; number <= list_.threads.size(); ++number) {
      const record::WaitingThread& thread = list_.ThreadAt(number);
      if (!words_.IsOther(number)) continue;
      const std::pair key(words_.IsInLoop(thread), thread.does + words_.Way(thread.stack));
      ++others.try_emplace(key, Other{.first = number}).first->second.count;
    }
    std::vector<std::vector<std::string>> rows;
    std::vector<std::string> below;
    for (const auto& [key, other] : others) {
      if (rows.size() == kMaxOthersShown) break;
      const record::WaitingThread& thread = list_.ThreadAt(other.first);
      const std::string calls = words_.Calls(thread.stack);
      AddRow({words_.ThreadName(other.first) + (other.count == 1 ? "" : fmt::format(" and {} more", other.count - 1)),
              " " + Printable(thread.does)},
             rows.size() < kMaxWaysShown ? words_.Way(thread.stack) : calls, calls, &rows, &below);
    }
    if (rows.empty()) return "";
    return "\nother threads\n" + AlignedWith(rows, below) + (others.size() > rows.size() ? "  and more\n" : "");
  }

  const StuckWords words_;
  const WaitingList& list_;
  const bool each_, is_attached_;
  std::vector<WaitRank> ranks_;  // indexed like list_.waits
};

}  // namespace

std::string DeadlockText(const Profile& profile) { return Stuck(profile, {}).Deadlocks(); }

std::string StuckText(const Profile& profile, const std::string& process, const CallsShown& shown) {
  const std::string spinning = SpinningText(SpinningLocksIn(profile));
  return Stuck(profile, shown).Screen(process) + (spinning.empty() ? "" : "\nnot shown: " + spinning + "\n");
}

bool HasDeadlock(const Profile& profile) { return !ReadWaitingList(profile).deadlocks.empty(); }

std::string DeadlocksIn(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) {
    if (!file.ends_with(".block.pb.gz")) continue;
    if (const auto profile = ReadPprofFile(file); profile.ok()) text += DeadlockText(*profile);
  }
  return text;
}

}  // namespace holdfast
