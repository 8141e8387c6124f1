#include "report/profile/old_comments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "report/base/base_name.h"
#include "report/profile/typed_records.h"
#include "sampler/contract/records.h"
#include "sampler/contract/time_buckets.h"

namespace holdfast {
namespace {

constexpr uint32_t kMaxNumber = 100'000;  // of stacks, threads, waits, locks, pairs and sites

// Takes words off the front of a line.
class Words {
 public:
  explicit Words(std::string_view text) : left_(text) {}

  std::string_view Next() {
    while (left_.starts_with(' ')) left_.remove_prefix(1);
    const size_t end = std::min(left_.find(' '), left_.size());
    const std::string_view word = left_.substr(0, end);
    left_.remove_prefix(end);
    return word;
  }
  bool Is(std::string_view word) { return Next() == word; }
  template <typename Number>
  bool Take(Number* number, int base = 10) {
    std::string_view word = Next();
    while (word.ends_with(',') || word.ends_with(':')) word.remove_suffix(1);
    return Parse(word, number, base);
  }
  // "what 12"
  template <typename Number>
  bool Take(std::string_view what, Number* number) {
    return Is(what) && Take(number);
  }
  // A number from 1, or "-": 0.
  bool TakeNumber(uint32_t* number) {
    Words ahead = *this;
    if (ahead.Is("-")) {
      *this = ahead;
      *number = 0;
      return true;
    }
    return Take(number) && *number <= kMaxNumber;
  }
  bool empty() const { return left_.find_first_not_of(' ') == std::string_view::npos; }
  std::string_view rest() const { return left_.starts_with(' ') ? left_.substr(1) : left_; }

  // All of `word`.
  template <typename Number>
  static bool Parse(std::string_view word, Number* number, int base = 10) {
    if (base == 16 && word.starts_with("0x")) word.remove_prefix(2);
    Number read = 0;
    std::from_chars_result result;
    if constexpr (std::is_floating_point_v<Number>) {
      result = std::from_chars(word.data(), word.data() + word.size(), read);
      if (!std::isfinite(read)) return false;
    } else {
      result = std::from_chars(word.data(), word.data() + word.size(), read, base);
    }
    if (result.ec != std::errc() || result.ptr != word.data() + word.size() || word.empty()) return false;
    *number = read;
    return true;
  }

 private:
  std::string_view left_;
};

TimeCounts TimesIn(Words words) {
  TimeCounts times;
  while (!words.empty()) {
    const std::string_view word = words.Next();
    if (word == "incomplete") times.set_incomplete();
    const size_t colon = std::min(word.find(':'), word.size());
    uint64_t from_ns = 0;
    double count = 0;
    if (Words::Parse(word.substr(0, colon), &from_ns) &&
        Words::Parse(word.substr(std::min(colon + 1, word.size())), &count))
      times.Add(TimeBucket(from_ns), count);
  }
  return times;
}

// The entry with a number that counts from 1.
template <typename T>
T* At(std::vector<T>* all, uint32_t number) {
  if (number == 0) return nullptr;
  if (all->size() < number) all->resize(number);
  return &(*all)[number - 1];
}

// Adds an entry, or leaves it out if there are too many.
template <typename T>
void AddTo(std::vector<T>* all, T entry) {
  if (all->size() < kMaxNumber) all->push_back(std::move(entry));
}

class Translation {
 public:
  explicit Translation(Profile* profile) : profile_(*profile) {}

  void Run() {
    const std::string_view kind = profile_.CommentValue("kind");
    is_of_locks_ = kind == "mutex" || kind == "block";
    // Reads each comment once, however often the file refers to it: the records stay in proportion to the file's text.
    absl::flat_hash_map<StringId, bool> is_for_records;
    std::erase_if(profile_.comments, [&](StringId comment) {
      const auto [place, added] = is_for_records.emplace(comment, false);
      if (added) place->second = Read(profile_.strings[comment]);
      return place->second;
    });
    FinishIntervals();
    FinishProgram();
    if (process_ != record::Process{}) made_.process = std::move(process_);
    if (made_ != record::Profile{}) *profile_.mutable_records() = std::move(made_);
  }

