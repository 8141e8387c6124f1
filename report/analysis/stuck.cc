#include "report/analysis/stuck.h"

#include <algorithm>
#include <array>
#include <map>

#include "fmt/format.h"
#include "report/analysis/calls_text.h"
#include "report/analysis/lock_list.h"
#include "report/analysis/waiting_list.h"
#include "report/base/json_text.h"
#include "report/base/printable.h"
#include "report/pprof/pprof.h"
#include "report/profiles/plumbing.h"

namespace holdfast {
namespace {

constexpr size_t kMostHeldShown = 10, kMostUnheldShown = 6, kMostGroupsShown = 3, kMostDeadlocksShown = 8,
                 kMostOthersShown = 8;
constexpr int kLongestChain = 4;

size_t Index(int index) { return static_cast<size_t>(index); }

class Stuck {
 public:
  explicit Stuck(const Profile& profile)
      : profile_(profile), locks_(ReadLockList(profile, &whose_)), list_(ReadWaitingList(profile)) {
    for (const WaitingList::Wait& wait : list_.waits) ++waiters_[{wait.kind, wait.address}];
  }

  const WaitingList& list() const { return list_; }

  std::string Deadlocks() const {
    std::string text;
    for (size_t i = 0; i < list_.deadlocks.size() && i < kMostDeadlocksShown; ++i) text += Deadlock(list_.deadlocks[i]);
    if (list_.deadlocks.size() > kMostDeadlocksShown)
      text += fmt::format("deadlock: and {} more\n", list_.deadlocks.size() - kMostDeadlocksShown);
    return text;
  }

  std::string Screen(const std::string& process) const {
    std::string text = fmt::format("{}: {}\n", process, Summary());
    if (const std::string deadlocks = Deadlocks() + PerhapsDeadlocks(); !deadlocks.empty()) text += "\n" + deadlocks;
    const std::vector<OfLock> groups = ByLock();
    text += Section(groups, true, kMostHeldShown, "\nwaits for locks\n");
    text += Section(groups, false, kMostUnheldShown, "\nwaits for what nobody holds\n");
    text += Others();
    if (!list_.unknown.empty()) {
      text += fmt::format(
          "\nholders are those that were found when each wait began, and where they are now is not known: {} (see holdfast doctor)\n",
          Printable(list_.unknown));
    }
    return text;
  }

  std::string Json(int64_t pid) const {
    JsonText json;
    json.Open('{').Key("pid").Number(pid).Key("deadlocks").Open('[');
    for (const std::vector<int>& circle : list_.deadlocks) {
      json.Open('{').Key("since_ns").Number(SinceNs(circle)).Key("threads").Open('[');
      for (const int thread : circle) json.Number(ThreadAt(thread).tid);
      json.Close(']').Close('}');
    }
    json.Close(']').Key("waits").Open('[');
    for (const WaitingList::Wait& wait : list_.waits) {
      json.Open('{');
      AddThread("thread", wait.thread, &json);
      json.Key("kind").String(wait.kind).Key("lock").String(LockName(wait)).Key("address").String(wait.address);
      json.Key("waiting_ns").Number(wait.delay_ns);
      AddCalls(wait.stack, &json);
      json.Key("holder_known").String(HowKnown(wait));
      if (wait.source == "readers") json.Key("readers").Number(wait.readers);
      if (wait.owner_died) json.Key("owner_died").Bool(true);
      AddThread("holder", wait.holder, &json);
      json.Close('}');
    }
    json.Close(']');
    if (!list_.unknown.empty()) json.Key("unknown").String(list_.unknown);
    return json.Close('}').text() + "\n";
  }

 private:
  const WaitingList::Thread& ThreadAt(int thread) const { return list_.threads[Index(thread)]; }
  const WaitingList::Wait& WaitOf(int thread) const { return list_.waits[Index(ThreadAt(thread).wait)]; }

  std::string ThreadName(int thread) const {
    if (thread == WaitingList::kUnknown) return "a thread";
    const WaitingList::Thread& it = ThreadAt(thread);
    std::string name = it.number != 0 ? fmt::format("T{}", it.number) : "";
    if (!it.name.empty()) name += (name.empty() ? "" : " ") + Printable(it.name);
    return name.empty() ? fmt::format("tid {}", it.tid) : fmt::format("{} (tid {})", name, it.tid);
  }

