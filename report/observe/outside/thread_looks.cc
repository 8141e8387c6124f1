#include "report/observe/outside/thread_looks.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "report/base/folder_names.h"
#include "report/base/holdfast_library.h"
#include "report/base/thread_name.h"
#include "report/base/time_budget.h"
#include "report/observe/outside/frozen_group.h"
#include "report/observe/outside/modules_of_process.h"
#include "report/observe/outside/outside_stack.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/thread_status.h"
#include "sampler/contract/deep_stacks.h"

namespace holdfast {
namespace {

constexpr int64_t kMeanStep = 50 * kMs, kLongestMeanStep = 125 * kMs;
// More threads than this at each look make looks rarer: 800 looks at one thread a second, until each thread has 8. With fewer,
// long waits for a CPU on a saturated machine are not recognized.
constexpr double kThreadsAtFullRate = 40;
constexpr double kShareOfThreadLooks = 50;  // at most 1/50 of a core
// The rate of looks follows means of this many, so that one costly look does not delay the next one for long.
constexpr double kLooksOfMean = 16;
// /proc has the start of a thread in hundredths of a second, rounded down.
constexpr int64_t kHalfTick = 5 * kMs;
constexpr int64_t kLongestTick = 10 * kMs;  // of the kernel
constexpr int64_t kMoment = 10 * kMs;       // readings that are at most this old are of the same time
constexpr int64_t kWaitsAnew = kMs, kWaitsAnewIfMissing = kMs / 10;
// A thread that began this long before the first look of all has a past that nobody looked at.
constexpr int64_t kUnseenPast = 4 * kMeanStep;
// From the start of a process until its library starts, if the process has not executed another program before.
constexpr int64_t kLongStart = 50 * kMs;
// After this many looks at a thread that has not run, it is looked at again after this time.
constexpr uint32_t kQuiet = 20, kVeryQuiet = 100;
constexpr int64_t kQuietStep = 200 * kMs, kVeryQuietStep = 400 * kMs;
// A period of a thread that is rarely blocked ends only after this many looks found it blocked. With fewer, a chance find
// would get all of its blocked time: mostly long waits, such as those for locks.
constexpr uint32_t kLooksAtBlocked = 16, kSomeLooks = 4;
// How often a look asks whether the process executes another program now.
constexpr uint32_t kLooksAtStart = 40, kLooksBetween = 8;
constexpr size_t kMaxRemembered = 8;           // walks of one thread
constexpr uint32_t kLooksOfWalk = 4;           // with many threads: one of them reads the stack again
constexpr uint64_t kMaxExtent = 64 << 10;      // of a remembered walk
constexpr size_t kMaxStacks = 1 << 14;         // further ones have no stack
constexpr size_t kMaxStates = 1 << 16;         // further ones have no lock, and no stack of the table
constexpr size_t kMaxTotals = 1 << 17;         // by name and state; further ones have no lock and no stack
constexpr size_t kMaxBareTotals = 1 << 18;     // further ones have one name
constexpr int kMaxDescriptors = 8192;          // of all processes
constexpr size_t kMaxEnded = 512;              // threads that are kept apart after their end
constexpr size_t kMaxWholeNames = 4096;        // further names lose their numbers
constexpr size_t kMaxNames = 8192;             // further threads have one name
constexpr size_t kMaxBins = 240;               // of a lane
constexpr int64_t kFirstBin = 50 * kMs;        // width
constexpr double kWholeBin = 1000;             // in units of a bin's counts
constexpr int64_t kModulesBelieved = kSecond;  // before they are read again

constexpr int64_t kFutexWaitv = 449, kFutexWait = 455;  // not in all headers

std::atomic<int> descriptors = 0;

ThreadDoes DoesOf(int64_t call) {
  switch (call) {
    case SYS_read:
    case SYS_write:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_readv:
    case SYS_writev:
    case SYS_preadv:
    case SYS_pwritev:
    case SYS_preadv2:
    case SYS_pwritev2:
    case SYS_sendto:
    case SYS_recvfrom:
    case SYS_sendmsg:
    case SYS_recvmsg:
    case SYS_sendmmsg:
    case SYS_recvmmsg:
    case SYS_sendfile:
    case SYS_splice:
    case SYS_copy_file_range:
    case SYS_connect:
    case SYS_openat:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_sync_file_range:
    case SYS_msync:
    case SYS_fallocate:
    case SYS_ftruncate:
    case SYS_getdents64:
    case SYS_io_getevents:
    case SYS_io_uring_enter:
      return ThreadDoes::kIo;
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
#if defined(__x86_64__)  // other processors have ppoll for it
    case SYS_pause:
#endif
      return ThreadDoes::kSleep;
    default:
      return ThreadDoes::kCall;
  }
}

// Returns whether the last call failed because this process has no descriptors or memory left: try again later.
bool LacksDescriptors() { return errno == EMFILE || errno == ENFILE || errno == ENOMEM; }

// Returns whether the process has ended or executed another program. Without free descriptors, every process looks so.
bool IsOver(const TableFile& table) {
  return table.liveness() == Liveness::kDead && FileDescriptor(open("/proc/self/stat", O_RDONLY | O_CLOEXEC)).valid();
}

// The rest of the descriptors is for everything else that this process does.
int MostDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return static_cast<int>(std::min<rlim_t>(kMaxDescriptors, limit.rlim_cur / 4));
}

// Reads a number and moves past it, and past spaces and "0x" before it.
uint64_t TakeNumber(const char** at, uint64_t base) {
  while (**at == ' ') ++*at;
  if (base == 16 && (*at)[0] == '0' && (*at)[1] == 'x') *at += 2;
  uint64_t number = 0;
  for (;; ++*at) {
    const char c = **at;
    const uint64_t digit = c >= '0' && c <= '9'   ? static_cast<uint64_t>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<uint64_t>(c - 'a' + 10)
                                                  : 16;
    if (digit >= base) return number;
    number = number * base + digit;
  }
}

// A wait for something that threads hold. A futex may be a lock or an event: it is one of the other system calls.
bool IsForLock(WaitKind kind) {
  return kind == WaitKind::kMutex || IsRwlock(kind) || kind == WaitKind::kSpin || kind == WaitKind::kCustom;
}

}  // namespace

class ThreadLooks::Looker {
 public:
  explicit Looker(LookedAtProcess process)
      : process_(std::move(process)),
        pid_(process_.pid),
        random_(static_cast<uint32_t>(process_.now_ns())),
        lane_start_ns_(process_.now_ns()),
        lane_start_wall_ns_(NowNs(CLOCK_REALTIME)) {
    on_cpu_ = StateIndex({ThreadDoes::kCpu, WaitKind::kNone, -1, 0, kNoStack});
    wants_cpu_ = StateIndex({ThreadDoes::kRunnable, WaitKind::kNone, -1, 0, kNoStack});
    unknown_state_ = StateIndex({ThreadDoes::kUnknown, WaitKind::kNone, -1, 0, kNoStack});
    stopped_ = StateIndex({ThreadDoes::kStopped, WaitKind::kNone, -1, 0, kNoStack});
  }

  int64_t next_ns() const { return next_ns_; }

  void ReadNoMoreMemory(uid_t of_user) {
    process_.memory.reset();
    process_.of_user = of_user;
  }