 private:
  // Whether all of the comment is in the records now, and it is not for people.
  bool Read(std::string_view text) {
    return (text.starts_with("lock ") && ReadLock(Words(text.substr(5)))) ||
           (text.starts_with("waiting ") && ReadWaiting(Words(text.substr(8)))) ||
           (text.starts_with("waiting: ") && ReadWaitingThreads(Words(text.substr(9)))) ||
           (text.starts_with("thread ") && ReadThread(Words(text.substr(7)))) ||
           (is_of_locks_ && ReadLockCount(text)) || ReadValue(text);
  }

  static auto& Made(auto* message) { return message->has_value() ? **message : message->emplace(); }

  // "stack 3: 0x55d2c0901233 0x55d2c0901300", without its first word. An address without a location is left out.
  bool ReadStack(Words words, std::vector<std::vector<uint32_t>>* stacks) {
    uint32_t number = 0;
    if (!words.Take(&number) || number == 0 || number > kMaxNumber) return false;
    if (by_address_.empty()) {
      for (uint32_t i = 0; i < profile_.locations.size(); ++i) by_address_.emplace(profile_.locations[i].address, i);
    }
    std::vector<uint32_t>* stack = At(stacks, number);
    stack->clear();
    uint64_t address = 0;
    while (!words.empty() && words.Take(&address, 16)) {
      if (const auto found = by_address_.find(address); found != by_address_.end()) stack->push_back(found->second);
    }
    return true;
  }

  bool ReadLock(Words words) {
    Words ahead = words;
    const std::string_view first = ahead.Next();
    if (first == "stack") return ReadStack(ahead, &Made(&made_.locks).stack);
    if (first == "pair") return ReadPair(ahead);
    if (first == "site") return ReadSite(ahead);
    record::Lock lock;
    if (!words.Take(&lock.number)) return false;
    if (first.ends_with(':')) {
      lock.kind = words.Next();
      const bool whole = words.Take(&lock.address, 16) && words.Take("contentions", &lock.contentions) &&
                         words.Take("delay_ns", &lock.delay_ns) && words.Take("longest_ns", &lock.longest_ns) &&
                         words.Take("holds", &lock.holds) && words.Take("hold_ns", &lock.hold_ns);
      if (!whole) return false;
      lock_places_.emplace(lock.number, Made(&made_.locks).lock.size());
      AddTo(&made_.locks->lock, std::move(lock));
      return true;
    }
    const auto known = lock_places_.find(lock.number);
    return known != lock_places_.end() && known->second < kMaxNumber &&
           ReadOfLock(words, &made_.locks->lock[known->second]);
  }

  bool ReadOfLock(Words words, record::Lock* lock) {
    const std::string_view what = words.Next();
    int64_t number = 0, more = 0;
    uint32_t stack = 0;
    if (what == "name:") {
      ReadName(words.rest(), lock);
    } else if (what == "member:") {
      lock->member = words.rest();
    } else if (what == "waiting:" && words.Take(&number) && words.Take("delay_ns", &more)) {
      lock->waiting = number;
      lock->waiting_ns = more;
      if (words.Take("longest_ns", &number)) lock->longest_waiting_ns = number;
    } else if (what == "thread-local:" && words.Take(&number)) {
      lock->thread_offset = number;
    } else if (what == "alone:" && words.Take(&number)) {
      lock->alone_ns = number;
    } else if (what == "locks:" && words.Take(&number) && words.Take("hottest_ns", &more)) {
      lock->locks = static_cast<int32_t>(std::clamp<int64_t>(number, 0, INT32_MAX));
      lock->hottest_ns = more;
    } else if (what == "wait_times:") {
      lock->wait_times = TimesIn(words);
    } else if (what == "hold_times:" && words.Take("held_ns", &number) && words.Take("longest_ns", &more)) {
      lock->held_ns = number;
      lock->longest_held_ns = more;
      lock->hold_times = TimesIn(words);
    } else if (what == "block:" && words.Take(&number) && words.Is("bytes,") && words.Take(&more) && words.Is("into") &&
               words.Is("it,") && words.Take("stack", &stack)) {
      lock->block_bytes = number;
      lock->block_offset = more;
      lock->block_stack = stack;
    } else if (what == "frame:" && words.Take(&more) && words.Is("into") && words.Is("it,") &&
               words.Take("stack", &stack)) {
      lock->block_offset = more;
      lock->block_stack = stack;
    } else {
      return false;
    }
    return true;
  }