  std::string LockName(const WaitingList::Wait& wait) const {
    if (wait.kind == "join") {
      return wait.holder == WaitingList::kUnknown ? "a thread's end"
                                                  : fmt::format("the end of {}", ThreadName(wait.holder));
    }
    for (const LockList::Lock& lock : locks_.locks) {
      if (lock.number == wait.lock) return Printable(LockNameOf(profile_, locks_, lock, &whose_));
    }
    return wait.address == "0x0" ? "several futexes" : Printable(wait.address);
  }
  // With what it is, where it is no mutex.
  std::string WhatIsWaitedFor(const WaitingList::Wait& wait) const {
    return wait.kind == "join" ? LockName(wait) : fmt::format("{} {}", Printable(wait.kind), LockName(wait));
  }

  std::string Calls(int stack) const {
    return stack == WaitingList::kUnknown ? "" : Printable(CallsText(profile_, list_.stacks[Index(stack)]));
  }

  // Since the last of them began to wait.
  int64_t SinceNs(const std::vector<int>& circle) const {
    int64_t since_ns = INT64_MAX;
    for (const int thread : circle) since_ns = std::min(since_ns, WaitOf(thread).delay_ns);
    return since_ns;
  }

  std::string Deadlock(const std::vector<int>& circle) const {
    const std::string since = ForHowLong(SinceNs(circle));
    return (circle.size() == 1
                ? fmt::format("deadlock: 1 thread waits for itself, since {}\n", since)
                : fmt::format("deadlock: {} threads wait for each other, since {}\n", circle.size(), since)) +
           Rows(circle);
  }

  // Circles in which some lock does not say who holds it: who got it last may have let it go since.
  std::string PerhapsDeadlocks() const {
    std::string text;
    for (int start = 0; start < static_cast<int>(list_.threads.size()); ++start) {
      std::vector<int> way;
      bool is_sure = true;
      int at = start;
      while (at >= start && ThreadAt(at).wait != WaitingList::kUnknown && way.size() <= list_.threads.size()) {
        way.push_back(at);
        is_sure = is_sure && WaitOf(at).source != "last";
        at = WaitOf(at).holder;
        if (at == start) break;
      }
      if (at != start || way.empty() || is_sure) continue;
      text += fmt::format("perhaps a deadlock: {} threads wait for locks that each other got last, since {}\n",
                          way.size(), ForHowLong(SinceNs(way))) +
              Rows(way);
    }
    return text;
  }

  std::string Rows(const std::vector<int>& circle) const {
    std::vector<std::vector<std::string>> rows;
    for (size_t i = 0; i < circle.size(); ++i) {
      const WaitingList::Wait& behind = WaitOf(circle[(i + circle.size() - 1) % circle.size()]);
      const WaitingList::Wait& wait = WaitOf(circle[i]);
      const bool is_joined = behind.kind == "join";
      rows.push_back({ThreadName(circle[i]),
                      is_joined                 ? " has to end"
                      : behind.source == "last" ? " got last "
                                                : " holds ",
                      is_joined ? "" : LockName(behind), " waits for ", LockName(wait), " " + Calls(wait.stack)});
    }
    return Aligned(rows);
  }

  std::string Summary() const {
    if (list_.waits.empty()) return "no thread waits for anything that holdfast sees";
    int64_t held = 0, longest_ns = 0;
    for (const WaitingList::Wait& wait : list_.waits) {
      if (!IsHeld(wait)) continue;
      ++held;
      longest_ns = std::max(longest_ns, wait.delay_ns);
    }
    const int64_t unheld = std::max<int64_t>(list_.total, static_cast<int64_t>(list_.waits.size())) - held;
    if (held == 0) {
      return fmt::format("no thread waits for a lock; {} for what nobody holds",
                         unheld == 1 ? "1 waits" : fmt::format("{} wait", unheld));
    }
    return fmt::format("{} for locks, the longest for {}; {} for what nobody holds",
                       held == 1 ? "1 thread waits" : fmt::format("{} threads wait", held), ForHowLong(longest_ns),
                       unheld);
  }

  bool IsHeld(const WaitingList::Wait& wait) const {
    return !IsIdleKind(wait.kind) && (wait.kind != "futex" || IsContended(wait));
  }
  // A futex of one waiter is an event far more often than a lock.
  bool IsContended(const WaitingList::Wait& wait) const {
    return wait.holder != WaitingList::kUnknown || waiters_.at({wait.kind, wait.address}) > 1;
  }