  void Look(const TableFile& table, bool now_or_never) {
    const int64_t now_ns = process_.now_ns();
    if ((now_ns < next_ns_ && !now_or_never) || ended_process_ || is_paused_) return;
    const int64_t used = NowNs(CLOCK_THREAD_CPUTIME_ID);
    // A wrapper such as setpriv soon executes another program. The threads of that one are not this table's.
    if ((now_or_never || looks_ < kLooksAtStart || looks_ % kLooksBetween == 0) && IsOver(table)) return EndAll();
    if (!process_.tasks.valid() && !OpenAgain()) {
      next_ns_ = now_ns + kSecond;
      return;
    }
    if (looks_++ == 0 || is_resumed_) first_look_ns_ = now_ns;
    table_ = &table;
    is_ending_ = table.RecordsNoMore();
    BeginMoment(now_ns);
    // Read before the threads' own times, which then contain at least as much: nothing unseen is invented. The kernel adds up
    // all threads for it.
    if (now_or_never) cpu_before_look_ns_ = process_.cpu_ns();
    FindFrozen(now_ns);
    bool any_gone = false;
    size_t looked_at = 0;
    for (auto& [id, thread] : threads_) {
      if (thread.skip > 0 && !now_or_never) {
        --thread.skip;
      } else {
        ++looked_at;
        any_gone |= !LookAt(&thread);
        if (thread.is_zombie) End(&thread);
      }
    }
    if (is_over_) return EndAll();
    struct stat info;
    // The directory has a link for each thread, and two more.
    const bool is_there = fstat(process_.tasks.get(), &info) == 0;
    if (any_gone || !is_there || info.st_nlink != threads_.size() + 2) List();
    is_resumed_ = false;
    if (!unseen_before_.has_value() && !threads_.empty()) FindUnseenBefore();
    const auto cost_ns = static_cast<double>(NowNs(CLOCK_THREAD_CPUTIME_ID) - used);
    mean_cost_ns_ += (cost_ns - mean_cost_ns_) / kLooksOfMean;
    mean_looked_at_ += (static_cast<double>(looked_at) - mean_looked_at_) / kLooksOfMean;
    mean_step_ns_ =
        std::clamp(static_cast<int64_t>(static_cast<double>(kMeanStep) * mean_looked_at_ / kThreadsAtFullRate),
                   kMeanStep, kLongestMeanStep);
    mean_step_ns_ = std::max(mean_step_ns_, static_cast<int64_t>(kShareOfThreadLooks * mean_cost_ns_));
    next_ns_ = now_ns + std::uniform_int_distribution<int64_t>(mean_step_ns_ / 2, 3 * mean_step_ns_ / 2)(random_);
    if (ended_process_) next_ns_ = INT64_MAX;
  }

  void Pause(const TableFile& table) {
    if (is_paused_) return;
    ClosePeriod(table, /*is_last=*/true);
    is_paused_ = true;
    next_ns_ = INT64_MAX;
  }

  void Resume() {
    if (!is_paused_ || ended_process_) return;
    is_paused_ = false;
    is_resumed_ = true;
    next_ns_ = 0;
    for (auto& [id, thread] : threads_) thread.skip = 0;
  }

  void ClosePeriod(const TableFile& table, bool is_last) {
    Look(table, /*now_or_never=*/true);
    for (auto& [id, thread] : threads_) {
      if (thread.has_ended) continue;
      thread.time.name = NameIndex(NameOf(thread), thread.time.name);
      Close(&thread, is_last);
    }
    FindUnseen();
  }

  std::shared_ptr<const ThreadTimes> Times(const std::vector<RowInfo>& rows, WaitGraph* state, bool with_open) {
    auto times = std::make_shared<ThreadTimes>();
    times->names = names_;
    times->looks = looks_;
    times->unknown = unknown_;
    times->most_unlisted = most_unlisted_;
    times->lane_start_wall_ns = lane_start_wall_ns_;
    times->lane_step_ns = bin_ns_;
    if (unseen_cpu_ns_ > 0) {
      times->unseen_cpu_ns = unseen_cpu_ns_;
      const auto name = static_cast<uint32_t>(times->names.size());
      times->names.emplace_back("[between looks]");
      times->rows.push_back({.name = name, .does = ThreadDoes::kCpu, .ns = unseen_cpu_ns_});
    }
    const std::vector<uint32_t> stacks = AddStacks(state);
    absl::flat_hash_map<uint64_t, uint32_t> stack_of_row;
    for (const RowInfo& row : rows) stack_of_row.emplace(row.place, row.stack);
    const auto stack_of = [&](const State& what) {
      if (what.stack != kNoStack) return stacks[what.stack];
      const auto row = stack_of_row.find(what.row);
      return what.row == 0 || row == stack_of_row.end() ? kNoStack : row->second;
    };
    const auto add = [&](uint32_t name, uint32_t state, double ns) {
      const State& what = states_[state];
      times->rows.push_back({.name = name,
                             .does = what.does,
                             .wait = what.wait,
                             .call = what.call,
                             .lock = what.lock,
                             .stack = stack_of(what),
                             .ns = ns,
                             .holder_does = what.holder.does,
                             .holder_call = what.holder.call,
                             .is_free = what.holder.is_free});
    };
    for (const auto& [key, ns] : totals_) add(key.first, key.second, ns);
    for (const auto& [id, thread] : threads_) {
      if (thread.has_ended) continue;
      ThreadTime& told = times->threads.emplace_back(thread.Told(LanesUpTo(thread)));
      if (!with_open) continue;
      told.lived_ns = thread.lived_ns();
      ForOpenPeriod(thread, [&](uint32_t state, double ns) {
        add(told.name, state, ns);
        told.ns[static_cast<int>(states_[state].does)] += ns;
      });
    }
    std::sort(times->rows.begin(), times->rows.end(), [](const ThreadTimeRow& a, const ThreadTimeRow& b) {
      return std::tuple(a.name, a.does, a.call, a.lock, a.stack) < std::tuple(b.name, b.does, b.call, b.lock, b.stack);
    });
    times->threads.insert(times->threads.end(), ended_.begin(), ended_.end());
    for (const auto& [name, sum] : sums_) times->threads.push_back(sum);
    return times;
  }

 private:
  // A descriptor that counts.
  class CountedFile {
   public:
    CountedFile() = default;
    explicit CountedFile(int fd) : file_(fd) { descriptors += file_.valid() ? 1 : 0; }
    CountedFile(CountedFile&& other) noexcept : file_(std::move(other.file_)) {}
    CountedFile& operator=(CountedFile&& other) noexcept {
      if (file_.valid()) --descriptors;
      file_ = std::move(other.file_);
      return *this;
    }
    CountedFile(const CountedFile&) = delete;
    CountedFile& operator=(const CountedFile&) = delete;
    ~CountedFile() {
      if (file_.valid()) --descriptors;
    }
    const FileDescriptor& file() const { return file_; }

   private:
    FileDescriptor file_;
  };

  struct Schedule {
    uint64_t cpu_ns = 0, waited_ns = 0, turns = 0;
    bool operator==(const Schedule&) const = default;
  };

  // The activity of a lock's holder; kUnknown: not known, or nobody holds the lock.
  struct HolderDoes {
    ThreadDoes does = ThreadDoes::kUnknown;
    int64_t call = -1;
    bool is_free = false;
  };

  using Bin = std::array<uint16_t, kThreadDoes>;
  using StateKey =
      std::tuple<ThreadDoes, WaitKind, int64_t, uint64_t, uint32_t, uint64_t, std::tuple<ThreadDoes, int64_t, bool>>;
  struct State {
    ThreadDoes does;
    WaitKind wait;
    int64_t call;
    uint64_t lock;
    uint32_t stack;    // walked from outside
    uint64_t row = 0;  // of the table, which has the stack of a recorded wait; 0: none
    HolderDoes holder = {};
    StateKey Key() const {
      return {does, wait, call, lock, stack, row, std::tuple(holder.does, holder.call, holder.is_free)};
    }
  };
  struct Walked {
    uint64_t pc = 0, sp = 0, bytes = 0;
    uint64_t found_at = 0;  // the number of the look that found this walk last
    uint32_t stack = kNoStack;
    std::vector<std::pair<uint32_t, uint64_t>> words = {};  // places above sp, and return addresses there
  };
  struct Stack {
    std::vector<uint64_t> frames = {};
    bool truncated = false;
    bool operator==(const Stack&) const = default;
    template <typename Hash>
    friend Hash AbslHashValue(Hash hash, const Stack& stack) {
      return Hash::combine(std::move(hash), stack.frames, stack.truncated);
    }
  };