  // "server!0x4a080" is the address in a file of what has no name.
  static void ReadName(std::string_view text, record::Lock* lock) {
    const size_t mark = text.rfind("!0x");
    if (mark != std::string_view::npos && Words::Parse(text.substr(mark + 1), &lock->file_address, 16)) {
      lock->file = text.substr(0, mark);
    } else {
      lock->name = text;
    }
  }

  // "delay_ns: 5" of all locks stays a comment, "lock_samples: 7" and "mutex delay_ns: 5" do not.
  bool ReadLockCount(std::string_view text) {
    const size_t end = text.find(": ");
    if (end == std::string_view::npos) return false;
    const std::string_view key = text.substr(0, end), what = key.substr(key.rfind(' ') + 1);
    const std::string_view kind = key.substr(0, key.size() - std::min(key.size(), what.size() + 1));
    int64_t count = 0;
    if (!Words::Parse(text.substr(end + 2), &count) || count < 0) return false;
    if (key == "lock_samples") {
      if (IsFirst(key)) Made(&made_.locks).samples = static_cast<uint64_t>(count);
      return true;
    }
    if (kind.empty()) {
      int64_t record::Locks::*const field = key == "contentions" ? &record::Locks::contentions
                                            : key == "delay_ns"  ? &record::Locks::delay_ns
                                            : key == "gap_ns"    ? &record::Locks::gap_ns
                                                                 : nullptr;
      if (field != nullptr && IsFirst(key)) Made(&made_.locks).*field = count;
      return false;
    }
    int64_t record::LockKind::*const field = what == "contentions" ? &record::LockKind::contentions
                                             : what == "acquired"  ? &record::LockKind::acquired
                                             : what == "delay_ns"  ? &record::LockKind::delay_ns
                                             : what == "gap_ns"    ? &record::LockKind::gap_ns
                                                                   : nullptr;
    if (field == nullptr ||
        std::find(std::begin(kWaitKindNames) + 1, std::end(kWaitKindNames), kind) == std::end(kWaitKindNames))
      return false;
    std::vector<record::LockKind>& kinds = Made(&made_.locks).kind;
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& one) { return one.kind == kind; });
    record::LockKind& of_kind = known != kinds.end() ? *known : kinds.emplace_back();
    of_kind.kind = kind;
    if (IsFirst(key)) of_kind.*field = count;
    return true;
  }

  bool ReadPair(Words words) {
    uint32_t number = 0;
    record::LockPair pair;
    const bool whole = words.Take(&number) && words.Take("lock", &pair.lock) && words.Is("holder") &&
                       words.TakeNumber(&pair.holder) && words.Is("waiter") && words.TakeNumber(&pair.waiter) &&
                       words.Take("contentions", &pair.contentions) && words.Take("delay_ns", &pair.delay_ns);
    if (whole) AddTo(&Made(&made_.locks).pair, pair);
    return whole;
  }