  bool IsInDeadlock(int thread) const {
    return std::any_of(list_.deadlocks.begin(), list_.deadlocks.end(), [thread](const std::vector<int>& circle) {
      return std::find(circle.begin(), circle.end(), thread) != circle.end();
    });
  }

  struct OfLock {
    const WaitingList::Wait* longest = nullptr;
    std::map<std::string, std::vector<const WaitingList::Wait*>> by_calls;
    size_t count = 0;
    bool held = false;
  };

  // The longest wait first.
  std::vector<OfLock> ByLock() const {
    std::map<std::pair<std::string, std::string>, OfLock> locks;
    for (const WaitingList::Wait& wait : list_.waits) {
      const std::string kind = wait.kind.starts_with("rwlock") ? "rwlock" : wait.kind;
      OfLock& lock = locks[{kind, wait.kind == "join" ? fmt::format("{}", wait.holder) : wait.address}];
      if (lock.count++ == 0) lock.held = IsHeld(wait);
      if (lock.longest == nullptr || lock.longest->delay_ns < wait.delay_ns) lock.longest = &wait;
      lock.by_calls[Calls(wait.stack)].push_back(&wait);
    }
    std::vector<OfLock> sorted;
    for (auto& [key, lock] : locks) sorted.push_back(std::move(lock));
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const OfLock& a, const OfLock& b) { return a.longest->delay_ns > b.longest->delay_ns; });
    return sorted;
  }

  std::string Section(const std::vector<OfLock>& locks, bool held, size_t most, std::string_view title) const {
    std::string text;
    size_t shown = 0, more = 0, more_threads = 0;
    for (const OfLock& lock : locks) {
      if (lock.held != held || (lock.count == 1 && IsInDeadlock(lock.longest->thread))) continue;
      if (shown++ >= most) {
        ++more;
        more_threads += lock.count;
        continue;
      }
      text += fmt::format("  {}: {}, {}\n", WhatIsWaitedFor(*lock.longest),
                          lock.count == 1 ? "1 thread waits" : fmt::format("{} threads wait", lock.count),
                          (lock.count == 1 ? "for " : "the longest for ") + ForHowLong(lock.longest->delay_ns));
      if (const std::string holder = HolderText(*lock.longest); !holder.empty())
        text += fmt::format("    {}\n", holder);
      text += Waiters(lock);
    }
    if (more > 0)
      text += fmt::format("  and {} more, for which {} wait: --json names all\n", more,
                          more_threads == 1 ? "1 thread" : fmt::format("{} threads", more_threads));
    return text.empty() ? "" : std::string(title) + text;
  }

  // Of threads that neither wait nor hold: a server that waits for another process, say, is stuck as well.
  std::string Others() const {
    std::vector<std::vector<std::string>> rows;
    size_t more = 0;
    for (size_t i = 0; i < list_.threads.size(); ++i) {
      const WaitingList::Thread& thread = list_.threads[i];
      const auto is_of_it = [i](const WaitingList::Wait& wait) { return wait.holder == static_cast<int>(i); };
      if (thread.wait != WaitingList::kUnknown || thread.does.empty() ||
          std::any_of(list_.waits.begin(), list_.waits.end(), is_of_it)) {
        continue;
      }
      if (rows.size() == kMostOthersShown) {
        ++more;
        continue;
      }
      rows.push_back({ThreadName(static_cast<int>(i)), " " + Printable(thread.does), " " + Calls(thread.stack)});
    }
    if (rows.empty()) return "";
    return "\nother threads\n" + Aligned(rows) + (more > 0 ? "  and more\n" : "");
  }

