#include "report/analysis/waiting_list.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "report/analysis/comment_words.h"
#include "report/pprof/stack_text.h"

namespace holdfast {
namespace {

constexpr int kMost = 100'000;  // of each kind of record

class WaitingListReader {
 public:
  explicit WaitingListReader(const Profile& profile) : profile_(profile) {}

  WaitingList Read() {
    for (const StringId comment : profile_.comments) {
      std::string_view text = profile_.strings[comment];
      if (!text.starts_with("waiting")) continue;
      text.remove_prefix(7);
      if (text.starts_with(": ")) CommentWords(text.substr(1)).Take(&list_.total);
      if (text.starts_with(' ')) ReadLine(CommentWords(text.substr(1)));
    }
    for (WaitingList::Thread& thread : list_.threads) KnownOrNot(list_.stacks.size(), &thread.stack);
    for (size_t i = 0; i < list_.waits.size(); ++i) {
      WaitingList::Wait& wait = list_.waits[i];
      KnownOrNot(list_.stacks.size(), &wait.stack);
      KnownOrNot(list_.threads.size(), &wait.thread);
      KnownOrNot(list_.threads.size(), &wait.holder);
      if (wait.thread == WaitingList::kUnknown) continue;
      // Use the shorter of two waits: a signal handler's, during the other one.
      int& of_thread = list_.threads[static_cast<size_t>(wait.thread)].wait;
      if (of_thread == WaitingList::kUnknown || wait.delay_ns < list_.waits[static_cast<size_t>(of_thread)].delay_ns)
        of_thread = static_cast<int>(i);
    }
    std::erase_if(list_.deadlocks, [this](const std::vector<int>& circle) { return !IsCircle(circle); });
    DropRepeatedDeadlocks();
    return std::move(list_);
  }

 private:
  // Sets an index to kUnknown if it is out of range. Numbers in comments begin at 1, indices at 0.
  static void KnownOrNot(size_t count, int* index) {
    if (*index < 0 || static_cast<size_t>(*index) >= count) *index = WaitingList::kUnknown;
  }
  static bool TakeIndex(CommentWords& words, int* index) {
    int number = 0;
    if (!words.TakeOrNone(&number) || number > kMost) return false;
    *index = number <= 0 ? WaitingList::kUnknown : number - 1;
    return true;
  }
  template <typename T>
  static T* At(std::vector<T>* all, int index) {
    if (index < 0) return nullptr;
    if (all->size() <= static_cast<size_t>(index)) all->resize(static_cast<size_t>(index) + 1);
    return &(*all)[static_cast<size_t>(index)];
  }

  bool IsCircle(const std::vector<int>& circle) const {
    return !circle.empty() && std::all_of(circle.begin(), circle.end(), [this](int thread) {
      return thread >= 0 && static_cast<size_t>(thread) < list_.threads.size() &&
             list_.threads[static_cast<size_t>(thread)].wait != WaitingList::kUnknown;
    });
  }

  // Deadlocks with the same threads are equal.
  void DropRepeatedDeadlocks() {
    std::set<std::set<int64_t>> seen;
    std::erase_if(list_.deadlocks, [&](const std::vector<int>& circle) {
      std::set<int64_t> ids;
      for (const int thread : circle) ids.insert(list_.threads[static_cast<size_t>(thread)].tid);
      return !ids.contains(0) && !seen.insert(std::move(ids)).second;
    });
  }

  void ReadLine(CommentWords words) {
    CommentWords ahead = words;
    const std::string_view what = ahead.Next();
    int index = 0;
    if (what == "thread") return ReadThread(ahead);
    if (what == "unknown:") {
      list_.unknown = ahead.rest();
    } else if (what == "not") {
      if (ahead.Is("written:")) ahead.Take(&list_.not_written);
    } else if (what == "stack") {
      if (TakeIndex(ahead, &index)) ReadStack(ahead, At(&list_.stacks, index));
    } else if (what == "deadlock") {
      std::vector<int> circle;
      if (!TakeIndex(ahead, &index)) return;
      while (!ahead.empty() && TakeIndex(ahead, &index)) circle.push_back(index);
      list_.deadlocks.push_back(std::move(circle));
    } else if (TakeIndex(words, &index)) {
      ahead = words;
      if (ahead.Is("slices:")) return ReadSlices(ahead, index);
      ReadWait(words, index);
    }
  }

  void ReadThread(CommentWords words) {
    int index = WaitingList::kUnknown;
    if (!TakeIndex(words, &index)) return;
    WaitingList::Thread* thread = At(&list_.threads, index);
    if (thread == nullptr) return;
    CommentWords ahead = words;
    const std::string_view what = ahead.Next();
    int gone = 0;
    if (what == "does:") {
      thread->does = ahead.rest();
    } else if (what == "labels:") {
      thread->labels = ahead.rest();
    } else if (what == "waits:") {
      thread->since_start = ahead.rest() == "since its start";
    } else if (what == "stack:") {
      TakeIndex(ahead, &thread->stack);
    } else if (words.Is("tid") && words.Take(&thread->tid) && words.Is("number") && words.Take(&thread->number) &&
               words.Is("gone") && words.Take(&gone) && words.Is("name")) {
      thread->gone = gone != 0;
      thread->name = words.rest();
    }
  }

  void ReadStack(CommentWords words, std::vector<uint32_t>* stack) {
    if (stack == nullptr) return;
    if (by_address_.empty()) by_address_ = LocationsByAddressOf(profile_);
    ReadStackText(words.rest(), by_address_, stack);
  }

  void ReadWait(CommentWords words, int index) {
    WaitingList::Wait wait;
    int died = 0;
    if (!words.Is("thread") || !TakeIndex(words, &wait.thread)) return;
    wait.kind = words.Next();
    wait.address = words.Next();
    if (!words.Is("lock") || !words.TakeOrNone(&wait.lock) || !words.Is("delay_ns") || !words.Take(&wait.delay_ns) ||
        !words.Is("stack") || !TakeIndex(words, &wait.stack) || !words.Is("holder") ||
        !TakeIndex(words, &wait.holder) || !words.Is("source")) {
      return;
    }
    wait.source = words.Next();
    if (!words.Is("readers") || !words.Take(&wait.readers) || !words.Is("died") || !words.Take(&died)) return;
    wait.owner_died = died != 0;
    if (WaitingList::Wait* place = At(&list_.waits, index)) *place = std::move(wait);
  }

  // This comment follows the wait.
  void ReadSlices(CommentWords words, int index) {
    int64_t age_ns = 0;
    if (index < 0 || static_cast<size_t>(index) >= list_.waits.size() || !words.Is("age_ns") || !words.Take(&age_ns))
      return;
    WaitingList::Wait& wait = list_.waits[static_cast<size_t>(index)];
    wait.delay_ns = std::max(wait.delay_ns, age_ns);
  }

  const Profile& profile_;
  WaitingList list_;
  LocationsByAddress by_address_;
};

}  // namespace

WaitingList ReadWaitingList(const Profile& profile) { return WaitingListReader(profile).Read(); }

}  // namespace holdfast
