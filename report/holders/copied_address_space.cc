#include "report/holders/copied_address_space.h"

#include <elf.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "report/base/time_budget.h"
#include "report/observe/table/process_files.h"

namespace holdfast {
namespace {

// For all threads to stop; and after this time, a thread in an uninterruptible sleep counts as stopped.
constexpr int64_t kMaxStopNs = 1 * kSecond, kPatienceNs = 20 * kMs;
// For the copy, and for each GiB of it.
constexpr int64_t kMaxCopyNs = 1 * kSecond;
constexpr size_t kMaxVectorWords = (16 << 10) / sizeof(uint64_t);
constexpr absl::Duration kStopPoll = absl::Microseconds(100);

// While this exists, the terminal cannot stop this process.
class WithoutTerminalStops {
 public:
  WithoutTerminalStops() {
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int signal : {SIGTSTP, SIGTTIN, SIGTTOU}) sigaddset(&blocked, signal);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~WithoutTerminalStops() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutTerminalStops(const WithoutTerminalStops&) = delete;
  WithoutTerminalStops& operator=(const WithoutTerminalStops&) = delete;

 private:
  sigset_t before_;
};

// Stops threads, and lets them continue.
class StoppedThreads {
 public:
  // Stops all threads of the process, also those that others start meanwhile.
  absl::Status Stop(pid_t pid) {
    const int64_t began = NowNs();
    for (bool found_new = true; found_new;) {
      found_new = false;
      for (const auto& [thread, inner] : ThreadsOf(pid, false)) {
        if (threads_.contains(thread) || HasEnded(pid, thread)) continue;
        if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
          if (errno == ESRCH || HasEnded(pid, thread)) continue;
          return absl::PermissionDeniedError(absl::StrCat(
              "thread ", thread, " cannot be stopped: ", strerror(errno),
              errno == EPERM ? ". A debugger may be attached, or the kernel permits tracing only to root" : ""));
        }
        threads_[thread];
        found_new = true;
        ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
      }
      for (auto& [thread, state] : threads_) {
        while (!IsStopped(pid, thread, NowNs() - began, &state)) {
          if (NowNs() - began > kMaxStopNs) {
            return absl::DeadlineExceededError(
                absl::StrCat("thread ", thread, " did not stop within ", kMaxStopNs / kMs, " ms. Try again"));
          }
          absl::SleepFor(kStopPoll);
        }
      }
    }
    return absl::OkStatus();
  }
  // Threads that have not stopped continue when the calling thread ends.
  void Continue() {
    for (const auto& [thread, state] : threads_) ptrace(PTRACE_DETACH, thread, nullptr, state.signal);
    threads_.clear();
  }