  static constexpr uint32_t kRan = kNoIndex;  // no state: the thread was on a CPU, or waited for one

  struct Thread {
    pid_t id = 0;
    CountedFile schedstat, syscall;
    Schedule schedule;
    int64_t began_ns = 0, last_ns = 0;
    uint32_t looks = 0, unchanged = 0, skip = 0;
    uint32_t state = kRan;  // at the last look: index into states_
    uint64_t call_sp = 0;   // of the last call that was seen
    ThreadDoes call_does = ThreadDoes::kUnknown;
    int64_t call = -1;
    uint32_t with_holder = kRan;  // the same state; for a wait for a lock, with the holder's activity
    int64_t queued_since_ns = 0;  // has waited for a CPU at least since then; 0: has run since the last look but one
    double share_on_cpu = 1;      // of the time that the thread ran or waited for a CPU, between the last two looks
    bool has_executed = false;    // what it did and counted before is an earlier program's
    bool is_gone = false;
    bool is_zombie = false, has_ended = false;
    // The open period: by state, not yet scaled.
    std::vector<std::pair<uint32_t, double>> credits;
    double credited_ns = 0;
    uint32_t looks_of_period = 0, looks_at_blocked = 0;
    double tail_ns = 0;  // after the last look
    // The sums of closed periods.
    double closed_ns = 0, blocked_ns = 0;
    uint64_t cpu_ns = 0, waited_ns = 0;
    double queued_given_ns = 0;  // of a wait for a CPU that was not over in a last period
    ThreadTime time;
    std::vector<Walked> walks;
    size_t next_walk = 0;
    std::vector<Bin> bins;
    size_t first_bin = 0;

    double lived_ns() const { return static_cast<double>(last_ns - began_ns) + tail_ns; }
    // A wait for a CPU that goes on. The kernel counts it when it ends.
    double queued_ns() const { return queued_since_ns != 0 ? static_cast<double>(last_ns - queued_since_ns) : 0; }
    // The time blocked of the open period.
    double open_ns() const {
      return lived_ns() - static_cast<double>(schedule.cpu_ns + schedule.waited_ns) - queued_ns() - blocked_ns;
    }
    ThreadTime Told(std::vector<uint32_t> lane) const {
      ThreadTime told = time;
      told.lane = std::move(lane);
      return told;
    }
  };

  // A server may have a mutex in each connection.
  uint32_t StateIndex(State state) {
    if (states_.size() >= kMaxStates && !state_index_.contains(state.Key())) {
      state.lock = state.row = 0;
      state.holder = {};
    }
    const auto [place, added] = state_index_.emplace(state.Key(), static_cast<uint32_t>(states_.size()));
    if (added) states_.push_back(state);
    return place->second;
  }

  // An empty name keeps the earlier one.
  uint32_t NameIndex(const std::string& name, std::optional<uint32_t> before = std::nullopt) {
    if (name.empty() && before.has_value()) return *before;
    const auto known = name_index_.find(name);
    if (known != name_index_.end()) return known->second;
    // A thread of its own for each request may have a name of its own, too.
    const std::string kept = names_.size() < kMaxWholeNames ? name
                             : names_.size() < kMaxNames    ? FoldedThreadName(name)
                                                            : kOtherThreads;
    const auto [place, added] = name_index_.emplace(kept, static_cast<uint32_t>(names_.size()));
    if (added) names_.push_back(kept);
    return place->second;
  }

  // ---- The threads ----

  // The process has ended, or executes another program: the threads of that one are not this table's.
  void EndAll() {
    ended_process_ = true;
    for (auto& [id, thread] : threads_) End(&thread);
    threads_.clear();
    next_ns_ = INT64_MAX;
  }

  // Returns false if we lack descriptors, as before.
  bool OpenAgain() {
    LookedAtProcess again = LookedAtProcess::Of(pid_, process_.other_namespace, process_.of_user);
    if (!again.tasks.valid() && LacksDescriptors()) return false;
    process_.tasks = std::move(again.tasks);
    if (process_.memory.has_value()) process_.memory.emplace(pid_);
    return true;
  }

  void List() {
    if (IsOver(*table_)) return EndAll();
    absl::flat_hash_set<pid_t> alive;
    std::vector<pid_t> added;
    const bool is_listed = ForEachName(process_.tasks.get(), [&](const char* name) {
      pid_t id = 0;
      if (!absl::SimpleAtoi(name, &id)) return;
      alive.insert(id);
      const auto known = threads_.find(id);
      if (known == threads_.end() || known->second.is_gone) added.push_back(id);
    });
    if (!is_listed && process_.tasks.valid() && LacksDescriptors()) {
      struct stat info;
      const bool is_there = fstat(process_.tasks.get(), &info) == 0;
      if (is_there && info.st_nlink > threads_.size() + 2) NoteUnlisted(info.st_nlink - 2 - threads_.size());
      return;
    }
    ended_process_ = alive.empty();
    for (auto& [id, thread] : threads_) {
      if (thread.is_gone || !alive.contains(id)) End(&thread);
    }
    absl::erase_if(threads_, [&](const auto& entry) { return entry.second.is_gone || !alive.contains(entry.first); });
    static const int most_descriptors = MostDescriptors();
    uint64_t unlisted = 0;
    for (const pid_t id : added) {
      Thread thread;
      thread.id = id;
      thread.time.id = process_.other_namespace ? InnerIdOf(ReadWhole(FileDescriptor(OpenOfTask(id, "status"))))
                                                : static_cast<uint32_t>(id);
      if (thread.time.id == 0) continue;  // cannot be read now: the next look lists it again
      if (descriptors + 2 <= most_descriptors) {
        thread.schedstat = CountedFile(OpenOfTask(id, "schedstat"));
        thread.syscall = CountedFile(OpenOfTask(id, "syscall"));
      }
      const std::optional<int64_t> began = BeganOf(ReadOfTask(thread, CountedFile(), "stat"));
      if (!began.has_value()) {
        unlisted += LacksDescriptors() ? 1 : 0;
        continue;  // has ended, or is listed by a later look
      }
      thread.time.name = NameIndex(NameOf(thread));
      const int64_t now_ns = process_.now_ns();
      thread.began_ns = std::min(*began + kHalfTick, now_ns);
      // A thread that executes a program keeps its start and its counts.
      if (const std::optional<int64_t> executed = id == pid_ ? table_->ExecutedAt() : std::nullopt;
          executed.has_value() && *executed > *began + kLongStart) {
        thread.has_executed = true;
        thread.began_ns = std::min(*executed, now_ns);
      }
      thread.time.began_wall_ns = NowNs(CLOCK_REALTIME) - (now_ns - thread.began_ns);
      Thread& listed = threads_.emplace(id, std::move(thread)).first->second;
      LookAt(&listed);
      if (listed.is_zombie) End(&listed);
    }
    NoteUnlisted(unlisted);
    absl::erase_if(threads_, [](const auto& entry) { return entry.second.looks == 0; });
  }

  void NoteUnlisted(uint64_t threads) { most_unlisted_ = std::max(most_unlisted_, threads); }

  int OpenOfTask(pid_t id, const char* name) const {
    return openat(process_.tasks.get(), absl::StrCat(id, "/", name).c_str(), O_RDONLY | O_CLOEXEC);
  }
  // Returns the text in `buffer_`; empty: it cannot be read, and errno says why.
  const char* ReadOfTask(const Thread& thread, const CountedFile& kept, const char* name) {
    errno = 0;
    FileDescriptor opened;
    if (!kept.file().valid()) opened = FileDescriptor(OpenOfTask(thread.id, name));
    const int fd = kept.file().valid() ? kept.file().get() : opened.get();
    // Not by libc, where it is a cancellation point of a process with threads: some hundred instructions.
    const long got = fd < 0 ? -1 : syscall(SYS_pread64, fd, text_.data(), text_.size() - 1, 0L);
    text_[static_cast<size_t>(std::max<long>(got, 0))] = '\0';
    return text_.data();
  }