  bool ReadSite(Words words) {
    record::LockSite site;
    if (!words.TakeNumber(&site.stack) || site.stack == 0) return false;
    site.kind = words.Next();
    const std::string_view what = words.Next();
    if (what == "alone:") return ReadAlone(words, site);
    site.is_holder = what == "hold_times:";
    if ((!site.is_holder && what != "wait_times:") || !words.Take("longest_ns", &site.longest_ns)) return false;
    site.times = TimesIn(words);
    if (site.is_holder) holder_places_.emplace(std::pair(site.stack, site.kind), Made(&made_.locks).site.size());
    AddTo(&Made(&made_.locks).site, std::move(site));
    return true;
  }

  // "350000 of 400000", after the lengths of the same site.
  bool ReadAlone(Words words, const record::LockSite& site) {
    int64_t alone_ns = 0, delay_ns = 0;
    if (!words.Take(&alone_ns) || !words.Take("of", &delay_ns)) return false;
    const auto known = holder_places_.find(std::pair(site.stack, site.kind));
    if (known == holder_places_.end() || known->second >= kMaxNumber) return true;
    made_.locks->site[known->second].delay_ns = delay_ns;
    made_.locks->site[known->second].alone_ns = alone_ns;
    return true;
  }

  // "9 threads, delay_ns 210000000000". Stays a comment: it is for people.
  bool ReadWaitingThreads(Words words) {
    int64_t threads = 0;
    if (!words.Take(&threads) || !(words.Is("threads,") || threads == 1) || !IsFirst("waiting")) return false;
    Made(&made_.waits).threads = threads;
    words.Take("delay_ns", &made_.waits->delay_ns);
    return false;
  }

  bool ReadWaiting(Words words) {
    Words ahead = words;
    const std::string_view what = ahead.Next();
    uint32_t number = 0;
    if (what == "thread") return ReadWaitingThread(ahead);
    if (what == "stack") return ReadStack(ahead, &Made(&made_.waits).stack);
    if (what == "unknown:") {
      Made(&made_.waits).unknown = ahead.rest();
      return true;
    }
    if (what == "not") return ahead.Take("written:", &Made(&made_.waits).not_written);
    if (what == "deadlock") {
      if (!ahead.TakeNumber(&number)) return false;
      record::Deadlock deadlock;
      while (!ahead.empty() && ahead.TakeNumber(&number)) deadlock.thread.push_back(number);
      AddTo(&Made(&made_.waits).deadlock, std::move(deadlock));
      return true;
    }
    if (!words.TakeNumber(&number)) return false;
    ahead = words;
    if (!ahead.Is("slices:")) return ReadWait(words, number);
    int64_t age_ns = 0;
    if (number == 0 || !made_.waits.has_value() || number > made_.waits->wait.size() || !ahead.Take("age_ns", &age_ns))
      return false;
    record::Wait& wait = made_.waits->wait[number - 1];
    wait.delay_ns = std::max(wait.delay_ns, age_ns);
    return true;
  }

  bool ReadWaitingThread(Words words) {
    uint32_t number = 0;
    if (!words.TakeNumber(&number) || number == 0) return false;
    record::WaitingThread& thread = *At(&Made(&made_.waits).thread, number);
    Words ahead = words;
    const std::string_view what = ahead.Next();
    if (what == "does:") {
      thread.does = ahead.rest();
      const auto starts = [&](std::string_view start) { return thread.does.starts_with(start); };
      thread.polls = starts("sleeps in epoll_") || starts("sleeps in poll") || starts("sleeps in select") ||
                     starts("sleeps in pselect") || starts("sleeps in ppoll");
    } else if (what == "labels:") {
      thread.labels = ahead.rest();
    } else if (what == "waits:") {
      thread.since_start = ahead.rest() == "since its start";
    } else if (what == "stack:") {
      return ahead.TakeNumber(&thread.stack);
    } else {
      int gone = 0;
      if (!words.Take("tid", &thread.tid) || !words.Take("number", &thread.number) || !words.Take("gone", &gone) ||
          !words.Is("name"))
        return false;
      thread.gone = gone != 0;
      thread.name = words.rest();
    }
    return true;
  }