 private:
  struct State {
    bool is_stopped = false;
    int signal = 0;  // that the thread is about to get: a signal stopped it before PTRACE_INTERRUPT
  };
  static char StateIn(pid_t pid, pid_t thread) {
    const std::string stat = ReadOfProcess(pid, absl::StrCat("task/", thread, "/stat"));
    const size_t name_end = stat.rfind(')');
    return name_end == std::string::npos || name_end + 2 >= stat.size() ? 'X' : stat[name_end + 2];
  }
  static bool HasEnded(pid_t pid, pid_t thread) {
    const char state = StateIn(pid, thread);
    return state == 'Z' || state == 'X';
  }
  static bool IsStopped(pid_t pid, pid_t thread, int64_t waited_ns, State* state) {
    if (state->is_stopped) return true;
    int status = 0;
    const pid_t got = waitpid(thread, &status, __WALL | WNOHANG);
    if (got == thread && WIFSTOPPED(status) && status >> 16 == 0) state->signal = WSTOPSIG(status);
    state->is_stopped = got == thread || (got < 0 && errno == ECHILD) ||
                        (waited_ns > kPatienceNs && (StateIn(pid, thread) == 'D' || HasEnded(pid, thread)));
    return state->is_stopped;
  }
  std::map<pid_t, State> threads_;
};

// Returns whether memory that was not copied is still as it was: code and constants in files.
bool IsUnchanging(const MemoryMapping* mapping) {
  return mapping != nullptr && (!MayHoldPointers(*mapping) || IsReadOnlyFile(*mapping));
}

// Adds the words of a set of registers. Vector registers may hold pointers, too.
bool ReadRegisterSet(pid_t thread, int kind, std::span<uint64_t> words, std::vector<uint64_t>* registers) {
  iovec into{words.data(), words.size_bytes()};
  if (ptrace(PTRACE_GETREGSET, thread, reinterpret_cast<void*>(kind), &into) != 0) return false;
  registers->insert(registers->end(), words.begin(),
                    words.begin() + static_cast<ptrdiff_t>(into.iov_len / sizeof(uint64_t)));
  return true;
}

void ReadRegisters(TargetThread* thread) {
  user_regs_struct general{};
  static_assert(sizeof general % sizeof(uint64_t) == 0);
  std::vector<uint64_t> registers;
  if (!ReadRegisterSet(thread->id, NT_PRSTATUS,
                       {reinterpret_cast<uint64_t*>(&general), sizeof general / sizeof(uint64_t)}, &registers))
    return;
#if defined(__x86_64__)
  constexpr int kVectors = NT_X86_XSTATE;
  thread->pc = general.rip;
  thread->sp = general.rsp;
  // -ERESTARTSYS to -ERESTART_RESTARTBLOCK of linux/errno.h. A call that has ended left its own result there.
  const int64_t result = static_cast<int64_t>(general.rax);
  thread->resumes_call = static_cast<int64_t>(general.orig_rax) >= 0 && result <= -512 && result >= -516;
#else
  constexpr int kVectors = NT_PRFPREG;
  thread->pc = general.pc;
  thread->sp = general.sp;
  thread->resumes_call = true;  // the kernel has already put the arguments back
#endif
  std::array<uint64_t, kMaxVectorWords> words;
  thread->has_all_registers = ReadRegisterSet(thread->id, kVectors, words, &registers) ||
                              ReadRegisterSet(thread->id, NT_PRFPREG, words, &registers);
  thread->registers = std::move(registers);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CopiedAddressSpace>> CopiedAddressSpace::Make(
    ProcessAddressSpace* process, uint64_t most_bytes, const std::function<absl::Status()>& while_stopped) {
  std::unique_ptr<CopiedAddressSpace> space(new CopiedAddressSpace(process));
  uint64_t bytes = 0;
  for (const MemoryMapping& mapping : process->mappings()) {
    for (uint64_t at = mapping.start; MayHoldPointers(mapping) && at < mapping.end;) {
      const MemoryRange run = process->PopulatedRun(at, mapping.end);
      bytes += run.end - run.start;
      at = run.end;
    }
  }
  if (bytes > most_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("--stop copies ", bytes >> 20, " MiB, and only ", most_bytes >> 20,
                                                     " MiB may be used. Allow more with --scan-memory"));
  }
  // It may grow until it is stopped.
  space->reserved_ = std::min(most_bytes, bytes + bytes / 4 + (uint64_t{64} << 20));
  void* const copy =
      mmap(nullptr, space->reserved_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (copy == MAP_FAILED) return absl::ResourceExhaustedError(absl::StrCat("no memory for a copy: ", strerror(errno)));
  space->copy_ = static_cast<char*>(copy);
  const WithoutTerminalStops without_stops;
  absl::Status status;
  std::thread([&] { status = space->StopAndCopy(while_stopped); }).join();
  if (!status.ok()) return status;
  return space;
}

absl::Status CopiedAddressSpace::StopAndCopy(const std::function<absl::Status()>& while_stopped) {
  const int64_t began = NowNs();
  StoppedThreads threads;
  absl::Status status = threads.Stop(process_.pid());
  if (status.ok()) status = process_.Refresh();
  if (status.ok()) {
    mappings_ = process_.mappings();
    for (size_t i = 0; i < mappings_.size(); ++i) executable_.push_back(process_.IsExecutable(i));
    threads_ = process_.threads();
    kernel_words_ = process_.kernel_words();
    stack_start_ = process_.stack_start();
    for (TargetThread& thread : threads_) ReadRegisters(&thread);
    status = Copy(NowNs() + kMaxCopyNs + static_cast<int64_t>(reserved_ >> 20) * kMaxCopyNs / 1024);
  }
  if (status.ok()) status = while_stopped();
  threads.Continue();
  stopped_ns_ = NowNs() - began;
  return status;
}

CopiedAddressSpace::~CopiedAddressSpace() {
  if (copy_ != nullptr) munmap(copy_, reserved_);
}

absl::Status CopiedAddressSpace::Copy(int64_t deadline) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  for (const MemoryMapping& mapping : mappings_) {
    for (uint64_t at = mapping.start; MayHoldPointers(mapping) && at < mapping.end;) {
      const MemoryRange run = process_.PopulatedRun(at, mapping.end);
      for (at = run.start; at < run.end;) {
        uint64_t bytes = std::min(kPiece, run.end - at);
        if (bytes > reserved_ - used_) {
          return absl::ResourceExhaustedError(
              "the process grew while it was being stopped, and the copy is incomplete. Try again, or allow more with --scan-memory");
        }
        if (NowNs() > deadline) {
          return absl::DeadlineExceededError(
              "the copy takes too long, and the process continues: memory is swapped out, or the machine is busy. Try again");
        }
        if (!process_.Read(at, copy_ + used_, bytes)) {
          bytes = std::min(bytes, kSmallestPage - at % kSmallestPage);
          if (!process_.Read(at, copy_ + used_, bytes)) {
            at += bytes;
            continue;
          }
        }
        if (!runs_.empty() && runs_.back().range.end == at) {
          runs_.back().range.end += bytes;
        } else {
          runs_.push_back({{at, at + bytes}, used_});
        }
        used_ += bytes;
        at += bytes;
      }
      at = std::max(at, run.end);
    }
  }
  return absl::OkStatus();
}

bool CopiedAddressSpace::Read(uint64_t address, void* to, size_t bytes) const {
  const auto next = std::upper_bound(runs_.begin(), runs_.end(), address,
                                     [](uint64_t at, const Run& run) { return at < run.range.start; });
  if (next != runs_.begin()) {
    const Run& run = *std::prev(next);
    if (address < run.range.end) {
      if (bytes > run.range.end - address) return false;
      memcpy(to, copy_ + run.offset + (address - run.range.start), bytes);
      return true;
    }
  }
  return IsUnchanging(MappingAt(address)) && process_.Read(address, to, bytes);
}

MemoryRange CopiedAddressSpace::PopulatedRun(uint64_t from, uint64_t end) {
  const auto next = std::upper_bound(runs_.begin(), runs_.end(), from,
                                     [](uint64_t at, const Run& run) { return at < run.range.end; });
  if (next == runs_.end() || next->range.start >= end) {
    const MemoryMapping* mapping = MappingAt(from);
    return mapping != nullptr && !MayHoldPointers(*mapping) ? MemoryRange{from, end} : MemoryRange{end, end};
  }
  return {std::max(from, next->range.start), std::min(end, next->range.end)};
}

}  // namespace holdfast