  std::string NameOf(const Thread& thread) {
    return std::string(absl::StripTrailingAsciiWhitespace(ReadOfTask(thread, CountedFile(), "comm")));
  }

  std::optional<Schedule> ReadSchedule(const Thread& thread) {
    const char* at = ReadOfTask(thread, thread.schedstat, "schedstat");
    if (*at == '\0') return std::nullopt;
    Schedule schedule;
    schedule.cpu_ns = TakeNumber(&at, 10);
    schedule.waited_ns = TakeNumber(&at, 10);
    schedule.turns = TakeNumber(&at, 10);
    return schedule;
  }

  // One reading of waits and locks serves all threads for a while, but must be of the same time as the threads' calls.
  void BeginMoment(int64_t now_ns) {
    moment_ns_ = now_ns;
    waits_.reset();
    holders_.clear();
    may_be_stopped_.reset();
    is_frozen_now_.reset();
  }

  bool IsFrozenNow() {
    if (!is_frozen_now_.has_value()) is_frozen_now_ = process_.is_frozen && process_.is_frozen();
    return *is_frozen_now_;
  }

  // Returns the number of looks that leave out a thread until `step_ns` has passed.
  uint32_t SkipFor(int64_t step_ns) const { return static_cast<uint32_t>((step_ns - 1) / mean_step_ns_); }

  // A frozen thread is wherever it was, and nothing in /proc/PID tells. Asked while no thread runs, at most once a second until
  // it is so.
  void FindFrozen(int64_t now_ns) {
    if (std::exchange(any_ran_, false)) {
      is_frozen_ = false;
    } else if (is_frozen_ || now_ns >= next_frozen_ns_) {
      is_frozen_ = IsFrozenNow();
      next_frozen_ns_ = now_ns + kSecond;
    }
  }

  // Returns false if the thread has ended.
  bool LookAt(Thread* thread) {
    if (thread->has_ended) return true;
    const std::optional<Schedule> schedule = ReadSchedule(*thread);
    // Where threads wait long for a CPU, so does this one: its looks at the first and the last thread are seconds apart.
    const int64_t now_ns = process_.now_ns();
    if (now_ns - moment_ns_ > kMoment) BeginMoment(now_ns);
    if (!schedule.has_value() && LacksDescriptors()) return true;
    // Some kernels have zeros for all threads. A new thread that has not run yet is listed again at the next look.
    const bool has_run = !schedule.has_value() || schedule->turns != 0;
    if (!has_run && thread->id == pid_ && unknown_.empty()) unknown_ = "this kernel does not count when threads run";
    // Without descriptors, a new thread may have the id of an ended one.
    if (!schedule.has_value() || !has_run || schedule->cpu_ns < thread->schedule.cpu_ns ||
        schedule->turns < thread->schedule.turns) {
      thread->is_gone = true;
      return false;
    }
    // Executing a program ends all other threads and takes time on a CPU. What follows is that program's.
    if (threads_.size() == 1 && thread->looks > 0 && *schedule != thread->schedule && IsOver(*table_)) {
      is_over_ = true;
      return true;
    }
    const bool is_first = thread->looks++ == 0;
    const Schedule before = std::exchange(thread->schedule, *schedule);
    const uint32_t state_before = thread->state;
    if (const uint64_t cpu_ns = schedule->cpu_ns - before.cpu_ns, waited_ns = schedule->waited_ns - before.waited_ns;
        cpu_ns + waited_ns > 0)
      thread->share_on_cpu = static_cast<double>(cpu_ns) / static_cast<double>(cpu_ns + waited_ns);
    ++thread->looks_of_period;
    if (!is_first && before == *schedule) {
      // It has not run. If it was not blocked, it still waits for a CPU.
      if (is_frozen_) {
        thread->queued_since_ns = 0;
      } else if (state_before != kRan) {
        ++thread->unchanged;
      } else if (thread->queued_since_ns == 0) {
        thread->queued_since_ns = thread->last_ns;
      }
    } else {
      any_ran_ = true;
      thread->queued_since_ns = 0;
      thread->unchanged = 0;
      thread->state = Observe(thread);
      if (thread->looks == 2) thread->time.name = NameIndex(NameOf(*thread), thread->time.name);
    }
    thread->with_holder = is_frozen_ && before == *schedule ? stopped_ : WithHolder(thread->state);
    thread->looks_at_blocked += thread->with_holder != kRan ? 1 : 0;
    thread->skip =
        thread->unchanged < kQuiet ? 0 : SkipFor(thread->unchanged < kVeryQuiet ? kQuietStep : kVeryQuietStep);
    if (is_first) {
      // The thread has lived at least as long as it ran and waited: its start is known only to a hundredth of a second.
      const int64_t ran_ns =
          static_cast<int64_t>(std::min<uint64_t>(schedule->cpu_ns + schedule->waited_ns, 1ULL << 60));
      if (!thread->has_executed) thread->began_ns = std::min(thread->began_ns, now_ns - ran_ns);
      thread->last_ns = now_ns;
      if (thread->has_executed || thread->began_ns < first_look_ns_ - kUnseenPast) {
        // The whole past is unknown, also its CPU time: otherwise a long life hides what the looks see.
        Give(thread, unknown_state_, thread->lived_ns());
        thread->blocked_ns += thread->lived_ns() - static_cast<double>(ran_ns);
        thread->closed_ns = thread->lived_ns();
        thread->cpu_ns = schedule->cpu_ns;
        thread->waited_ns = schedule->waited_ns;
      } else {
        Credit(thread, thread->with_holder, static_cast<double>(now_ns - thread->began_ns));
      }
      return true;
    }
    // A thread that has not run is still where it was.
    if (is_resumed_ && before != *schedule) {
      NoteNotSeen(thread, static_cast<double>(now_ns - thread->last_ns), before);
    } else {
      Credit(thread, thread->with_holder, static_cast<double>(now_ns - thread->last_ns));
    }
    AddToLane(thread, now_ns, static_cast<double>(schedule->cpu_ns - before.cpu_ns),
              static_cast<double>(schedule->waited_ns - before.waited_ns), state_before);
    thread->last_ns = now_ns;
    return true;
  }

  // Nobody looked since the last look. What the kernel counted meanwhile is known, the rest is not.
  void NoteNotSeen(Thread* thread, double passed, const Schedule& before) {
    const Schedule& now = thread->schedule;
    const double rest = passed - static_cast<double>(now.cpu_ns - before.cpu_ns + now.waited_ns - before.waited_ns);
    if (rest <= 0) return;
    Give(thread, unknown_state_, rest);
    thread->blocked_ns += rest;
    thread->closed_ns += passed;
    thread->queued_since_ns = 0;
  }

  static void Credit(Thread* thread, uint32_t state, double ns) {
    if (state == kRan) return;
    const auto found = std::find_if(thread->credits.begin(), thread->credits.end(),
                                    [state](const auto& credit) { return credit.first == state; });
    if (found == thread->credits.end()) {
      thread->credits.emplace_back(state, ns);
    } else {
      found->second += ns;
    }
    thread->credited_ns += ns;
  }

  void Give(Thread* thread, uint32_t state, double ns) {
    totals_[TotalOf(thread->time.name, state)] += ns;
    thread->time.ns[static_cast<int>(states_[state].does)] += ns;
  }

  // Many names of threads times many locks are too many.
  std::pair<uint32_t, uint32_t> TotalOf(uint32_t name, uint32_t state) {
    if (totals_.size() < kMaxTotals || totals_.contains({name, state})) return {name, state};
    const State& what = states_[state];
    const uint32_t bare = StateIndex({what.does, what.wait, what.call, 0, kNoStack});
    if (totals_.size() < kMaxBareTotals || totals_.contains({name, bare})) return {name, bare};
    return {NameIndex(kOtherThreads), bare};
  }