  bool ReadWait(Words words, uint32_t number) {
    constexpr std::string_view kSources[] = {"-", "free", "now", "start", "last", "readers"};
    record::Wait wait;
    int died = 0;
    if (number == 0 || !words.Is("thread") || !words.TakeNumber(&wait.thread)) return false;
    wait.kind = words.Next();
    if (!words.Take(&wait.address, 16) || !words.Is("lock") || !words.TakeNumber(&wait.lock) ||
        !words.Take("delay_ns", &wait.delay_ns) || !words.Is("stack") || !words.TakeNumber(&wait.stack) ||
        !words.Is("holder") || !words.TakeNumber(&wait.holder) || !words.Is("source"))
      return false;
    const auto source = std::find(std::begin(kSources), std::end(kSources), words.Next());
    if (source != std::end(kSources)) wait.source = static_cast<record::HolderSource>(source - std::begin(kSources));
    if (!words.Take("readers", &wait.readers) || !words.Take("died", &died)) return false;
    wait.owner_died = died != 0;
    *At(&Made(&made_.waits).wait, number) = std::move(wait);
    return true;
  }

  // "2026-01-02T03:04:05.678Z", since 1970; 0 for anything else.
  static int64_t WallTimeIn(std::string_view text) {
    absl::Time time;
    std::string error;
    const bool is_time =
        absl::ParseTime(absl::RFC3339_full, absl::string_view(text.data(), text.size()), &time, &error);
    return is_time ? absl::ToUnixNanos(time) : 0;
  }

  // "123 bytes at 2026-01-02T03:04:05.678Z"
  void ReadMoment(std::string_view value, int64_t record::Peak::*bytes, int64_t record::Peak::*time_ns) {
    Words words(value);
    int64_t number = 0;
    if (!words.Take(&number)) return;
    Made(&made_.peak).*bytes = number;
    if (words.Is("bytes") && words.Is("at")) (*made_.peak).*time_ns = WallTimeIn(words.Next());
  }

  // "512 bytes", of the newest interval and of those before.
  static record::Interval IntervalIn(std::string_view value) {
    Words words(value);
    record::Interval interval;
    words.Take(&interval.mean);
    interval.unit = words.Next();
    return interval;
  }

  // Intervals that changed are all listed; one that never changed is listed once.
  void FinishIntervals() {
    if (!newest_interval_.has_value()) return;
    std::vector<record::Interval>& intervals = Made(&made_.sampling).interval;
    if (intervals.empty()) intervals.push_back(*newest_interval_);
  }

  static void ReadNames(record::NamesMissing what, std::string_view value, record::Profile* made) {
    record::MissingNames missing;
    const size_t end = std::min(value.find(": "), value.size());
    missing.what = what;
    if (what != record::NamesMissing::kAll) missing.path = value.substr(0, end);
    missing.why = what == record::NamesMissing::kAll ? value : value.substr(std::min(end + 2, value.size()));
    missing.not_in_time = missing.why.starts_with("not in time");
    missing.is_debug_file = what == record::NamesMissing::kLines && missing.why.starts_with('/');
    AddTo(&made->missing_names, std::move(missing));
  }

  // Whether no comment with this key was read before. Of several values the first counts: other tools merge profiles by
  // writing one's comments after the other's.
  bool IsFirst(std::string_view key) { return keys_.insert(key).second; }

  bool ReadValue(std::string_view text) {
    const size_t colon = text.find(": ");
    if (colon == std::string_view::npos) return false;
    const std::string_view key = text.substr(0, colon), value = text.substr(colon + 2);
    ReadProgram(key, value);
    return ReadOneOfSeveral(key, value) || (!IsOneOfSeveral(key) && IsFirst(key) && ReadSingle(key, value));
  }

