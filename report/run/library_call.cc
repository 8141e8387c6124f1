#include "report/run/library_call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/holdfast_library.h"
#include "report/base/time_budget.h"
#include "report/observe/outside/frozen_group.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"
#include "report/run/entry_patches.h"
#include "report/run/forked_copies.h"
#include "report/run/safe_thread.h"
#include "report/run/seccomp_filter.h"
#include "report/run/traced_memory.h"

namespace holdfast {
namespace {

constexpr char kLinkerIsBusy[] = "would wait for another thread, which uses the dynamic linker or forks";
constexpr int kStopPatienceMs = 100;
constexpr int64_t kPauseMs = 2, kLongestPauseMs = 64;
// In the first 0.3 s, a stop must cost nothing. In the first 2 s, it must not shorten a call, which few programs expect.
constexpr int64_t kHarmlessMs = 300, kWholeCallsMs = 2000;
// A program that has just begun has not mapped its libraries yet. A guess, for a busy machine.
constexpr int64_t kLoadsWithinUs = 100'000;

// The first pages of all files that are mapped, as /proc/PID/maps lists them.
std::string MappedFiles(pid_t pid) {
  std::istringstream maps(ReadOfProcess(pid, "maps"));
  std::string files;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" 00000000 ") != std::string::npos && line.find('/') != std::string::npos) files += line + '\n';
  }
  return files;
}