  // Returns whether the looks of the open period can divide its time blocked, which is `share` of it. They can if that is
  // most of the period, or most looks found the thread blocked: then each of them is as good as any other. Where the
  // looks find far less than the clocks say, more of them will not help.
  static bool IsEnough(const Thread& thread, double share) {
    const uint32_t looks = thread.looks_of_period, at_blocked = thread.looks_at_blocked;
    return at_blocked >= kLooksAtBlocked || (share >= 0.5 && thread.credited_ns > 0) ||
           (at_blocked >= kSomeLooks && 2 * at_blocked >= looks) || looks * share >= 2 * kLooksAtBlocked;
  }

  // Scales the credits of the open period to the time blocked, if the looks suffice. Otherwise the period goes on, unless
  // this is the thread's last one.
  void Close(Thread* thread, bool is_last) {
    Give(thread, on_cpu_, static_cast<double>(thread->schedule.cpu_ns - thread->cpu_ns));
    // A wait that was given before it was over is in the kernel's count now.
    const auto waited = static_cast<double>(thread->schedule.waited_ns - thread->waited_ns);
    const double given = std::min(waited, thread->queued_given_ns);
    thread->queued_given_ns -= given;
    Give(thread, wants_cpu_, waited - given);
    thread->cpu_ns = thread->schedule.cpu_ns;
    thread->waited_ns = thread->schedule.waited_ns;
    thread->time.lived_ns = thread->lived_ns();
    const double queued = thread->queued_ns(), blocked = thread->open_ns();
    if (is_last && queued > thread->queued_given_ns) {
      Give(thread, wants_cpu_, queued - thread->queued_given_ns);
      thread->queued_given_ns = queued;
    }
    if (blocked <= 0) return;
    const double share = std::min(1.0, blocked / (thread->lived_ns() - thread->closed_ns));
    if (!is_last && !IsEnough(*thread, share)) return;
    ForBlocked(*thread, blocked, [&](uint32_t state, double ns) { Give(thread, state, ns); });
    thread->closed_ns = thread->lived_ns();
    thread->blocked_ns += blocked;
    thread->credits.clear();
    thread->credited_ns = 0;
    thread->looks_of_period = thread->looks_at_blocked = 0;
  }

  // Divides time blocked as the looks of the open period say.
  template <typename Use>
  void ForBlocked(const Thread& thread, double blocked, Use use) const {
    if (thread.credited_ns > 0) {
      for (const auto& [state, ns] : thread.credits) use(state, ns * blocked / thread.credited_ns);
    } else {
      use(unknown_state_, blocked);
    }
  }

  // What Close would give if this was the thread's last period.
  template <typename Use>
  void ForOpenPeriod(const Thread& thread, Use use) const {
    use(on_cpu_, static_cast<double>(thread.schedule.cpu_ns - thread.cpu_ns));
    const auto waited = static_cast<double>(thread.schedule.waited_ns - thread.waited_ns);
    use(wants_cpu_, std::max(0.0, waited + thread.queued_ns() - thread.queued_given_ns));
    if (const double blocked = thread.open_ns(); blocked > 0) ForBlocked(thread, blocked, use);
  }

  // The end was at some time since the last look: half of that time is counted. If the thread ran at the last look, nobody
  // knows how much of the rest it ran.
  void End(Thread* thread) {
    if (thread->looks == 0 || std::exchange(thread->has_ended, true)) return;
    // The end of the process may be noticed late, and its exit waits for us.
    const int64_t longest = ended_process_ ? kSecond : is_ending_ ? kLongestMeanStep : INT64_MAX;
    thread->tail_ns = static_cast<double>(std::min(process_.now_ns() - thread->last_ns, longest)) / 2;
    if (thread->state != kRan && !is_resumed_ && !is_paused_) {
      Credit(thread, thread->with_holder, thread->tail_ns);
    } else {
      Give(thread, unknown_state_, thread->tail_ns);
      thread->blocked_ns += thread->tail_ns;
    }
    Close(thread, /*is_last=*/true);
    ended_cpu_ns_ += thread->schedule.cpu_ns;
    ended_.push_back(thread->Told(LanesUpTo(*thread)));
    if (ended_.size() <= kMaxEnded) return;
    std::stable_sort(ended_.begin(), ended_.end(),
                     [](const ThreadTime& a, const ThreadTime& b) { return a.lived_ns > b.lived_ns; });
    for (size_t i = kMaxEnded / 2; i < ended_.size(); ++i) AddToSum(ended_[i]);
    ended_.resize(kMaxEnded / 2);
  }

  void AddToSum(const ThreadTime& one) {
    sums_.try_emplace(one.name, ThreadTime{.name = one.name, .threads = 0}).first->second.Add(one);
  }

  // Returns the CPU time that the threads' own times have, also those of ended threads. What a thread ran between its last look
  // and its end is missing there: most of it would be lost if half of the time until the next look counted as seen.
  int64_t SeenCpuNs() const {
    auto seen = static_cast<int64_t>(ended_cpu_ns_);
    for (const auto& [id, thread] : threads_) {
      if (thread.has_ended) continue;
      seen += static_cast<int64_t>(thread.schedule.cpu_ns);
      // The kernel brings schedstat up to date at ticks.
      if (thread.state == kRan) seen += kLongestTick;
    }
    return seen;
  }

  // The process's clock counts all threads, also those that ended. Here it is read after the threads: the time in between
  // counts as before the first look.
  void FindUnseenBefore() {
    const std::optional<int64_t> of_process = ended_process_ ? std::nullopt : process_.cpu_ns();
    if (!of_process.has_value()) return;
    const auto first = threads_.find(pid_);
    const bool since_start = first != threads_.end() && !first->second.has_executed &&
                             first->second.began_ns >= first_look_ns_ - kUnseenPast;
    unseen_before_ = since_start ? 0 : std::max(0.0, static_cast<double>(*of_process - SeenCpuNs()));
  }

  void FindUnseen() {
    if (ended_process_ || !cpu_before_look_ns_.has_value() || !unseen_before_.has_value()) return;
    const auto unseen = static_cast<double>(*cpu_before_look_ns_ - SeenCpuNs());
    unseen_cpu_ns_ = std::max(unseen_cpu_ns_, unseen - *unseen_before_);
  }

  // ---- One look at a thread that has run ----

  uint32_t Observe(Thread* thread) {
    const Doing doing = WhatDoes(*thread);
    if (doing.fails == ESRCH) return thread->state;
    if (doing.fails != 0) {
      if (unknown_.empty() && !LacksDescriptors()) {
        unknown_ = WhyNotOfItsUser(*thread) == EPERM ? "the program is no longer the user that its table belongs to"
                                                     : WhyUnreadable(LookRightsFor(pid_), pid_, "threads");
      }
      return unknown_state_;
    }
    if (doing.runs) return kRan;
    // At the process's end the library waits for the last snapshot: the program does nothing then.
    if (is_ending_ && doing.state.call == SYS_futex && IsInLibrary(doing.pc)) return unknown_state_;
    thread->is_zombie = doing.has_ended;
    State state = doing.state;
    if (state.does == ThreadDoes::kUnknown) return unknown_state_;
    // After a stop the kernel continues a sleep or a poll in another call, at the same place.
    if (state.call == SYS_restart_syscall && doing.sp == thread->call_sp) {
      state.does = thread->call_does;
      state.call = thread->call;
    } else if (state.does != ThreadDoes::kStopped) {
      thread->call_sp = doing.sp;
      thread->call_does = state.does;
      thread->call = state.call;
    }
    if (state.row == 0) state.stack = StackAt(thread, doing.pc, doing.sp);
    return StateIndex(state);
  }