  // Keeps what each process's main program is called. `program` is the first comment of a process.
  void ReadProgram(std::string_view key, std::string_view value) {
    if (key == "program") {
      const int number = program_.number;
      if (number != 0) {
        FinishProgram();
        program_ = {};
      }
      program_.name = value;
      program_.number = number + 1;
    } else if (key == "executable" && program_.executable.empty()) {
      program_.executable = value;
    } else if (key == "command" && program_.command.empty()) {
      program_.command = value;
    }
  }

  // The first program is in the fields of the process. Each later one has a record of its own if it is called otherwise than
  // its file.
  void FinishProgram() {
    const std::string_view file = BaseName(program_.executable);
    if (program_.number <= 1) {
      process_.program = program_.name;
      process_.executable = program_.executable;
      process_.command = program_.command;
    } else if (!program_.name.empty() && !file.empty() && program_.name != file &&
               BaseName(program_.command.substr(0, program_.command.find(' '))) == program_.name) {
      AddTo(&process_.object, record::ObjectName{std::string(file), std::string(program_.name)});
    }
  }

  static bool IsOneOfSeveral(std::string_view key) {
    constexpr std::string_view kKeys[] = {"object",   "interval in part", "frees not seen",  "merged from", "no names",
                                          "no lines", "names left out",   "interval since ", "memory file"};
    return std::any_of(std::begin(kKeys), std::end(kKeys),
                       [&](std::string_view one) { return one.ends_with(' ') ? key.starts_with(one) : key == one; });
  }

  // Reads a comment that a profile may have several times, each with another value.
  bool ReadOneOfSeveral(std::string_view key, std::string_view value) {
    if (const size_t called = value.find(" is called "); key == "object" && called != std::string_view::npos) {
      AddTo(&process_.object,
            record::ObjectName{std::string(value.substr(0, called)), std::string(value.substr(called + 11))});
      return true;
    }
    if (key.starts_with("interval since ") || key == "interval in part") {
      record::Interval interval = IntervalIn(value);
      // The time has colons, but no ": ".
      if (key != "interval in part") interval.since_ns = WallTimeIn(key.substr(15));
      AddTo(&Made(&made_.sampling).interval, std::move(interval));
      made_.sampling->interval_in_part = key == "interval in part";
    } else if (key == "frees not seen") {
      record::UnseenFrees unseen;
      Words words(value);
      if (words.Take(&unseen.bytes) && words.Is("bytes") && words.Is("in") && words.Take(&unseen.blocks) &&
          words.Is("blocks") && words.Is("of")) {
        unseen.module = words.rest().substr(0, words.rest().rfind(", which calls another free"));
        AddTo(&made_.unseen_frees, std::move(unseen));
      }
    } else if (key == "merged from") {
      AddTo(&Made(&made_.merged).from, std::string(value));
      return true;
    } else if (key == "no names") {
      ReadNames(record::NamesMissing::kNames, value, &made_);
    } else if (key == "no lines") {
      ReadNames(record::NamesMissing::kLines, value, &made_);
    } else if (key == "names left out") {
      ReadNames(record::NamesMissing::kAll, value, &made_);
    } else if (key == "memory file" && made_.account.has_value()) {
      record::AccountFile file;
      Words words(value);
      if (words.Take(&file.bytes)) AddTo(&made_.account->file, {std::string(words.rest()), file.bytes});
      return true;
    }
    return false;
  }

