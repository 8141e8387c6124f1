// Finds a thread of a running process that can be borrowed for a call of the dynamic linker: it holds no lock of the linker
// or of an allocator, and at best its system call continues as if nothing had happened.
//
//     stack, outermost frame first                       verdict
//     _start, main, serve, epoll_wait                    safe
//     start_thread, worker, compress                     safe: runs code of the program
//     start_thread, worker, malloc, …                    unsafe: inside the C library
//     start_thread, worker, qsort, compare               unsafe: the C library is further out, and may hold a lock
//     …, on_signal, __restore_rt, malloc, …              unsafe: the same, in a signal handler
//     …, dlopen, constructor, sleep                      unsafe: the dynamic linker is further out
//
// If the executable has an allocator of its own, the program's code may hold this allocator's locks. Then a thread is only
// safe while it waits in a call in which no allocator waits: for input, for a condition, for another process.
//
// The process is untrusted: only data is read, with bounds.
#ifndef HOLDFAST_REPORT_RUN_SAFE_THREAD_H_
#define HOLDFAST_REPORT_RUN_SAFE_THREAD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "report/base/holdfast_library.h"
#include "report/names/elf/elf_symbols.h"
#include "report/observe/memory/mappings.h"
#include "report/observe/outside/outside_stack.h"
#include "report/observe/table/thread_status.h"
#include "report/run/borrowed_thread.h"
#include "report/run/stopped_call.h"

namespace holdfast {

// Why a thread that loads a library may not be borrowed, and no other thread of its process either.
inline constexpr std::string_view kCalledByLinker = "was called by the dynamic linker";
inline constexpr std::string_view kMayAllocate = "runs, and may be inside the allocator of its executable";
inline constexpr std::string_view kCannotBeWalked = "has a stack that cannot be walked";
// Why nothing is attached if CodeAddresses::linker_locks are unknown.
inline constexpr char kNoLinkerLocks[] =
    "the locks of its dynamic linker were not found: its glibc is built in another way. Start it with holdfast run";

class ProcessCode {
 public:
  // Reads the modules of the process and the names of its C library. An error says what is missing.
  static absl::StatusOr<std::unique_ptr<ProcessCode>> Read(pid_t pid);

  const CodeAddresses& addresses() const { return addresses_; }
  const std::string& libc_path() const { return libc_path_; }
  // Whether the library is mapped and may not be called yet (CodeAddresses::attach is 0): a thread has a lock of the dynamic
  // linker, and perhaps loads the library.
  bool is_library_busy() const { return maps_library_ && addresses_.attach == 0; }
  bool has_allocator_in_program() const { return has_allocator_in_program_; }
  // Whether the function that CodeAddresses::attach leads to is still there: another program may have been executed.
  bool IsLibraryThere() const;

  // Why a thread with these registers may not be borrowed; "": it may. `call`: nothing if it runs.
  // `thread_pointer`: 0 if it is not known. Looks for the stack in the mappings of the last ReadStacks.
  std::string WhyUnsafe(uint64_t pc, uint64_t sp, uint64_t thread_pointer, const std::optional<BlockedCall>& call);
  void ReadStacks();
  // Whether libc has made this thread: functions of libc find their state by the thread pointer.
  bool IsOfLibc(pid_t thread, uint64_t thread_pointer) const;

 private:
  enum class Part : uint8_t { kProgram, kLibc, kLinker, kAllocator, kNowhere };
  explicit ProcessCode(pid_t pid);
  absl::Status ReadLibc(const ModuleInfo& libc);
  void FindOwnLibrary();
  bool BeginsThread(uint64_t pc) const;
  absl::Status FindInstructions(const ModuleInfo& libc);
  Part PartOf(uint64_t pc) const;
  // Whether the stack has room, and is the thread's own: the place below a coroutine's may belong to something else.
  bool HasStack(uint64_t sp, uint64_t thread_pointer) const;
  // Where the stack begins that libc gave this thread. Nothing: it is the initial thread, or not libc's.
  std::optional<uint64_t> ThreadsBlock(uint64_t thread_pointer) const;

  const pid_t pid_;
  const ProcessMemory memory_;
  const uint64_t entry_;  // the executable's _start
  OutsideStacks stacks_;
  std::vector<ModuleInfo> modules_;
  std::vector<Part> parts_;  // of each module
  std::unique_ptr<ElfSymbols> libc_names_;
  uint64_t libc_bias_ = 0;
  std::string libc_path_;
  bool has_allocator_in_program_ = false, maps_library_ = false;
  uint64_t attach_code_ = 0;             // its first 8 bytes
  std::vector<MemoryMapping> mappings_;  // sorted
  CodeAddresses addresses_;
};

struct ThreadChoice {
  pid_t thread = 0;
  StopCost cost = StopCost::kImpossible;
  std::string doing;  // "sleeps in epoll_wait (ep_poll)"
  std::string why;    // it may not be borrowed; "": it may
};
// Describes every thread from outside, without stopping it. The best come first.
std::vector<ThreadChoice> ChooseThreads(pid_t pid, ProcessCode* code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_SAFE_THREAD_H_
