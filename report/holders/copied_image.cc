#include "report/holders/copied_image.h"

#include <elf.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "report/base/time_budget.h"

namespace holdfast {
namespace {

constexpr int64_t kMaxWaitNs = 2 * kSecond;  // for a thread to stop: one that waits for a disk cannot
constexpr absl::Duration kStopPoll = absl::Microseconds(200);

// Stops threads, and lets them continue when destroyed. Meanwhile, the terminal cannot stop this process.
class StoppedThreads {
 public:
  StoppedThreads() {
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int signal : {SIGTSTP, SIGTTIN, SIGTTOU}) sigaddset(&blocked, signal);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~StoppedThreads() {
    Continue();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  StoppedThreads(const StoppedThreads&) = delete;
  StoppedThreads& operator=(const StoppedThreads&) = delete;

  // Stops all threads of the process, also those that others start meanwhile.
  absl::Status Stop(pid_t pid) {
    for (bool found_new = true; found_new;) {
      found_new = false;
      for (const auto& [thread, inner] : ThreadsOf(pid, false)) {
        if (threads_.contains(thread)) continue;
        if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
          if (errno == ESRCH) continue;  // it has ended
          return absl::PermissionDeniedError(absl::StrCat(
              "thread ", thread, " cannot be stopped: ", strerror(errno),
              errno == EPERM ? ". A debugger may be attached, or the kernel permits tracing only to root" : ""));
        }
        int& signal = threads_[thread];
        found_new = true;
        if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0 || !WaitFor(thread, &signal)) {
          return absl::DeadlineExceededError(
              absl::StrCat("thread ", thread, " does not stop: it may wait for a disk. Try again later"));
        }
      }
    }
    return absl::OkStatus();
  }
  void Continue() {
    for (const auto& [thread, signal] : threads_) ptrace(PTRACE_DETACH, thread, nullptr, signal);
    threads_.clear();
  }

 private:
  // If a signal stopped the thread first, returns it in `signal`: the thread gets it when it continues.
  static bool WaitFor(pid_t thread, int* signal) {
    for (const int64_t began = NowNs(); NowNs() - began < kMaxWaitNs; absl::SleepFor(kStopPoll)) {
      int status = 0;
      const pid_t got = waitpid(thread, &status, __WALL | WNOHANG);
      if (got == thread && WIFSTOPPED(status) && status >> 16 == 0) *signal = WSTOPSIG(status);
      if (got == thread || (got < 0 && errno == ECHILD)) return true;
    }
    return false;
  }
  std::map<pid_t, int> threads_;  // to the signal that the thread is about to get, or 0
  sigset_t before_;
};

void ReadRegisters(ImageThread* thread) {
  user_regs_struct registers{};
  iovec into{&registers, sizeof registers};
  if (ptrace(PTRACE_GETREGSET, thread->id, reinterpret_cast<void*>(NT_PRSTATUS), &into) != 0) return;
  thread->registers.resize(into.iov_len / sizeof(uint64_t));
  memcpy(thread->registers.data(), &registers, thread->registers.size() * sizeof(uint64_t));
#if defined(__x86_64__)
  thread->pc = registers.rip;
  thread->sp = registers.rsp;
#else
  thread->pc = registers.pc;
  thread->sp = registers.sp;
#endif
  thread->has_all_registers = true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CopiedImage>> CopiedImage::Make(ProcessImage* process, uint64_t most_bytes) {
  std::unique_ptr<CopiedImage> image(new CopiedImage(process));
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
  image->reserved_ = std::min(most_bytes, bytes + bytes / 4 + (uint64_t{64} << 20));
  void* const copy =
      mmap(nullptr, image->reserved_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (copy == MAP_FAILED) return absl::ResourceExhaustedError(absl::StrCat("no memory for a copy: ", strerror(errno)));
  image->copy_ = static_cast<char*>(copy);
  StoppedThreads threads;
  const int64_t began = NowNs();
  if (absl::Status status = threads.Stop(process->pid()); !status.ok()) return status;
  if (absl::Status status = process->Refresh(); !status.ok()) return status;
  image->mappings_ = process->mappings();
  for (size_t i = 0; i < image->mappings_.size(); ++i) image->executable_.push_back(process->IsExecutable(i));
  image->threads_ = process->threads();
  for (ImageThread& thread : image->threads_) ReadRegisters(&thread);
  image->Copy();
  threads.Continue();
  image->stopped_ns_ = NowNs() - began;
  if (image->used_ == image->reserved_) {
    return absl::ResourceExhaustedError(
        "the process grew while it was being stopped, and the copy is incomplete. Try again, or allow more with --scan-memory");
  }
  return image;
}

CopiedImage::~CopiedImage() {
  if (copy_ != nullptr) munmap(copy_, reserved_);
}

void CopiedImage::Copy() {
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  for (const MemoryMapping& mapping : mappings_) {
    for (uint64_t at = mapping.start; MayHoldPointers(mapping) && at < mapping.end;) {
      const MemoryRange run = process_.PopulatedRun(at, mapping.end);
      for (at = run.start; at < run.end;) {
        uint64_t bytes = std::min(kPiece, run.end - at);
        if (bytes > reserved_ - used_) {
          used_ = reserved_;
          return;
        }
        if (!process_.Read(at, copy_ + used_, bytes)) {
          bytes = std::min(bytes, kPage - at % kPage);
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
}

bool CopiedImage::Read(uint64_t address, void* to, size_t bytes) const {
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
  const MemoryMapping* mapping = MappingAt(address);
  return mapping != nullptr && !MayHoldPointers(*mapping) && process_.Read(address, to, bytes);
}

MemoryRange CopiedImage::PopulatedRun(uint64_t from, uint64_t end) {
  const auto next = std::upper_bound(runs_.begin(), runs_.end(), from,
                                     [](uint64_t at, const Run& run) { return at < run.range.end; });
  if (next == runs_.end() || next->range.start >= end) {
    const MemoryMapping* mapping = MappingAt(from);
    return mapping != nullptr && !MayHoldPointers(*mapping) ? MemoryRange{from, end} : MemoryRange{end, end};
  }
  return {std::max(from, next->range.start), std::min(end, next->range.end)};
}

}  // namespace holdfast