// The child and its parent both have it mapped.
struct SharedWords {
  std::atomic<int64_t> end_us;              // when the child gives up, which the parent may change
  std::atomic<uint64_t> done_at, begun_at;  // see LibraryCall
  HeldLinkerLocks held;                     // while the library is loaded; the child writes it before the call
};
class SharedMemory {
 public:
  explicit SharedMemory(int64_t end_us) {
    void* made = mmap(nullptr, sizeof *words_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made != MAP_FAILED) words_ = new (made) SharedWords{end_us, 0, 0, {}};
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() {
    if (words_ != nullptr) munmap(words_, sizeof *words_);
  }
  SharedWords* get() { return words_; }

 private:
  SharedWords* words_ = nullptr;
};

// The end of a call after its tracer was killed.
enum class LeftCall : uint8_t { kNotBegun, kFinished, kStillRuns };
LeftCall AwaitLeftCall(pid_t pid, const SharedWords& words, const std::function<bool()>& is_asked_to_end) {
  constexpr int kPatienceMs = 30'000, kBeginsWithinMs = 3000, kPauseMs = 10;
  const uint64_t done_at = words.done_at, begun_at = words.begun_at;
  if (done_at == 0) return LeftCall::kNotBegun;
  if (done_at == kCallHasEnded) return LeftCall::kFinished;
  const pid_t thread = ThreadWithMemory(pid);
  const auto read = [thread](uint64_t address, uint64_t* word) {
    return ReadTraced(thread, address, word, sizeof *word);
  };
  bool has_begun = false;
  for (int waited_ms = 0; waited_ms < kPatienceMs; waited_ms += kPauseMs) {
    uint64_t done = 0, begun = 0;
    has_begun = has_begun || !read(begun_at, &begun) || begun != 0;
    // On the stack of the thread. It cannot be read if the process has ended or executed another program.
    if (!read(done_at, &done)) return LeftCall::kNotBegun;
    if (done != 0) return LeftCall::kFinished;
    if (!has_begun && waited_ms >= kBeginsWithinMs) return LeftCall::kNotBegun;
    if (is_asked_to_end && is_asked_to_end()) break;
    constexpr timespec kPause = {0, long{kPauseMs} * 1'000'000};
    nanosleep(&kPause, nullptr);
  }
  return LeftCall::kStillRuns;
}

// Waits until the child has written its answer or ended.
void AwaitAnswer(int descriptor, const std::function<bool()>& is_asked_to_end, std::atomic<int64_t>* end_us) {
  constexpr int kAskEveryMs = 100;
  pollfd entry = {descriptor, POLLIN, 0};
  while (poll(&entry, 1, is_asked_to_end ? kAskEveryMs : -1) <= 0) {
    if (is_asked_to_end && is_asked_to_end()) *end_us = 0;
  }
}

// The child writes this into the pipe.
struct ChildAnswer {
  CallOutcome outcome;
  pid_t unstoppable;  // a thread that the child must let go of by its end; 0: none
  bool has_begun;     // the library has begun, and waits for changes of the code
  int code;           // of the status
  char message[1024];
};
static_assert(std::is_trivially_copyable_v<ChildAnswer>);

// Makes the kernel run this process sooner when a thread has stopped, instead of at the end of another's time slice: by its
// priority, which root may raise, and since Linux 6.12 by a short slice. With 2 busy threads on 2 processors, 200 attaches
// stopped the thread for 4.6 to 5.9 ms (p50) and 18 to 25 (p99) by the slice alone, 3.4 to 4.0 and 12 to 17 by both.
void AskForShortWaits() {
  constexpr int kHighest = -20;
  setpriority(PRIO_PROCESS, 0, kHighest);
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{};
  attributes.size = sizeof attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.runtime = 100'000;  // ns, the smallest
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

class Caller {
 public:
  // `avoided`: threads that could not be stopped. `begun`: what happened before.
  Caller(pid_t pid, const LibraryCall& call, int64_t begun_us, SharedWords* shared, const std::set<pid_t>& avoided,
         const CallOutcome& begun)
      : pid_(pid),
        call_(call),
        begun_us_(begun_us),
        shared_(*shared),
        end_us_(shared->end_us),
        avoided_(avoided),
        short_calls_from_us_(begun_us + kWholeCallsMs * 1000),
        outcome_(begun) {}

  absl::StatusOr<CallOutcome> Run() {
    while (true) {
      // Modules may be loaded meanwhile. To read all their names takes 0.1 s for a large program.
      if (std::optional<std::string> files = MappedFiles(pid_); files != files_) {
        code_ = ProcessCode::Read(pid_);
        files_ = std::move(files);
      }
      if (!code_.ok()) {
        if (NowNs() / 1000 - begun_us_ > kLoadsWithinUs) return code_.status();
        files_.reset();
        constexpr timespec kLittle = {0, 5'000'000};
        nanosleep(&kLittle, nullptr);
        continue;
      }
      // Without the locks, what was begun can still be ended.
      if ((*code_)->addresses().linker_locks[0] == 0 && call_.action == AttachAction::kAttach)
        return absl::FailedPreconditionError(kNoLinkerLocks);
      const StopCost dearest = DearestNow();
      const std::vector<ThreadChoice> choices = ChooseThreads(pid_, code_->get());
      if (choices.empty()) return absl::NotFoundError("it has ended");
      // A thread that loads a library holds the dynamic linker's lock, so a call would end at once.
      bool loads = std::any_of(choices.begin(), choices.end(),
                               [](const ThreadChoice& choice) { return choice.why == kCalledByLinker; });
      if ((*code_)->is_library_busy()) {
        files_.reset();
        // dlopen does not know a file in memory again: it would load a second library.
        if (!call_.image.empty()) loads = true, why_ = kLinkerIsBusy;
      }
      // Before the stop: it takes 30 us for each thread.
      if (FiltersChanged(call_.filters, CountFilters(pid_))) return OtherFilter();
      bool has_patched = false;
      for (const ThreadChoice& choice : choices) {
        if (loads || !choice.why.empty() || avoided_.contains(choice.thread) || unexamined_.contains(choice.thread) ||
            choice.cost > dearest || (losing_.contains(choice.thread) && dearest < StopCost::kShort))
          continue;
        absl::StatusOr<bool> called = Try(choice, code_->get());
        if (unstoppable_ != 0 || !called.ok()) return called.status();
        if (is_program_busy_) break;
        if (!*called) continue;
        if (outcome_.answer.result != AttachResult::kPatch) return outcome_;
        // It may take seconds until all threads can be stopped.
        FreeForkedCopies(pid_, std::exchange(shared_.held, {}));
        if (absl::Status status = Patch(); !status.ok()) return status;
        has_patched = true;
        losing_.clear();
        short_calls_from_us_ = NowNs() / 1000 + kHarmlessMs * 1000;
        break;  // to call again, however late it is
      }
      if (NowNs() / 1000 > end_us_ && !has_patched) {
        const std::string why = WhyNone(choices);
        return unexamined_.empty() && !AreAllUnwalkable(choices) ? absl::UnavailableError(why)
                                                                 : absl::FailedPreconditionError(why);
      }
      // A thread that loads libraries all the time would otherwise have the same other thread stopped again and again.
      pause_ms_ = is_program_busy_ ? std::min<int64_t>(2 * pause_ms_, kLongestPauseMs) : kPauseMs;
      is_program_busy_ = false;
      const timespec pause = {0, pause_ms_ * 1'000'000};
      nanosleep(&pause, nullptr);
    }
  }
  const CallOutcome& outcome() const { return outcome_; }
  pid_t unstoppable() const { return unstoppable_; }
  bool has_begun() const { return has_begun_; }

 private:
  // The dearest stop that is acceptable after the time that has passed.
  StopCost DearestNow() const {
    const int64_t now_us = NowNs() / 1000;
    if (now_us > short_calls_from_us_ || (has_begun_ && now_us > end_us_)) return StopCost::kShort;
    return now_us - begun_us_ < kHarmlessMs * 1000 ? StopCost::kNothing : StopCost::kReturns;
  }

  // False: this thread cannot be borrowed now.
  absl::StatusOr<bool> Try(const ThreadChoice& choice, ProcessCode* code) {
    const int64_t begun_us = NowNs() / 1000;
    absl::StatusOr<std::unique_ptr<BorrowedThread>> thread = BorrowedThread::Stop(pid_, choice.thread, kStopPatienceMs);
    if (!thread.ok()) {
      if (absl::IsNotFound(thread.status())) return false;
      why_ = std::string(thread.status().message());
      if (!absl::IsAborted(thread.status())) return false;
      unstoppable_ = choice.thread;
      return thread.status();
    }
    ++outcome_.stops;
    if ((*thread)->is_call_lost()) {
      ++outcome_.lost_calls;
      losing_.insert(choice.thread);
    }
    why_ = (*thread)->WhyNotNow();
    if (why_.empty() && !code->IsOfLibc(choice.thread, (*thread)->thread_pointer()))
      why_ = "was not made by the C library, or its thread pointer leads elsewhere";
    if (why_.empty())
      why_ = code->WhyUnsafe((*thread)->pc(), (*thread)->sp(), (*thread)->thread_pointer(), (*thread)->call());
    if (!why_.empty()) return false;
    if (!code->IsLibraryThere()) {
      files_.reset();
      why_ = "has executed another program meanwhile";
      return false;
    }
    if ((*thread)->HasUserDispatch()) {
      return absl::FailedPreconditionError(fmt::format(
          "only some of its code may make system calls (Syscall User Dispatch): the library's would end it{}",
          call_.action == AttachAction::kDetach ? ". It stays attached" : ""));
    }
    // A filter for all threads (SECCOMP_FILTER_FLAG_TSYNC) is this one's, too.
    const FilterCounts filters = CountFiltersOf(pid_, choice.thread);
    if (FiltersChanged(call_.filters, filters)) return OtherFilter();
    if (IsUnexamined(call_.filters, filters, choice.thread)) {
      unexamined_.insert(choice.thread);
      return false;
    }
    if (code->addresses().attach == 0) {
      const uint32_t id = InnerIdOf(ReadOfThread(pid_, choice.thread, "status"));
      shared_.held = {code->addresses().linker_locks, id, TicksNow()};
    }
    const absl::StatusOr<LibraryAnswer> answer = (*thread)->Call(code->addresses(), call_);
    thread->reset();
    outcome_.stopped_us = NowNs() / 1000 - begun_us;
    if (!answer.ok()) return answer.status();
    outcome_.answer = *answer;
    if (answer->result == AttachResult::kThreadIsBusy) {
      FreeForkedCopies(pid_, std::exchange(shared_.held, {}));
      is_program_busy_ = answer->is_program_busy;
      why_ = answer->is_program_busy ? kLinkerIsBusy : "is inside the library";
      return false;
    }
    return true;
  }

  static absl::Status OtherFilter() {
    return absl::FailedPreconditionError(
        "has installed a seccomp filter since its filters were read. Run holdfast again as root, which reads them");
  }

  absl::Status Patch() {
    has_begun_ = true;
    const absl::StatusOr<std::vector<EntryPatch>> patches =
        ReadEntryPatches(pid_, outcome_.answer.patches, outcome_.answer.patch_count);
    if (!patches.ok()) return patches.status();
    PatchStops stops;
    absl::Status status = WriteEntryPatches(pid_, outcome_.answer.patches, *patches,
                                            call_.action == AttachAction::kDetach, end_us_, &stops);
    outcome_.all_stops += stops.times;
    outcome_.threads = std::max(outcome_.threads, stops.threads);
    outcome_.lost_calls += stops.lost_calls;
    outcome_.all_stopped_us += stops.stopped_us;
    unstoppable_ = stops.unstoppable;
    return status;
  }

  static bool AreAllUnwalkable(const std::vector<ThreadChoice>& choices) {
    return std::all_of(choices.begin(), choices.end(),
                       [](const ThreadChoice& choice) { return choice.why == kCannotBeWalked; });
  }

  std::string WhyNone(const std::vector<ThreadChoice>& choices) const {
    if (!unexamined_.empty()) {
      return fmt::format(
          "thread {} has a seccomp filter that was not read, and no other thread can be used now. Run holdfast {} {} as "
          "root, which reads the filters",
          *unexamined_.begin(), call_.action == AttachAction::kDetach ? "detach" : "attach", pid_);
    }
    if (const std::string frozen = WhyFrozen(pid_); !frozen.empty()) return frozen + ", so none of its threads runs";
    std::string why = why_.empty() ? choices[0].why : why_;
    if (AreAllUnwalkable(choices)) {
      return fmt::format(
          "the stacks of its {} threads cannot be walked: their code has no unwind tables, or its files are not where it "
          "runs{}",
          choices.size(),
          call_.action == AttachAction::kDetach
              ? ""
              : fmt::format(". Start the program with holdfast run. Meanwhile: holdfast holders {}", pid_));
    }
    std::string text =
        fmt::format("none of its {} threads was at a place where the library can be loaded; the last one {}",
                    choices.size(), why.empty() ? "was running" : why);
    if (call_.action == AttachAction::kDetach) return text;
    return fmt::format(
        "{}. Try again when a thread waits for input or a condition, or start the program with holdfast run. "
        "Meanwhile: holdfast holders {}",
        text, pid_);
  }

  const pid_t pid_;
  const LibraryCall& call_;
  const int64_t begun_us_;
  SharedWords& shared_;
  const std::atomic<int64_t>& end_us_;
  const std::set<pid_t>& avoided_;
  std::set<pid_t> losing_;  // threads that lost a call and could not be borrowed: stopped again only late
  int64_t short_calls_from_us_;
  std::optional<std::string> files_;  // nothing: code_ is to be read
  absl::StatusOr<std::unique_ptr<ProcessCode>> code_;
  CallOutcome outcome_;
  pid_t unstoppable_ = 0;
  bool has_begun_ = false;
  bool is_program_busy_ = false;  // at the last try
  int64_t pause_ms_ = kPauseMs;
  std::string why_;
  std::set<pid_t> unexamined_;  // threads with a filter, which began after the filters were read
};

}  // namespace

static absl::StatusOr<CallOutcome> CallAlone(pid_t pid, LibraryCall call, int patience_ms,
                                             const std::function<bool()>& is_asked_to_end) {
  const int64_t begun_us = NowNs() / 1000;
  SharedMemory shared(begun_us + int64_t{patience_ms} * 1000);
  if (shared.get() == nullptr) return absl::ErrnoToStatus(errno, "mmap");
  std::atomic<int64_t>* const end_us = &shared.get()->end_us;
  call.done_at = &shared.get()->done_at;
  call.begun_at = &shared.get()->begun_at;
  std::set<pid_t> avoided;
  CallOutcome begun;
  bool has_begun = false;
  int64_t pause_ms = 5;
  const auto fail = [&](const absl::Status& of_call) -> absl::Status {
    absl::Status status =
        begun.all_stops == 0
            ? of_call
            : absl::Status(of_call.code(),
                           fmt::format("{} (all threads at once were stopped {} time{}, for {} ms in all)",
                                       std::string(of_call.message()), begun.all_stops, begun.all_stops == 1 ? "" : "s",
                                       (begun.all_stopped_us + 999) / 1000));
    // What was begun is gone if the process has ended or executed another program.
    if (!has_begun || call.action != AttachAction::kAttach || absl::IsNotFound(status)) return status;
    LibraryCall undo = call;
    undo.action = AttachAction::kDetach;
    if (!undo.image.empty()) undo.library = kMemoryFileName, undo.image.clear();
    if (CallAlone(pid, undo, patience_ms, {}).ok()) return status;
    return absl::UnavailableError(
        fmt::format("{}; holdfast detach {} undoes what was begun", std::string(status.message()), pid));
  };
  while (true) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
    FileDescriptor read_end(ends[0]), write_end(ends[1]);
    const pid_t child = fork();
    if (child < 0) return absl::ErrnoToStatus(errno, "fork");
    if (child == 0) {
      AskForShortWaits();
      ChildAnswer answer{};
      Caller caller(pid, call, begun_us, shared.get(), avoided, begun);
      const absl::StatusOr<CallOutcome> outcome = caller.Run();
      answer.outcome = caller.outcome();
      answer.unstoppable = caller.unstoppable();
      answer.has_begun = caller.has_begun();
      answer.code = static_cast<int>(outcome.status().code());
      const std::string message(outcome.status().message());
      memcpy(answer.message, message.data(), std::min(message.size(), sizeof answer.message - 1));
      [[maybe_unused]] const ssize_t written = write(write_end.get(), &answer, sizeof answer);
      _exit(0);
    }
    write_end.Close();
    AwaitAnswer(read_end.get(), is_asked_to_end, end_us);
    const std::string bytes = ReadWhole(read_end);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    ChildAnswer answer{};
    const bool was_killed = bytes.size() != sizeof answer;
    // The borrowed thread finishes the call alone.
    const LeftCall left = was_killed ? AwaitLeftCall(pid, *shared.get(), is_asked_to_end) : LeftCall::kFinished;
    FreeForkedCopies(pid, std::exchange(shared.get()->held, {}));
    if (was_killed) {
      // An earlier attach must not be undone.
      has_begun = has_begun ||
                  (call.is_first && left == LeftCall::kFinished && MapsHoldfastLibrary(ReadOfProcess(pid, "maps")));
      std::string rest;
      if (call.action == AttachAction::kDetach) {
        rest = left == LeftCall::kFinished ? "; the call was finished without it" : "";
      } else if (left == LeftCall::kStillRuns) {
        has_begun = false;
        rest = fmt::format(
            " while the library was loaded, which goes on. It may still attach: holdfast ls tells, and holdfast detach {} "
            "undoes it",
            pid);
      } else if (!call.is_first && left == LeftCall::kFinished) {
        rest = fmt::format("; what it began may remain, and holdfast detach {} undoes it", pid);
      }
      return fail(absl::InternalError("the process that traces it was killed" + rest));
    }
    memcpy(&answer, bytes.data(), sizeof answer);
    if (answer.code == 0) return answer.outcome;
    has_begun = has_begun || answer.has_begun;
    begun = answer.outcome;
    if (answer.unstoppable == 0) return fail(absl::Status(static_cast<absl::StatusCode>(answer.code), answer.message));
    // Where every thread was avoided once, each gets another try.
    if (!avoided.insert(answer.unstoppable).second || avoided.size() >= ThreadsOf(pid, false).size()) avoided.clear();
    if (NowNs() / 1000 > *end_us) return fail(absl::UnavailableError("its threads cannot be stopped now"));
    // The program runs for longer each time before its threads are stopped again.
    const timespec pause = {0, pause_ms * 1'000'000};
    nanosleep(&pause, nullptr);
    pause_ms = std::min<int64_t>(2 * pause_ms, 500);
  }
}

absl::StatusOr<CallOutcome> CallLibrary(pid_t pid, const LibraryCall& call, int patience_ms,
                                        const std::function<bool()>& is_asked_to_end) {
  // Two tools could undo each other's steps. The kernel unlocks the folder when the tool and its child have ended.
  const FileDescriptor folder(open(fmt::format("/proc/{}", pid).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return absl::NotFoundError("it has ended");
  for (const int64_t end_us = NowNs() / 1000 + int64_t{patience_ms} * 1000;
       flock(folder.get(), LOCK_EX | LOCK_NB) != 0;) {
    if (NowNs() / 1000 > end_us || (is_asked_to_end && is_asked_to_end()))
      return absl::UnavailableError("another holdfast attaches to it or detaches");
    constexpr timespec kPause = {0, 5'000'000};
    nanosleep(&kPause, nullptr);
  }
  LibraryCall own = call;
  // Another tool may have loaded it meanwhile.
  own.is_first = call.is_first && !MapsHoldfastLibrary(ReadOfProcess(pid, "maps"));
  return CallAlone(pid, own, patience_ms, is_asked_to_end);
}

}  // namespace holdfast