  struct Doing {
    int fails = 0;  // errno: it cannot be read
    bool runs = false, has_ended = false;
    State state = {ThreadDoes::kUnknown, WaitKind::kNone, -1, 0, kNoStack};
    uint64_t sp = 0, pc = 0;
  };
  // Reads the activity of a thread, without its stack.
  Doing WhatDoes(const Thread& thread) {
    Doing doing;
    if (const int why = WhyNotOfItsUser(thread); why != 0) {
      doing.fails = errno = why;
      return doing;
    }
    const char* text = ReadOfTask(thread, thread.syscall, "syscall");
    if (*text == '\0') {
      doing.fails = errno != 0 ? errno : ESRCH;
      return doing;
    }
    doing.runs = *text == 'r';  // "running"
    if (doing.runs) return doing;
    std::array<uint64_t, 8> words = {};
    State& state = doing.state;
    const bool in_call = *text != '-';  // "-1 0x7ffc0000 0x401000": in no call
    if (!in_call) ++text;
    state.call = static_cast<int64_t>(TakeNumber(&text, 10));
    if (!in_call) state.call = -1;
    for (size_t i = in_call ? 0 : 6; i < words.size(); ++i) words[i] = TakeNumber(&text, 16);
    doing.sp = words[6];
    doing.pc = words[7];
    // A worker that the kernel made for io_uring: the call is the one that made it.
    if (in_call && doing.sp == 0 && doing.pc == 0) {
      state.call = -1;
      return doing;
    }
    const char letter = in_call && !MayBeStopped() ? 'S' : StateLetter(thread);
    const bool is_stopped = letter == 'T' || letter == 't';
    if (in_call) {
      state.does = is_stopped ? ThreadDoes::kStopped : DoesOf(state.call);  // during the call
      const bool is_futex = state.call == SYS_futex || state.call == kFutexWaitv || state.call == kFutexWait ||
                            state.call == SYS_restart_syscall;
      // A custom lock may sleep or poll until it is free.
      if (!is_stopped && (is_futex || HasCustomLocks())) FindWait(thread, !is_futex, &state);
    } else if (letter == 'R') {
      doing.runs = true;
    } else if (letter == 'Z' || letter == 'X') {
      doing.has_ended = true;  // the first thread, while others still run
    } else {                   // waits for a page, or was frozen while it ran
      state.does = is_stopped || IsFrozenNow() ? ThreadDoes::kStopped : ThreadDoes::kIo;
    }
    if (state.does != ThreadDoes::kCall) state.call = -1;
    return doing;
  }

  // 0: the thread is of the user that the table belongs to. EPERM: of another one; a process that executes a program of
  // another user keeps its id and its start time. ESRCH: it has ended.
  int WhyNotOfItsUser(const Thread& thread) const {
    if (!process_.of_user.has_value()) return 0;
    struct stat info;
    if (fstatat(process_.tasks.get(), absl::StrCat(thread.id).c_str(), &info, 0) != 0)
      return errno == ENOENT ? ESRCH : errno;
    return info.st_uid == *process_.of_user ? 0 : EPERM;
  }

  // ---- Holders of locks ----

  // Adds what the holder does to the state of a thread that waits for a lock.
  uint32_t WithHolder(uint32_t index) {
    if (index == kRan || states_[index].does != ThreadDoes::kLock) return index;
    State state = states_[index];
    const auto [known, is_new] = holders_.emplace(std::pair(state.lock, state.wait), HolderDoes());
    if (is_new) known->second = LookAtHolder(state.lock, state.wait);
    state.holder = known->second;
    return StateIndex(state);
  }

  // Reads the owner before and after the look at its thread: if the lock changes hands meanwhile, nothing is known.
  HolderDoes LookAtHolder(uint64_t lock, WaitKind kind) {
    const std::optional<LockState> before = ReadLock(lock, kind);
    if (!before.has_value()) return {};
    if (before->owner == 0) return {.is_free = before->readers == 0 && !before->is_held_by_unknown};
    const auto holder = threads_.find(IdAsWeSee(before->owner));
    if (holder == threads_.end()) return {};
    const Doing doing = WhatDoes(holder->second);
    const std::optional<LockState> after = ReadLock(lock, kind);
    if (doing.fails != 0 || !after.has_value() || after->owner != before->owner) return {};
    if (!doing.runs) return {.does = doing.state.does, .call = doing.state.call};
    // The kernel does not distinguish the two: choose one of them in proportion to their times.
    const double share = holder->second.share_on_cpu;
    const bool on_cpu = std::uniform_real_distribution<double>(0, 1)(random_) < share;
    return {.does = on_cpu ? ThreadDoes::kCpu : ThreadDoes::kRunnable};
  }

  std::optional<LockState> ReadLock(uint64_t lock, WaitKind kind) {
    if (!process_.memory.has_value() || (kind != WaitKind::kMutex && !IsRwlock(kind))) return std::nullopt;
    KnowModules();
    char bytes[kLockBytes] = {};
    // A mutex may be at the end of a page, and it is shorter than a reader-writer lock.
    if (!process_.memory->Read(lock, bytes, kLockBytes) && !process_.memory->Read(lock, bytes, sizeof(pthread_mutex_t)))
      return std::nullopt;
    return StateOfLock(kind, bytes, is_musl_);
  }

  pid_t IdAsWeSee(uint32_t id) const {
    if (!process_.other_namespace) return static_cast<pid_t>(id);
    const auto found =
        std::find_if(threads_.begin(), threads_.end(), [id](const auto& entry) { return entry.second.time.id == id; });
    return found != threads_.end() ? found->first : 0;
  }

  // Signals and debuggers stop all threads, so one read is enough for all of them.
  bool MayBeStopped() {
    if (!may_be_stopped_.has_value()) {
      Thread first;
      first.id = pid_;
      if (!first_stat_.file().valid()) first_stat_ = CountedFile(OpenOfTask(pid_, "stat"));
      const char letter = StateLetter(first, first_stat_);
      may_be_stopped_ = letter != 'R' && letter != 'S' && letter != 'D';
    }
    return *may_be_stopped_;
  }

  char StateLetter(const Thread& thread) { return StateLetter(thread, CountedFile()); }
  char StateLetter(const Thread& thread, const CountedFile& kept) {
    const char* stat = ReadOfTask(thread, kept, "stat");
    const char* name_end = strrchr(stat, ')');
    return name_end != nullptr && name_end[1] == ' ' ? name_end[2] : '?';
  }

  void ReadWaits() {
    if (waits_.has_value()) return;
    waits_.emplace();
    waits_read_ns_ = process_.now_ns();
    for (const OngoingWaitInfo& wait : table_->OngoingNow()) {
      OngoingWaitInfo& known = waits_->emplace(wait.thread_id, wait).first->second;
      if (wait.start_ns > known.start_ns) known = wait;  // in a signal handler, during another wait
      has_custom_ = has_custom_ || wait.kind == WaitKind::kCustom;
    }
  }

  // Whether the program has ever been seen to wait for a custom lock. Reads the waits at least once a second.
  bool HasCustomLocks() {
    if (!has_custom_ && process_.now_ns() >= next_custom_ns_) {
      next_custom_ns_ = process_.now_ns() + kSecond;
      ReadWaits();
    }
    return has_custom_;
  }

  // The waits are read again for a thread that began to wait since, or may have: otherwise waits as short as a look at all
  // threads would be missing.
  void FindWait(const Thread& thread, bool only_custom, State* state) {
    const int64_t age_ns = waits_.has_value() ? process_.now_ns() - waits_read_ns_ : 0;
    const bool is_missing = !only_custom && age_ns > kWaitsAnewIfMissing && !waits_->contains(thread.time.id);
    if (age_ns > kWaitsAnew || is_missing) waits_.reset();
    ReadWaits();
    const auto found = waits_->find(thread.time.id);
    if (found == waits_->end() || (only_custom && found->second.kind != WaitKind::kCustom)) return;
    state->wait = found->second.kind;
    state->lock = found->second.lock;
    state->row = found->second.place;
    if (IsForLock(state->wait)) state->does = ThreadDoes::kLock;
  }