  // Reads the first comment with this key.
  bool ReadSingle(std::string_view key, std::string_view value) {
    const auto is = [&](std::string_view name, std::string* to) {
      if (key != name) return false;
      *to = value;
      return true;
    };
    record::Process* process = &process_;
    if (is("kind", &process->kind) || is("process", &process->id) || is("version", &process->version)) return false;
    if (key == "pid") {
      Words::Parse(value, &process->pid);
    } else if (key == "forked from pid") {
      Words::Parse(value, &process->parent_pid);
    } else if (key == "started") {
      process->started_ns = WallTimeIn(value);
    } else if (key == "elapsed") {
      double seconds = 0;
      if (value.ends_with('s') && Words::Parse(value.substr(0, value.size() - 1), &seconds) && seconds >= 0 &&
          seconds < 1e9)
        process->elapsed_ns = std::llround(seconds * 1e9);
    } else if (key == "profiled") {
      for (Words words(value); !words.empty();) AddTo(&process->profiled, std::string(words.Next()));
      return true;
    } else if (is("unseen waits", &process->unseen_waits)) {
      return true;
    } else if (key == "moment") {
      process->moment = value == "before exit handlers"  ? record::Moment::kBeforeExitHandlers
                        : value == "after exit handlers" ? record::Moment::kAfterExitHandlers
                                                         : record::Moment::kRunning;
    } else if (key == "resident_bytes") {
      return Words::Parse(value, &process->resident_bytes);
    } else if (key == "unchanged snapshots") {
      Words(value).Take(&process->unchanged_snapshots);
    } else if (key == "interval") {
      newest_interval_ = IntervalIn(value);
    } else if (key == "ages known") {
      ReadAges(value);
    } else if (key.starts_with("total ")) {
      const size_t sign = value.find(" ± ");
      record::Total total;
      total.half_width = -1;
      if (Words(value).Take(&total.value) &&
          (sign == std::string_view::npos || Words(value.substr(sign + 4)).Take(&total.half_width))) {
        total.type = key.substr(6);
        AddTo(&made_.total, std::move(total));
      }
    } else if (key.starts_with("lost ")) {
      record::Loss loss;
      if (Words::Parse(value, &loss.count)) AddTo(&made_.loss, {std::string(key.substr(5)), loss.count});
    } else if (key == "peak") {
      ReadMoment(value, &record::Peak::bytes, &record::Peak::time_ns);
    } else if (key == "peak stacks") {
      ReadMoment(value, &record::Peak::stacks_bytes, &record::Peak::stacks_time_ns);
    } else if (key == "peak error") {
      Words(value).Take(&Made(&made_.peak).missing_bytes);
    } else if (key == "swapped_bytes") {
      Words(value).Take(&Made(&made_.pages).swapped_bytes);
    } else if (key == "huge_bytes") {
      Made(&made_.pages).huge_known = Words(value).Take(&made_.pages->huge_bytes);
    } else if (key == "merged") {
      ReadMerged(value);
    } else if (key == "memory") {
      ReadAccount(Words(value));
      return true;
    } else {
      return ReadCounter(key, value);
    }
    return false;
  }

  bool ReadCounter(std::string_view key, std::string_view value) {
    uint64_t number = 0;
    if (!Words::Parse(value, &number)) return false;
    if (key == "own table_steps") return Made(&made_.counters).own_table_steps = number, true;
    if (key == "own memory_probes") return Made(&made_.counters).own_memory_probes = number, true;
    if (key == "own time_ns") Made(&made_.counters).own_time_ns = number;
    if (key == "own table_bytes") Made(&made_.counters).own_table_bytes = number;
    const bool is_sampled = key.starts_with("sampled_");
    if (is_sampled) key.remove_prefix(8);
    uint64_t record::Counters::*const field = key == "alloc_calls"   ? &record::Counters::alloc_calls
                                              : key == "alloc_bytes" ? &record::Counters::alloc_bytes
                                              : key == "free_calls"  ? &record::Counters::free_calls
                                              : key == "free_bytes"  ? &record::Counters::free_bytes
                                                                     : nullptr;
    if (field == nullptr) return false;
    Made(&made_.counters).*field = number;
    if (is_sampled) made_.counters->calls_are_sampled = true;
    return false;
  }