  // Those that came by the same calls, in one line.
  std::string Waiters(const OfLock& lock) const {
    std::vector<std::vector<const WaitingList::Wait*>> groups;
    for (const auto& [calls, waits] : lock.by_calls) {
      groups.push_back(waits);
      std::stable_sort(groups.back().begin(), groups.back().end(),
                       [](const auto* a, const auto* b) { return a->delay_ns > b->delay_ns; });
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a[0]->delay_ns > b[0]->delay_ns; });
    std::vector<std::vector<std::string>> rows;
    for (size_t i = 0; i < groups.size() && i < kMostGroupsShown; ++i) {
      const WaitingList::Wait& first = *groups[i][0];
      const std::string others = groups[i].size() == 1 ? "" : fmt::format(" and {} more", groups[i].size() - 1);
      rows.push_back(
          {"  " + ThreadName(first.thread) + others, " " + ForHowLong(first.delay_ns), " " + Calls(first.stack)});
    }
    std::string text = Aligned(rows);
    if (groups.size() > kMostGroupsShown)
      text += fmt::format("    and by {} other ways\n", groups.size() - kMostGroupsShown);
    return text;
  }

  std::string HowKnown(const WaitingList::Wait& wait) const {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kWords = {
        {{"now", "yes"},
         {"start", "when the wait began"},
         {"last", "last to get it"},
         {"readers", "readers"},
         {"free", "free"},
         {"-", "no"}}};
    for (const auto& [source, word] : kWords) {
      if (source == wait.source) return std::string(word);
    }
    return "no";
  }

  std::string HolderText(const WaitingList::Wait& wait) const {
    const std::string died =
        wait.owner_died ? " (the owner before died with it, and nobody has made it consistent)" : "";
    if (wait.source == "free") return "nobody holds it at this moment" + died;
    if (wait.source == "readers") {
      return wait.readers == 1 ? "held by 1 reader; the lock does not say which"
                               : fmt::format("held by {} readers; the lock does not say which", wait.readers);
    }
    if (wait.holder == WaitingList::kUnknown) {
      return wait.kind == "futex" || wait.kind == "spin" ? "who holds it is not kept in the lock" : "";
    }
    std::string text =
        wait.kind == "join" ? fmt::format("that thread {}", DoingText(wait.holder, 0))
        : wait.source == "last"
            ? fmt::format("who holds it is not kept in the lock; the last that got it after a wait is {}, which {}",
                          ThreadName(wait.holder), DoingText(wait.holder, 0))
            : fmt::format("held by {}{}, which {}", ThreadName(wait.holder),
                          wait.source == "start" ? " when the wait began" : "", DoingText(wait.holder, 0));
    return text + died;
  }

  // What a holder does, and if it waits, for whom, and so on.
  std::string DoingText(int thread, int depth) const {
    const WaitingList::Thread& it = ThreadAt(thread);
    if (it.gone) return "has ended: nobody will let it go";
    if (it.wait == WaitingList::kUnknown) {
      const std::string calls = Calls(it.stack);
      const std::string does = it.does.empty() ? "does not wait for a lock" : Printable(it.does);
      return calls.empty() ? does : fmt::format("{}: {}", does, calls);
    }
    const WaitingList::Wait& wait = WaitOf(thread);
    const std::string calls = Calls(wait.stack);
    std::string text = fmt::format("waits for {}{}{}", WhatIsWaitedFor(wait), calls.empty() ? "" : ": ", calls);
    if (wait.holder == WaitingList::kUnknown || depth >= kLongestChain) return text;
    if (IsInDeadlock(thread)) return text + " (in the deadlock)";
    if (wait.source == "last") return text;
    const std::string holder =
        wait.kind == "join" ? "which" : fmt::format("held by {}, which", ThreadName(wait.holder));
    return fmt::format("{}; {} {}", text, holder, DoingText(wait.holder, depth + 1));
  }

  void AddThread(std::string_view key, int thread, JsonText* json) const {
    json->Key(key);
    if (thread == WaitingList::kUnknown) {
      json->Null();
      return;
    }
    const WaitingList::Thread& it = ThreadAt(thread);
    json->Open('{').Key("tid").Number(it.tid).Key("number").Number(it.number).Key("name").String(it.name);
    if (it.gone) json->Key("ended").Bool(true);
    if (!it.does.empty()) json->Key("does").String(it.does);
    if (it.stack != WaitingList::kUnknown) AddCalls(it.stack, json);
    json->Close('}');
  }

  void AddCalls(int stack, JsonText* json) const {
    json->Key("stack").Open('[');
    if (stack != WaitingList::kUnknown) {
      for (const std::string& name : FunctionsOf(profile_, list_.stacks[Index(stack)])) json->String(name);
    }
    json->Close(']');
  }

  const Profile& profile_;
  mutable Plumbing whose_ = Plumbing::Make(profile_, {}).value();  // without patterns it can't fail
  const LockList locks_;
  const WaitingList list_;
  std::map<std::pair<std::string_view, std::string_view>, size_t> waiters_;  // by kind and address
};

}  // namespace

std::string DeadlockText(const Profile& profile) { return Stuck(profile).Deadlocks(); }

std::string StuckText(const Profile& profile, const std::string& process) { return Stuck(profile).Screen(process); }

std::string StuckJson(const Profile& profile, int64_t pid) { return Stuck(profile).Json(pid); }

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