  uint32_t StackAt(Thread* thread, uint64_t pc, uint64_t sp) {
    if (!process_.memory.has_value() || process_.memory->is_denied()) return kNoStack;
    if (const Walked* last = LastWalkAt(*thread, pc, sp); last != nullptr && BelievesWalk()) return last->stack;
    for (Walked& walk : thread->walks) {
      if (walk.pc != pc || walk.sp != sp || !IsAsBefore(walk)) continue;
      walk.found_at = looks_;
      return walk.stack;
    }
    KnowModules();
    // One read has most of what a walk reads.
    constexpr uint64_t kAtOnce = 16 << 10;
    copy_.resize(kMaxExtent);
    uint64_t bytes = kAtOnce;
    while (bytes >= 512 && !process_.memory->Read(sp, copy_.data(), bytes)) bytes /= 2;
    if (bytes < 512) bytes = 0;
    const ProcessMemory copied([&](uint64_t address, void* to, size_t size) {
      if (address >= sp && address - sp <= bytes && size <= bytes - (address - sp)) {
        memcpy(to, copy_.data() + (address - sp), size);
        return true;
      }
      return process_.memory->Read(address, to, size);
    });
    std::vector<uint64_t> ends;
    StackInfo walked = walker_->Walk(copied, modules_, pc, sp, &ends);
    if (walked.truncated && !walked.frames.empty() && !IsInModule(walked.frames.back() & kPcMask))
      has_left_modules_ = true;
    if (ReadSchedule(*thread) != thread->schedule) return kNoStack;  // moved meanwhile
    Walked walk{.pc = pc, .sp = sp, .found_at = looks_};
    bool is_sure = true;
    for (size_t i = 0; i < ends.size() && i + 1 < walked.frames.size(); ++i) {
      const uint64_t place = ends[i] - sizeof(uint64_t) - sp;
      uint64_t word = 0;
      is_sure = is_sure && place < kMaxExtent - sizeof word && copied.Read(sp + place, &word, sizeof word) &&
                (word & kPcMask) == (walked.frames[i + 1] & kPcMask);
      if (!is_sure) break;
      walk.words.emplace_back(static_cast<uint32_t>(place), word);
      walk.bytes = place + sizeof word;
    }
    OmitFrames(&walked);
    walk.stack = InternStack(walked);
    const uint32_t stack = walk.stack;
    if (!is_sure || walk.words.empty()) return stack;
    if (thread->walks.size() < kMaxRemembered) {
      thread->walks.push_back(std::move(walk));
    } else {
      thread->walks[thread->next_walk++ % kMaxRemembered] = std::move(walk);
    }
    return stack;
  }

  // Reading a stack is a third of a look. With many threads, most looks at a thread in the same call at the same place take
  // the stack that was found there last. That is one of those that lead there, drawn at random as the looks are, so all of
  // them keep their shares.
  static const Walked* LastWalkAt(const Thread& thread, uint64_t pc, uint64_t sp) {
    const Walked* last = nullptr;
    for (const Walked& walk : thread.walks) {
      if (walk.pc == pc && walk.sp == sp && (last == nullptr || last->found_at < walk.found_at)) last = &walk;
    }
    return last;
  }
  bool BelievesWalk() {
    return mean_looked_at_ > kThreadsAtFullRate &&
           std::uniform_int_distribution<uint32_t>(1, kLooksOfWalk)(random_) != 1;
  }

  // Whether all return addresses are where the walk found them.
  bool IsAsBefore(const Walked& walk) {
    copy_.resize(kMaxExtent);
    if (!process_.memory->Read(walk.sp, copy_.data(), walk.bytes)) return false;
    return std::all_of(walk.words.begin(), walk.words.end(), [this](const auto& word) {
      return memcmp(copy_.data() + word.first, &word.second, sizeof word.second) == 0;
    });
  }

  bool IsInModule(uint64_t pc) const {
    return std::any_of(modules_.begin(), modules_.end(),
                       [pc](const ModuleInfo& module) { return pc >= module.start && pc < module.end; });
  }

  bool IsInLibrary(uint64_t pc) {
    if (!process_.memory.has_value() || process_.memory->is_denied()) return false;
    KnowModules();
    return std::any_of(modules_.begin(), modules_.end(), [pc](const ModuleInfo& module) {
      return pc >= module.start && pc < module.end && IsHoldfastLibrary(module.path);
    });
  }

  // Reads the modules again after a walk has left them, at most once a second.
  void KnowModules() {
    const int64_t now_ns = NowNs();
    if (walker_ != nullptr && (!has_left_modules_ || now_ns - modules_read_ns_ < kModulesBelieved)) return;
    std::vector<ModuleInfo> now;
    AddModulesOf(pid_, *process_.memory, &now);
    const auto is_same = [](const ModuleInfo& a, const ModuleInfo& b) {
      return a.start == b.start && a.path == b.path && a.build_id == b.build_id;
    };
    if (walker_ == nullptr || !std::ranges::equal(now, modules_, is_same)) {
      modules_ = std::move(now);
      is_musl_ = UsesMusl(modules_);
      walker_ = std::make_unique<OutsideStacks>();
      for (auto& [id, thread] : threads_) thread.walks.clear();
    }
    modules_read_ns_ = now_ns;
    has_left_modules_ = false;
  }

  uint32_t InternStack(const StackInfo& walked) {
    Stack stack{.truncated = walked.truncated};
    stack.frames.reserve(walked.frames.size());
    for (const TaggedPc frame : walked.frames) stack.frames.push_back(frame & kPcMask);
    if (const auto known = stack_index_.find(stack); known != stack_index_.end()) return known->second;
    if (stacks_.size() >= kMaxStacks) return kNoStack;
    const auto index = static_cast<uint32_t>(stacks_.size());
    stacks_.push_back(stack);
    stack_index_.emplace(std::move(stack), index);
    return index;
  }

  // Returns the index in the state of each of our stacks.
  std::vector<uint32_t> AddStacks(WaitGraph* state) {
    if (process_.memory.has_value() && !process_.memory->is_denied() && !ended_process_)
      AddModulesOf(pid_, *process_.memory, &state->modules);
    absl::flat_hash_map<uint64_t, TaggedPc> tagged;
    const auto tag = [&](uint64_t pc) {
      const auto [place, added] = tagged.emplace(pc, pc);
      if (!added) return place->second;
      const ModuleInfo* of = nullptr;
      for (const ModuleInfo& module : state->modules) {
        const bool is_in = pc - 1 >= module.start && pc - 1 < module.end;
        if (is_in && (of == nullptr || of->unloaded)) of = &module;
      }
      return place->second = pc | uint64_t{of != nullptr ? of->tag : kNoModuleTag} << kPcTagShift;
    };
    std::vector<uint32_t> indices;
    indices.reserve(stacks_.size());
    for (const Stack& stack : stacks_) {
      StackInfo info{};
      info.truncated = stack.truncated;
      info.frames.reserve(stack.frames.size());
      for (const uint64_t pc : stack.frames) info.frames.push_back(pc == kOmittedFrames ? pc : tag(pc));
      indices.push_back(state->AddStack(std::move(info)));
    }
    return indices;
  }

  // ---- Lanes ----