  // "of one block in 384 of up to 1024 bytes, chosen at random; of each larger one", also among others.
  void ReadAges(std::string_view value) {
    record::Sampling& sampling = Made(&made_.sampling);
    sampling.ages_known = value;
    const size_t drawn = value.find("of one block in ");
    if (drawn == std::string_view::npos) return;
    Words words(value.substr(drawn + 16));
    if (words.Take(&sampling.aged_one_in) && words.Is("of") && words.Is("up") && words.Is("to"))
      words.Take(&sampling.aged_up_to_bytes);
  }

  // "sum of 312 processes", "the highest of 3 processes", "difference of snapshots of 2 files from earlier ones"
  void ReadMerged(std::string_view value) {
    record::Merged& merged = Made(&made_.merged);
    merged.how = value.starts_with("the highest")  ? record::MergeMode::kHighest
                 : value.starts_with("difference") ? record::MergeMode::kDifference
                 : value.starts_with("mean")       ? record::MergeMode::kMean
                                                   : record::MergeMode::kSum;
    uint64_t count = 0;
    for (Words words(value); !words.empty();) {
      const std::string_view word = words.Next();
      if (Words::Parse(word, &count)) continue;
      if (word.starts_with("process")) merged.processes = count;
      if (word.starts_with("file")) merged.files = count;
    }
  }

  // "total 252706816 allocator 218652672 … live 94969856 live_variance 4.8e13 … name glibc"
  void ReadAccount(Words words) {
    record::Account& account = made_.account.emplace();
    bool has_resident = false;
    while (!words.empty()) {
      const std::string_view name = words.Next(), value = words.Next();
      if (name == "name") account.allocator_name = value;
      account.has_pages = account.has_pages || name == "live";
      has_resident = has_resident || name == "in_use_resident";
      AccountField field{name, value};
      record::Account::Fields(account, field);
    }
    if (!has_resident) account.in_use_resident = account.live;  // as the oldest files have it
  }

  // Sets the field of this name; an estimate's variance is called so.
  struct AccountField {
    std::string_view name, value;
    void operator()(uint32_t, std::string_view field, uint64_t& number) {
      if (field == name) Words::Parse(value, &number);
    }
    void operator()(uint32_t, std::string_view field, double& number) {
      if (field == name) Words::Parse(value, &number);
    }
    void operator()(uint32_t, std::string_view field, std::optional<record::Estimate>& estimate) {
      if (!name.starts_with(field)) return;
      const std::string_view part = name.substr(field.size());
      if (part.empty()) Words::Parse(value, &Made(&estimate).value);
      if (part == "_variance") Words::Parse(value, &Made(&estimate).variance);
    }
    void operator()(uint32_t, std::string_view, auto&) {}
  };

  bool ReadThread(Words words) {
    Words ahead = words;
    if (ahead.Is("stack")) return ReadStack(ahead, &Made(&made_.threads).stack);
    uint32_t number = 0;
    record::NamedThread thread;
    const bool whole = words.Take(&number) && words.Take("stack", &thread.stack) && words.Take("tid", &thread.tid) &&
                       words.Is("name") && (!made_.threads.has_value() || made_.threads->thread.size() < kMaxNumber);
    if (!whole) return false;
    thread.name = words.rest();
    Made(&made_.threads).thread.push_back(std::move(thread));
    return true;
  }

  // The main program according to the comments of one process.
  struct Program {
    std::string_view name, executable, command;
    int number = 0;  // of the process, from 1
  };

  Profile& profile_;
  record::Profile made_;
  record::Process process_;  // becomes made_.process if a comment fills it
  bool is_of_locks_ = false;
  Program program_;
  absl::flat_hash_set<std::string_view> keys_;                                   // that were read
  absl::flat_hash_map<uint32_t, size_t> lock_places_;                            // by number
  absl::flat_hash_map<std::pair<uint32_t, std::string>, size_t> holder_places_;  // by stack and kind
  std::optional<record::Interval> newest_interval_;
  absl::flat_hash_map<uint64_t, uint32_t> by_address_;
};

}  // namespace

void ReadOldComments(Profile* profile) { Translation(profile).Run(); }

}  // namespace holdfast
