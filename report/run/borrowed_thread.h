// Calls a function of a running process in one of its threads, by ptrace. The thread must be at a place where it holds no
// lock of the dynamic linker or of an allocator (safe_thread.h).
//
// The tracer may be killed at any moment: the process then runs on as if nothing had happened, or finishes what was begun.
// No instruction of the process is changed. Whatever the thread is sent to ends in rt_sigreturn with a frame that has its
// registers, its vector registers and its signal mask:
//
//     the thread's stack                       its memory, mapped for the call
//     ├ its own frames                         ├ code: dlopen, dlsym, the function
//     ├ red zone                               ├ what the call needs: texts, results, another such frame, and in a
//     ├ frame ◄── mmap, ret to rt_sigreturn    │ container the library, which the code puts into a file in memory
//     └ results                                └ a stack
//
// The library has the code that ends the call (interpose/process/call_end.h): it unmaps the memory, waits for the tracer, and
// then calls rt_sigreturn. Usually the tracer comes. It restores the thread itself, because only then does the kernel resume
// an interrupted system call with the time that is left. Each stop costs two changes of the thread on the processor, about
// 1 ms where all processors are busy, so there are few: one before the call, four for two mmaps, one after it.
//
// The code first takes the locks of the dynamic linker, and gives up if another thread has one of them: that thread may run a
// constructor of the program, which may wait for a lock that the borrowed thread holds. If the library is loaded, it does so.
//
// One thread of the tool, from Stop to the destructor.
#ifndef HOLDFAST_REPORT_RUN_BORROWED_THREAD_H_
#define HOLDFAST_REPORT_RUN_BORROWED_THREAD_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/observe/table/thread_status.h"
#include "sampler/contract/attach_call.h"

namespace holdfast {

// Addresses in the process.
struct CodeAddresses {
  uint64_t errno_location = 0, dlopen = 0, dlsym = 0, dlerror = 0;
  // How far after errno the thread keeps what dlerror will say, which a call of the dynamic linker changes; 0: unknown.
  int64_t dlerror_from_errno = 0;
  // The mutexes that dlopen and dl_iterate_phdr hold while they call the program (linker_locks.h); 0: unknown.
  std::array<uint64_t, 2> linker_locks{};
  uint64_t trylock = 0, unlock = 0;  // of a pthread_mutex_t
  uint64_t attach = 0;               // kAttachFunction, if the library is loaded
  uint64_t syscall_and_return = 0;   // "syscall; ret"
  uint64_t return_from_signal = 0;   // "mov $15, %rax; syscall"
};

// The library as a file in memory: "/memfd:libholdfast.so (deleted)" in the memory map. A library that is loaded is found by
// this name as well, because the name is its SONAME.
inline constexpr char kMemoryFileName[] = "libholdfast.so";

inline constexpr uint64_t kCallHasEnded = 1;

struct LibraryCall {
  std::string library;  // as dlopen takes it
  std::string image;    // its bytes, for a process that does not see the file; else ""
  AttachAction action = AttachAction::kAttach;
  std::vector<std::string> variables;  // "HOLDFAST_OUT=/tmp/out"
  FolderId out_id{};                   // see AttachCall
  // The seccomp filters that were examined (CountFilters). The call is made only if no thread has installed another one.
  std::map<pid_t, std::string> filters = {};
  bool is_first = false;  // the library was never in this process, so an attach that fails may be undone
  // Not null: while a thread makes the call, the address of a word in the process that is 0 until the call has ended; then
  // kCallHasEnded. If the tracer is killed meanwhile, the thread finishes alone.
  std::atomic<uint64_t>* done_at = nullptr;
  // The same of a word that is 0 until the thread begins the call, and unreadable after it.
  std::atomic<uint64_t>* begun_at = nullptr;
};
struct LibraryAnswer {
  AttachResult result = AttachResult::kNone;
  uint64_t redirected = 0;
  uint64_t refused = 0, unreadable = 0;
  uint64_t patches = 0;  // kPatch: their address in the process
  uint32_t patch_count = 0;
  uint32_t entries = 0;          // kNoEntries: why
  bool is_program_busy = false;  // kThreadIsBusy: another thread uses the dynamic linker, or forks
};

class BorrowedThread {
 public:
  // Seizes and stops the thread. Fails without consequences if the kernel forbids it. The error is Aborted if the thread
  // cannot be stopped within `patience_ms` (it waits for a disk, or for its vfork child): the kernel then lets go of the
  // thread only when this process ends.
  static absl::StatusOr<std::unique_ptr<BorrowedThread>> Stop(pid_t pid, pid_t thread, int patience_ms);
  // Lets the thread continue where it was.
  ~BorrowedThread();
  BorrowedThread(const BorrowedThread&) = delete;
  BorrowedThread& operator=(const BorrowedThread&) = delete;

  uint64_t pc() const;
  uint64_t sp() const;
  uint64_t thread_pointer() const;
  // The system call that the stop has interrupted.
  std::optional<BlockedCall> call() const;
  // Whether that call returns EINTR or fewer bytes to the program because of the stop. The kernel resumes all others.
  bool is_call_lost() const;
  // Whether the thread is inside a restartable sequence (rseq), or has state that a signal frame cannot hold.
  std::string WhyNotNow() const;
  // Whether the kernel turns system calls of code outside a range into a signal, which ends the thread in a call of ours.
  bool HasUserDispatch() const;
  // How much of its stack, below `sp`, a call needs.
  static constexpr uint64_t kStackBytes = 16 << 10;

  absl::StatusOr<LibraryAnswer> Call(const CodeAddresses& code, const LibraryCall& call);

 private:
  struct State;
  explicit BorrowedThread(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_BORROWED_THREAD_H_