  void AddToLane(Thread* thread, int64_t now_ns, double cpu, double waited, uint32_t state_before) {
    const auto passed = static_cast<double>(now_ns - thread->last_ns);
    if (passed <= 0) return;
    while (static_cast<size_t>((now_ns - lane_start_ns_) / bin_ns_) >= kMaxBins) Widen();
    std::array<double, kThreadDoes> shares = {};
    cpu = std::min(cpu, passed);
    waited = std::min(waited, passed - cpu);
    shares[static_cast<int>(ThreadDoes::kCpu)] = cpu / passed;
    shares[static_cast<int>(ThreadDoes::kRunnable)] = waited / passed;
    const double rest = 1 - (cpu + waited) / passed;
    const uint32_t a = state_before != kRan ? state_before : thread->state;
    const uint32_t b = thread->state != kRan ? thread->state : a;
    shares[static_cast<int>(a != kRan ? states_[a].does : ThreadDoes::kCpu)] += rest / 2;
    shares[static_cast<int>(b != kRan ? states_[b].does : ThreadDoes::kCpu)] += rest / 2;
    if (is_resumed_) {
      shares = {};
      shares[static_cast<int>(ThreadDoes::kUnknown)] = 1;
    } else if (thread->with_holder == stopped_) {
      shares = {};
      shares[static_cast<int>(ThreadDoes::kStopped)] = 1;
    } else if (thread->queued_since_ns != 0) {
      shares = {};
      shares[static_cast<int>(ThreadDoes::kRunnable)] = 1;
    }
    const int64_t from = std::max<int64_t>(thread->last_ns - lane_start_ns_, 0), to = now_ns - lane_start_ns_;
    for (int64_t bin = from / bin_ns_; bin * bin_ns_ < to; ++bin) {
      const int64_t part = std::min(to, (bin + 1) * bin_ns_) - std::max(from, bin * bin_ns_);
      if (thread->bins.empty()) thread->first_bin = static_cast<size_t>(bin);
      thread->bins.resize(std::max(thread->bins.size(), static_cast<size_t>(bin) - thread->first_bin + 1));
      Bin& counts = thread->bins[static_cast<size_t>(bin) - thread->first_bin];
      for (int i = 0; i < kThreadDoes; ++i) {
        const double more = shares[i] * kWholeBin * static_cast<double>(part) / static_cast<double>(bin_ns_);
        counts[i] = static_cast<uint16_t>(std::min(60'000.0, counts[i] + more + 0.5));
      }
    }
  }

  // Joins each two bins.
  void Widen() {
    bin_ns_ *= 2;
    for (auto& [id, thread] : threads_) {
      std::vector<Bin> wide((thread.first_bin % 2 + thread.bins.size() + 1) / 2);
      for (size_t i = 0; i < thread.bins.size(); ++i) {
        for (int does = 0; does < kThreadDoes; ++does)
          wide[(thread.first_bin % 2 + i) / 2][does] += thread.bins[i][does] / 2;
      }
      thread.first_bin /= 2;
      thread.bins = std::move(wide);
    }
    for (ThreadTime& ended : ended_) {
      std::vector<uint32_t> wide((ended.lane.size() + 1) / 2);
      for (size_t i = 0; i < ended.lane.size(); ++i) wide[i / 2] = wide[i / 2] != 0 ? wide[i / 2] : ended.lane[i];
      ended.lane = std::move(wide);
    }
  }

  static std::vector<uint32_t> LanesUpTo(const Thread& thread) {
    if (thread.bins.empty()) return {};
    std::vector<uint32_t> lane(thread.first_bin);
    for (const Bin& bin : thread.bins) {
      const auto most = std::max_element(bin.begin(), bin.end());
      lane.push_back(*most == 0 ? 0 : static_cast<uint32_t>(most - bin.begin()) + 1);
    }
    return lane;
  }

  LookedAtProcess process_;
  const pid_t pid_;
  std::minstd_rand random_;
  int64_t next_ns_ = 0, first_look_ns_ = 0;
  int64_t mean_step_ns_ = kMeanStep;  // to the next look
  double mean_cost_ns_ = 0, mean_looked_at_ = 0;
  uint64_t looks_ = 0, most_unlisted_ = 0;
  bool ended_process_ = false;
  bool is_over_ = false;                     // found during a look: see IsOver
  bool is_ending_ = false;                   // of this look: see TableFile::RecordsNoMore
  bool any_ran_ = true, is_frozen_ = false;  // in the last look
  int64_t next_frozen_ns_ = 0;
  bool is_paused_ = false, is_resumed_ = false;  // the latter: during the first look after a pause
  std::string unknown_;
  absl::flat_hash_map<pid_t, Thread> threads_;
  const TableFile* table_ = nullptr;                                     // during a look
  int64_t moment_ns_ = 0;                                                // the start of this moment
  std::optional<absl::flat_hash_map<uint32_t, OngoingWaitInfo>> waits_;  // by thread, of this moment
  int64_t waits_read_ns_ = 0;
  bool has_custom_ = false;
  int64_t next_custom_ns_ = 0;
  absl::flat_hash_map<std::pair<uint64_t, WaitKind>, HolderDoes> holders_;  // by lock, of this moment
  CountedFile first_stat_;                                                  // of the first thread
  std::optional<bool> may_be_stopped_, is_frozen_now_;                      // of this moment
  std::array<char, 1024> text_ = {};
  std::vector<char> copy_;
  std::vector<ModuleInfo> modules_;
  std::unique_ptr<OutsideStacks> walker_;
  int64_t modules_read_ns_ = 0;
  bool has_left_modules_ = false, is_musl_ = false;
  std::vector<State> states_;
  absl::flat_hash_map<StateKey, uint32_t> state_index_;
  uint32_t on_cpu_ = 0, wants_cpu_ = 0, unknown_state_ = 0, stopped_ = 0;
  std::vector<Stack> stacks_;
  absl::flat_hash_map<Stack, uint32_t> stack_index_;
  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, uint32_t> name_index_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, double> totals_;  // by name and state
  std::vector<ThreadTime> ended_;
  absl::flat_hash_map<uint32_t, ThreadTime> sums_;  // by name
  uint64_t ended_cpu_ns_ = 0;
  double unseen_cpu_ns_ = 0;
  std::optional<int64_t> cpu_before_look_ns_;  // of the process
  // The CPU time of threads that ended before the first look, if the process began long before. Nothing: not found yet.
  std::optional<double> unseen_before_;
  const int64_t lane_start_ns_, lane_start_wall_ns_;
  int64_t bin_ns_ = kFirstBin;
};

void ThreadTime::Add(const ThreadTime& one) {
  began_wall_ns = threads == 0 ? one.began_wall_ns : std::min(began_wall_ns, one.began_wall_ns);
  threads += one.threads;
  lived_ns += one.lived_ns;
  for (int i = 0; i < kThreadDoes; ++i) ns[i] += one.ns[i];
}

LookedAtProcess LookedAtProcess::Of(pid_t pid, bool other_namespace, std::optional<uid_t> of_user) {
  // As clock_getcpuclockid gives it, which asks the kernel once more.
  constexpr clockid_t kOfProcess = 2;
  const clockid_t clock = ~pid * 8 | kOfProcess;
  // The folder is opened last: if that fails for lack of descriptors, both are opened again at a later look.
  std::optional<ProcessMemory> memory;
  if (!of_user.has_value()) memory.emplace(pid);
  FileDescriptor tasks(open(absl::StrCat("/proc/", pid, "/task").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return {.pid = pid,
          .other_namespace = other_namespace,
          .tasks = std::move(tasks),
          .memory = std::move(memory),
          .of_user = of_user,
          .now_ns = [] { return NowNs(); },
          .cpu_ns = [clock]() -> std::optional<int64_t> {
            timespec all;
            if (clock_gettime(clock, &all) != 0) return std::nullopt;
            return all.tv_sec * kSecond + all.tv_nsec;
          },
          .is_frozen = [group = FrozenGroup(pid)]() mutable { return !group.Why().empty(); }};
}

ThreadLooks::ThreadLooks(LookedAtProcess process) : looker_(std::make_unique<Looker>(std::move(process))) {}
ThreadLooks::~ThreadLooks() = default;
void ThreadLooks::Look(const TableFile& table) { looker_->Look(table, /*now_or_never=*/false); }
int64_t ThreadLooks::next_ns() const { return looker_->next_ns(); }
void ThreadLooks::ReadNoMoreMemory(uid_t of_user) { looker_->ReadNoMoreMemory(of_user); }
void ThreadLooks::Pause(const TableFile& table) { looker_->Pause(table); }
void ThreadLooks::Resume() { looker_->Resume(); }
void ThreadLooks::ClosePeriod(const TableFile& table) { looker_->ClosePeriod(table, table.RecordsNoMore()); }
std::shared_ptr<const ThreadTimes> ThreadLooks::Times(const std::vector<RowInfo>& rows, WaitGraph* state,
                                                      bool with_open) {
  return looker_->Times(rows, state, with_open);
}

}  // namespace holdfast
