#include "report/run/borrowed_thread.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "fmt/format.h"
#include "report/base/time_budget.h"
#include "report/observe/outside/frozen_group.h"
#include "report/run/memory_limits.h"
#include "report/run/stopped_call.h"
#include "report/run/traced_memory.h"
#include "report/run/traced_stop.h"

#if defined(__x86_64__)
#include <cpuid.h>

// The code that the thread runs. rbx: a CallBlock. The code is copied into the process, so it names no address.
asm(R"(
  .pushsection .rodata
  .globl holdfast_borrowed_code, holdfast_borrowed_code_end
  .hidden holdfast_borrowed_code, holdfast_borrowed_code_end
holdfast_borrowed_code:
  cld
  movq $1, 80(%rbx)
  call *0(%rbx)
  mov %rax, %r12
  mov (%rax), %r13d
  mov 160(%rbx), %rax
  test %rax, %rax
  jz 9f
  add %r12, %rax
  mov (%rax), %rcx
  mov %rcx, 168(%rbx)
  movq $0, (%rax)
9:
  mov 216(%rbx), %eax
  test %eax, %eax
  jz 10f
  mov $25, %edi
  lea 220(%rbx), %rsi
  mov $157, %eax
  syscall
  cmpl $2, 220(%rbx)
  je 2f
10:
  cmpq $0, 64(%rbx)
  jnz 17f
  mov 48(%rbx), %rbp
  mov 224(%rbx), %rdi
  test %rdi, %rdi
  jz 12f
  call *240(%rbx)
  test %eax, %eax
  jnz 13f
  mov 224(%rbx), %rdi
  mov %rdi, 80(%rbp)
  mov 232(%rbx), %rdi
  call *240(%rbx)
  test %eax, %eax
  jz 14f
13:
  movl $1, 256(%rbx)
  jmp 2f
14:
  mov 232(%rbx), %rdi
  mov %rdi, 88(%rbp)
12:
  mov $-1, %r14
  mov 120(%rbx), %r15
  test %r15, %r15
  jz 5f
  mov 128(%rbx), %rdi
  mov $9, %esi
  mov $319, %eax
  syscall
  cmp $-22, %rax
  jne 3f
  mov 128(%rbx), %rdi
  mov $1, %esi
  mov $319, %eax
  syscall
3:
  test %rax, %rax
  js 7f
  mov %rax, %r14
  mov 112(%rbx), %rbp
4:
  mov %r14, %rdi
  mov %rbp, %rsi
  mov %r15, %rdx
  mov $1, %eax
  syscall
  test %rax, %rax
  jle 7f
  add %rax, %rbp
  sub %rax, %r15
  jnz 4b
  mov %r14d, %eax
  mov 136(%rbx), %rdi
  mov $10, %ecx
6:
  xor %edx, %edx
  div %ecx
  add $48, %dl
  dec %rdi
  mov %dl, (%rdi)
  test %eax, %eax
  jnz 6b
5:
  mov 32(%rbx), %rdi
  mov $2, %esi
  call *8(%rbx)
  mov %rax, 56(%rbx)
  test %r14, %r14
  js 8f
  mov %r14, %rdi
  mov $3, %eax
  syscall
8:
  mov 56(%rbx), %rax
  test %rax, %rax
  jz 1f
  mov %rax, %rdi
  mov 40(%rbx), %rsi
  call *16(%rbx)
  mov %rax, 64(%rbx)
  test %rax, %rax
  jz 1f
17:
  mov 48(%rbx), %rdi
  call *64(%rbx)
  jmp 2f
1:
  call *24(%rbx)
  mov %rax, 72(%rbx)
  jmp 2f
7:
  mov %rax, 144(%rbx)
  test %r14, %r14
  js 2f
  mov %r14, %rdi
  mov $3, %eax
  syscall
2:
  mov 48(%rbx), %rbp
  mov 88(%rbp), %rdi
  test %rdi, %rdi
  jz 15f
  call *72(%rbp)
15:
  mov 80(%rbp), %rdi
  test %rdi, %rdi
  jz 16f
  call *72(%rbp)
16:
  mov 160(%rbx), %rax
  test %rax, %rax
  jz 9f
  add %r12, %rax
  mov 168(%rbx), %rcx
  mov %rcx, (%rax)
9:
  mov %r13d, (%r12)
  mov $2, %edi
  lea 152(%rbx), %rsi
  xor %edx, %edx
  mov $8, %r10d
  mov $14, %eax
  syscall
  mov %rbx, %rsi
  mov 176(%rbx), %rdi
  mov $264, %ecx
  rep movsb
  mov 48(%rbx), %rsi
  mov 184(%rbx), %rdi
  mov 192(%rbx), %rcx
  rep movsb
  mov 200(%rbx), %rax
  mov (%rax), %rax
  mov 208(%rbx), %r12
  test %rax, %rax
  jz 11f
  mov %r12, %rbx
  jmp *%rax
11:
  movq $1, 32(%r12)
  xor %edi, %edi
  xor %esi, %esi
  lea 88(%rbx), %rdx
  xor %r10d, %r10d
  mov $8, %r8d
  mov $271, %eax
  syscall
  mov 104(%rbx), %rsp
  add $8, %rsp
  mov $15, %eax
  syscall
  hlt
holdfast_borrowed_code_end:
  .popsection
)");
extern "C" const unsigned char holdfast_borrowed_code[], holdfast_borrowed_code_end[];
#endif

namespace holdfast {
namespace {

#if defined(__x86_64__)

constexpr uint64_t kRedZone = 128;
constexpr uint64_t kCodePageBytes = 4096;
// Most of the memory is a stack. The kernel provides only the pages that are used.
constexpr uint64_t kDataBytes = 64 << 10, kCallStackBytes = 512 << 10;
// The number of the file is written over the slashes, from the right. /proc/self is empty if the main thread has ended.
constexpr std::string_view kMemoryFilePath = "/proc/thread-self/fd////////////";
// The end of a call and its results, on the thread's own stack; fields of an AttachCall that we do not know.
constexpr uint64_t kEndBytes = 1024, kLaterFieldBytes = 256;
constexpr int kCallPatienceMs = 30'000;
// A thread that does not get so far is frozen by its control group, or lacks a processor.
constexpr int kStepPatienceMs = 10'000, kLookPatienceMs = 1000;
// Blocked while the thread runs our code: all but 33, which glibc never blocks either. A thread that calls setuid or setgroups
// holds a lock that dlopen takes, and waits until each thread has handled this signal.
constexpr uint64_t kBlockedInCall = ~(uint64_t{1} << (33 - 1));
constexpr int64_t kTracerPatienceNs = 2'000'000'000;  // for how long the thread waits for us after the call

struct CallBlock {
  uint64_t errno_location, dlopen, dlsym, dlerror;  // 0
  uint64_t path, name, call;                        // 32
  uint64_t handle, function, error;                 // 56: results. Function: not 0 if it is only to be called
  uint64_t begun;                                   // 80
  timespec patience;                                // 88: of ppoll, which leaves the call to be restarted as it is
  uint64_t frame;                                   // 104
  uint64_t image, image_bytes, memory_name;         // 112
  uint64_t path_end;                                // 136: where the number of the file in memory ends
  int64_t memory_error;                             // 144: a result
  uint64_t all_signals;                             // 152: blocked while the thread waits for us, so that it is here
  int64_t dlerror_from_errno, dlerror_before;       // 160: 0 if unknown; what was there
  // On the thread's own stack: copies of this block and of the AttachCall, which outlive the memory; and the CallEnd.
  uint64_t block_copy, call_copy, call_bytes;     // 176
  uint64_t library_end;                           // 200: the address of AttachCall::end
  uint64_t call_end;                              // 208
  int32_t asks_time, time;                        // 216: not 0: ask PR_GET_TSC first; the answer
  uint64_t linker_locks[2], trylock, unused_too;  // 224: locks 0 if unknown
  uint64_t is_program_busy;                       // 256: a result
};
static_assert(sizeof(CallBlock) == 264 && offsetof(CallBlock, linker_locks) == 224 &&
              offsetof(CallBlock, trylock) == 240 && offsetof(CallBlock, is_program_busy) == 256 &&
              offsetof(AttachCall, unlock) == 72 && offsetof(AttachCall, held_locks) == 80 &&
              offsetof(CallBlock, block_copy) == 176 && offsetof(CallBlock, library_end) == 200 &&
              offsetof(CallBlock, call_end) == 208 && offsetof(CallBlock, asks_time) == 216 &&
              offsetof(CallEnd, done) == 32);
static_assert(offsetof(CallBlock, path) == 32 && offsetof(CallBlock, handle) == 56 &&
              offsetof(CallBlock, begun) == 80 && offsetof(CallBlock, patience) == 88 &&
              offsetof(CallBlock, frame) == 104 && offsetof(CallBlock, image) == 112 &&
              offsetof(CallBlock, path_end) == 136 && offsetof(CallBlock, memory_error) == 144 &&
              offsetof(CallBlock, all_signals) == 152 && offsetof(CallBlock, dlerror_from_errno) == 160 &&
              offsetof(CallBlock, dlerror_before) == 168);

// The frame that rt_sigreturn reads, as the kernel's headers lay it out.
struct SignalFrame {
  uint64_t return_to;
  uint64_t flags, link;
  struct {
    uint64_t sp;
    uint32_t flags, padding;
    uint64_t size;
  } stack;
  struct {
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip, flags;
    uint16_t cs, gs, fs, ss;
    uint64_t error, trap, old_mask, cr2, vector_state, reserved[8];
  } context;
  uint64_t mask;
  siginfo_t info;
};
static_assert(offsetof(SignalFrame, context) == 48 && offsetof(SignalFrame, mask) == 48 + 256);

// No such state of a signal stack exists: the kernel leaves the thread's own as it is.
constexpr uint32_t kNoStackChange = 0x00ff0000;

constexpr uint64_t kTileData = uint64_t{1} << 18;  // is large, and not in every thread's signal frames
constexpr size_t kSoftwareBytesAt = 464, kHeaderAt = 512, kSmallestVectorState = 576;

// Bytes of the vector registers of these kinds in the standard format.
uint32_t VectorBytes(uint64_t kinds) {
  uint32_t bytes = kSmallestVectorState;
  for (uint32_t kind = 2; kind < 63; ++kind) {
    uint32_t size = 0, offset = 0, c = 0, d = 0;
    if ((kinds >> kind & 1) == 0 || __get_cpuid_count(0xd, kind, &size, &offset, &c, &d) == 0) continue;
    bytes = std::max(bytes, offset + size);
  }
  return bytes;
}

// The kernel has prepared the system call to be made again.
bool IsRestart(int64_t result) { return result == -512 || result == -513 || result == -514 || result == -516; }

// Waits for the next stop or the end of the thread. False: errno says why; EAGAIN: none within this time.
bool AwaitStop(pid_t thread, int* status, int patience_ms) {
  // Each stop sends SIGCHLD. A wait with a pause between two looks would double the time of a step.
  sigset_t child, before;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, &before);
  const int64_t end = NowNs() / 1'000'000 + patience_ms;
  pid_t got = 0;
  int error = EAGAIN;
  while (true) {
    got = AwaitTraced(thread, status, WNOHANG);
    if (got == thread || (got < 0 && errno != EINTR)) break;
    if (NowNs() / 1'000'000 > end) break;
    constexpr timespec kAtMost = {0, 10'000'000};  // whoever started us may ignore SIGCHLD
    sigtimedwait(&child, nullptr, &kAtMost);
  }
  if (got < 0) error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return got == thread;
}

absl::Status TraceFailed(std::string_view what) {
  return absl::UnavailableError(fmt::format("{}: {}", what, strerror(errno)));
}

#endif

}  // namespace

#if defined(__x86_64__)

struct BorrowedThread::State {
  pid_t pid = 0, thread = 0;
  user_regs_struct registers{};
  uint64_t mask = 0;
  std::vector<unsigned char> vectors;
  uint64_t vector_kinds = 0;
  int pending_signal = 0;
  bool is_gone = false;     // the thread has ended, or has been let go
  bool is_running = false;  // it did not stop where it should

  enum class Until { kStop, kSystemCall };
  // Signals that come meanwhile are delivered.
  absl::Status Resume(__ptrace_request how, Until until) {
    while (true) {
      if (ptrace(how, thread, nullptr, std::exchange(pending_signal, 0)) != 0) return TraceFailed("resume");
      const absl::StatusOr<bool> reached = Await(until);
      if (!reached.ok()) return reached.status();
      if (*reached) return absl::OkStatus();
    }
  }
  // Waits for the next stop. False: it is another one. DeadlineExceeded: there was none; the thread runs on alone then, as soon as
  // it can, and ends in its frame.
  absl::StatusOr<bool> Await(Until until) {
    int status = 0;
    std::string frozen;
    for (int waited_ms = 0; !AwaitStop(thread, &status, kLookPatienceMs); waited_ms += kLookPatienceMs) {
      if (errno != EAGAIN) return TraceFailed("wait");
      frozen = WhyFrozen(pid);
      if (frozen.empty() && waited_ms < kStepPatienceMs) continue;
      is_running = true;
      return absl::DeadlineExceededError(fmt::format("its thread {} does not run: {}", thread,
                                                     frozen.empty() ? "the machine may be overloaded" : frozen));
    }
    return Classify(status, until);
  }
  // Stops a thread that is frozen, if that is possible: by version 2 of control groups it is.
  bool StopFrozen() {
    int status = 0;
    ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
    while (AwaitStop(thread, &status, kLookPatienceMs)) {
      const absl::StatusOr<bool> stopped = Classify(status, Until::kStop);
      if (!stopped.ok() || *stopped) return stopped.ok();
      if (ptrace(PTRACE_CONT, thread, nullptr, std::exchange(pending_signal, 0)) != 0) return false;
    }
    return false;
  }
  absl::StatusOr<bool> Classify(int status, Until until) {
    if (!WIFSTOPPED(status)) {
      is_gone = true;
      return absl::UnavailableError("its thread has ended meanwhile");
    }
    const int signal = WSTOPSIG(status);
    if (status >> 16 == PTRACE_EVENT_STOP) return until == Until::kStop;
    if (signal == (SIGTRAP | 0x80)) return until == Until::kSystemCall;
    pending_signal = signal;
    return false;
  }

  bool SetRegisters(const user_regs_struct& to) const { return ptrace(PTRACE_SETREGS, thread, nullptr, &to) == 0; }
  bool SetMask(uint64_t to) const { return ptrace(PTRACE_SETSIGMASK, thread, sizeof to, &to) == 0; }
  bool Write(uint64_t address, const void* from, size_t bytes) const {
    return WriteTraced(thread, address, from, bytes);
  }
  bool Read(uint64_t address, void* to, size_t bytes) const { return ReadTraced(thread, address, to, bytes); }
  // Also where the process itself may not write.
  bool WriteCode(uint64_t address, const unsigned char* from, size_t bytes) const {
    for (size_t at = 0; at < bytes; at += sizeof(long)) {
      long word = 0;
      memcpy(&word, from + at, std::min(sizeof word, bytes - at));
      if (ptrace(PTRACE_POKEDATA, thread, reinterpret_cast<void*>(address + at), reinterpret_cast<void*>(word)) != 0)
        return false;
    }
    return true;
  }

  // Whether the thread is in a system call that the kernel makes again.
  bool IsToBeRestarted() const {
    return static_cast<int64_t>(registers.orig_rax) >= 0 && IsRestart(static_cast<int64_t>(registers.rax));
  }

  absl::Status ReadAll() {
    if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return TraceFailed("read registers");
    if (ptrace(PTRACE_GETSIGMASK, thread, sizeof mask, &mask) != 0) return TraceFailed("read signal mask");
    vectors.resize(16 << 10);
    iovec into = {vectors.data(), vectors.size()};
    if (ptrace(PTRACE_GETREGSET, thread, reinterpret_cast<void*>(NT_X86_XSTATE), &into) != 0)
      return TraceFailed("read vector registers");
    vectors.resize(into.iov_len);
    if (vectors.size() < kSmallestVectorState) return absl::UnavailableError("the processor has no xsave");
    memcpy(&vector_kinds, vectors.data() + kSoftwareBytesAt, sizeof vector_kinds);
    return absl::OkStatus();
  }

  // A frame for rt_sigreturn at `address`, with the vector registers after it. An interrupted system call is made again from
  // its beginning.
  std::vector<unsigned char> FrameAt(uint64_t address, uint64_t return_to) const {
    const uint64_t kinds = vector_kinds & ~kTileData;
    const uint32_t vector_bytes = VectorBytes(kinds);
    const uint64_t vectors_at = (address + sizeof(SignalFrame) + 63) & ~uint64_t{63};
    SignalFrame frame{};
    frame.return_to = return_to;
    frame.flags = 7;  // vector registers, the stack segment, and its strict check
    frame.stack.flags = kNoStackChange;
    auto& context = frame.context;
    context = {registers.r8,
               registers.r9,
               registers.r10,
               registers.r11,
               registers.r12,
               registers.r13,
               registers.r14,
               registers.r15,
               registers.rdi,
               registers.rsi,
               registers.rbp,
               registers.rbx,
               registers.rdx,
               registers.rax,
               registers.rcx,
               registers.rsp,
               registers.rip,
               registers.eflags,
               static_cast<uint16_t>(registers.cs),
               0,
               0,
               static_cast<uint16_t>(registers.ss),
               0,
               0,
               0,
               0,
               vectors_at,
               {}};
    if (IsToBeRestarted()) {
      context.ax = registers.orig_rax;
      context.ip -= 2;
    }
    frame.mask = mask;
    std::vector<unsigned char> bytes(vectors_at - address + vector_bytes + sizeof(uint32_t));
    memcpy(bytes.data(), &frame, sizeof frame);
    unsigned char* const state = bytes.data() + (vectors_at - address);
    memcpy(state, vectors.data(), std::min<size_t>(vector_bytes, vectors.size()));
    struct {
      uint32_t magic, whole_bytes;
      uint64_t kinds;
      uint32_t bytes, padding[7];
    } software = {0x46505853, vector_bytes + static_cast<uint32_t>(sizeof(uint32_t)), kinds, vector_bytes, {}};
    static_assert(sizeof software == kHeaderAt - kSoftwareBytesAt);
    memcpy(state + kSoftwareBytesAt, &software, sizeof software);
    constexpr uint32_t kEnd = 0x46505845;
    memcpy(state + vector_bytes, &kEnd, sizeof kEnd);
    return bytes;
  }

  uint64_t OwnFrame() const { return (registers.rsp - kRedZone - BorrowedThread::kStackBytes / 2) & ~uint64_t{63}; }

  // Makes a system call with the frame on the thread's own stack after it. The thread stops when it returns.
  absl::StatusOr<int64_t> MakeCall(const CodeAddresses& code, int64_t number, std::array<uint64_t, 6> arguments) {
    user_regs_struct calling = registers;
    calling.rip = code.syscall_and_return;
    calling.rsp = OwnFrame();
    calling.rax = static_cast<uint64_t>(number);
    calling.orig_rax = static_cast<uint64_t>(-1);
    calling.rdi = arguments[0], calling.rsi = arguments[1], calling.rdx = arguments[2];
    calling.r10 = arguments[3], calling.r8 = arguments[4], calling.r9 = arguments[5];
    if (!SetRegisters(calling)) return TraceFailed("set registers");
    // Only now: a thread that nobody traces any more must not be left with its signals blocked.
    if (!SetMask(~uint64_t{0})) return TraceFailed("block signals");
    for (int i = 0; i < 2; ++i) {  // its beginning, its end
      if (const absl::Status status = Resume(PTRACE_SYSCALL, Until::kSystemCall); !status.ok()) return status;
    }
    user_regs_struct after{};
    if (ptrace(PTRACE_GETREGS, thread, nullptr, &after) != 0) return TraceFailed("read registers");
    return static_cast<int64_t>(after.rax);
  }

  absl::StatusOr<uint64_t> Map(const CodeAddresses& code, uint64_t bytes, int protection, std::string_view what) {
    const absl::StatusOr<int64_t> made = MakeCall(
        code, SYS_mmap,
        {0, bytes, static_cast<uint64_t>(protection), MAP_PRIVATE | MAP_ANONYMOUS, static_cast<uint64_t>(-1), 0});
    if (!made.ok()) return made.status();
    if (*made < 0 && *made > -4096) {
      const std::vector<std::string> limits = MemoryLimitsBelow(fmt::format("{}", thread), bytes, bytes);
      if (!limits.empty()) return absl::FailedPreconditionError("it " + limits[0]);
      return absl::UnavailableError(
          fmt::format("it may not map memory for {} ({})", what, strerror(static_cast<int>(-*made))));
    }
    return static_cast<uint64_t>(*made);
  }

  // Gives the thread back everything, in an order in which it can be left alone at any step. It must be stopped with its
  // frame on its own stack ahead. `is_asked_to_stop`: that was the reason of the stop.
  absl::Status Restore(bool is_asked_to_stop = false) {
    iovec from = {vectors.data(), vectors.size()};
    // A pending stop is reported before the thread runs in user space. Only there does the kernel look whether a system call
    // is to be made again.
    if (is_asked_to_stop) {
      // It is there.
    } else if (is_running) {
      // Otherwise the thread finishes alone, as soon as it runs.
      if (!StopFrozen()) return absl::DeadlineExceededError("its thread does not run");
    } else {
      ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
      if (absl::Status status = Resume(PTRACE_CONT, Until::kStop); !status.ok()) return status;
    }
    ptrace(PTRACE_SETREGSET, thread, reinterpret_cast<void*>(NT_X86_XSTATE), &from);
    if (!SetMask(mask) || !SetRegisters(registers)) return TraceFailed("restore registers");
    return absl::OkStatus();
  }

  void LetGo() {
    if (!std::exchange(is_gone, true)) ptrace(PTRACE_DETACH, thread, nullptr, pending_signal);
  }
};

absl::StatusOr<std::unique_ptr<BorrowedThread>> BorrowedThread::Stop(pid_t pid, pid_t thread, int patience_ms) {
  auto state = std::make_unique<State>();
  state->pid = pid;
  state->thread = thread;
  if (ptrace(PTRACE_SEIZE, thread, nullptr, PTRACE_O_TRACESYSGOOD) != 0) {
    if (errno == ESRCH) return absl::NotFoundError("has ended");
    return SeizeFailed(pid, TraceFailed("cannot be traced"));
  }
  auto borrowed = std::unique_ptr<BorrowedThread>(new BorrowedThread(std::move(state)));
  State& s = *borrowed->state_;
  if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return TraceFailed("stop it");
  for (int status = 0; true;) {
    if (!AwaitStop(thread, &status, patience_ms)) return absl::AbortedError("cannot be stopped now");
    const absl::StatusOr<bool> stopped = s.Classify(status, State::Until::kStop);
    if (!stopped.ok()) return stopped.status();
    if (*stopped) break;
    ptrace(PTRACE_CONT, thread, nullptr, std::exchange(s.pending_signal, 0));
  }
  if (const absl::Status status = s.ReadAll(); !status.ok()) return status;
  return borrowed;
}

BorrowedThread::BorrowedThread(std::unique_ptr<State> state) : state_(std::move(state)) {}
BorrowedThread::~BorrowedThread() { state_->LetGo(); }

uint64_t BorrowedThread::pc() const { return state_->registers.rip; }
uint64_t BorrowedThread::sp() const { return state_->registers.rsp; }
uint64_t BorrowedThread::thread_pointer() const { return state_->registers.fs_base; }
std::optional<BlockedCall> BorrowedThread::call() const {
  const BlockedCall call = CallIn(state_->registers);
  return call.number < 0 ? std::nullopt : std::optional(call);
}
bool BorrowedThread::is_call_lost() const { return IsCallOfStoppedLost(state_->thread); }

std::string BorrowedThread::WhyNotNow() const {
  const State& s = *state_;
  uint64_t in_use = 0;
  memcpy(&in_use, s.vectors.data() + kHeaderAt, sizeof in_use);
  if ((in_use & kTileData) != 0) return "uses the processor's tiles (AMX)";
  if (s.registers.cs != 0x33) return "runs 32-bit code";
  unsigned char call[2] = {};
  if (s.IsToBeRestarted() && (!s.Read(s.registers.rip - 2, call, 2) || call[0] != 0x0f || call[1] != 0x05))
    return "is in a system call of another kind";
  constexpr auto kGetRseq = static_cast<__ptrace_request>(0x420f);
  struct {
    uint64_t address;
    uint32_t size, signature, flags, padding;
  } rseq{};
  uint64_t sequence = 0;
  if (ptrace(kGetRseq, s.thread, sizeof rseq, &rseq) > 0 && rseq.address != 0 &&
      s.Read(rseq.address + 8, &sequence, sizeof sequence) && sequence != 0)
    return "is in a restartable sequence";
  return "";
}

bool BorrowedThread::HasUserDispatch() const {
  // Since Linux 6.4.
  constexpr auto kGetUserDispatch = static_cast<__ptrace_request>(0x4211);
  struct {
    uint64_t mode, selector, offset, length;
  } config{};
  return ptrace(kGetUserDispatch, state_->thread, sizeof config, &config) == 0 && config.mode != 0;
}

absl::StatusOr<LibraryAnswer> BorrowedThread::Call(const CodeAddresses& code, const LibraryCall& call) {
  State& s = *state_;
  const uint64_t own_frame = s.OwnFrame();
  const std::vector<unsigned char> frame = s.FrameAt(own_frame, code.return_from_signal);
  if (own_frame + frame.size() > s.registers.rsp - kRedZone)
    return absl::UnavailableError("its vector registers need more stack than there is");
  if (!s.Write(own_frame, frame.data(), frame.size())) return TraceFailed("write to its stack");

  // The thread now ends in its frame if we are killed, and in Restore otherwise.
  const auto fail = [&](absl::Status status) {
    if (!s.is_gone) s.Restore().IgnoreError();
    return status;
  };
  const uint64_t mapped_bytes = kDataBytes + (call.image.size() + 4095) / 4096 * 4096 + kCallStackBytes;
  const absl::StatusOr<uint64_t> page = s.Map(code, kCodePageBytes, PROT_READ | PROT_EXEC, "code");
  if (!page.ok()) return fail(page.status());
  const absl::StatusOr<uint64_t> data = s.Map(code, mapped_bytes, PROT_READ | PROT_WRITE, "a stack");
  const auto unmap = [&] {
    if (data.ok()) s.MakeCall(code, SYS_munmap, {*data, mapped_bytes}).IgnoreError();
    s.MakeCall(code, SYS_munmap, {*page, kCodePageBytes}).IgnoreError();
  };
  if (!data.ok()) {
    unmap();
    return fail(data.status());
  }
  // The memory: what the call needs, then the stack.
  std::vector<unsigned char> bytes(sizeof(CallBlock));
  const auto add = [&](const void* from, size_t count) {
    bytes.resize((bytes.size() + 63) & ~size_t{63});
    const uint64_t at = *data + bytes.size();
    bytes.insert(bytes.end(), static_cast<const unsigned char*>(from), static_cast<const unsigned char*>(from) + count);
    return at;
  };
  CallBlock block{};
  block.errno_location = code.errno_location, block.dlopen = code.dlopen, block.dlsym = code.dlsym;
  block.dlerror = code.dlerror;
  block.linker_locks[0] = code.linker_locks[0], block.linker_locks[1] = code.linker_locks[1];
  block.trylock = code.trylock;
  // A loaded library is called as it is.
  if (code.attach != 0) block.handle = code.attach, block.function = code.attach;
  const std::string path(call.image.empty() ? call.library : kMemoryFilePath);
  block.path = add(path.c_str(), path.size() + 1);
  block.path_end = block.path + path.size();
  block.memory_name = add(kMemoryFileName, sizeof kMemoryFileName);
  block.image = *data + kDataBytes, block.image_bytes = call.image.size();
  block.name = add(kAttachFunction, sizeof kAttachFunction);
  std::vector<uint64_t> variables;
  for (const std::string& variable : call.variables) variables.push_back(add(variable.c_str(), variable.size() + 1));
  variables.push_back(0);
  const uint64_t list = add(variables.data(), variables.size() * sizeof variables[0]);
  AttachCall request{};
  request.action = call.action;
  request.variables = reinterpret_cast<const char* const*>(list);
  request.out_id = call.out_id;
  request.unlock = code.unlock;
  if (code.linker_locks[0] != 0) request.trylock = code.trylock;
  request.linker_locks[0] = code.linker_locks[0], request.linker_locks[1] = code.linker_locks[1];
  // A newer library may know more fields.
  std::vector<unsigned char> request_bytes(sizeof request + kLaterFieldBytes);
  memcpy(request_bytes.data(), &request, sizeof request);
  block.call = add(request_bytes.data(), request_bytes.size());
  // Below the frame, where the stack is not in use.
  const uint64_t end_at = own_frame - kEndBytes, done_at = end_at + offsetof(CallEnd, done);
  block.block_copy = end_at + sizeof(CallEnd);
  block.call_copy = block.block_copy + sizeof(CallBlock);
  block.call_bytes = sizeof(AttachCall);
  block.library_end = block.call + offsetof(AttachCall, end);
  block.call_end = end_at;
  static_assert(sizeof(CallEnd) + sizeof(CallBlock) + sizeof(AttachCall) <= kEndBytes);
  // The library reads the clock without a system call.
  block.asks_time = call.action == AttachAction::kAttach ? 1 : 0;
  block.all_signals = ~uint64_t{0};
  block.dlerror_from_errno = code.dlerror_from_errno;
  block.patience = {kTracerPatienceNs / 1'000'000'000, kTracerPatienceNs % 1'000'000'000};
  bytes.resize((bytes.size() + 63) & ~size_t{63});
  block.frame = *data + bytes.size();
  const std::vector<unsigned char> second = s.FrameAt(block.frame, code.return_from_signal);
  add(second.data(), second.size());
  memcpy(bytes.data(), &block, sizeof block);
  if (bytes.size() > kDataBytes) {
    unmap();
    return fail(absl::InvalidArgumentError("the options are longer than 48 KiB"));
  }
  const auto code_bytes = static_cast<size_t>(holdfast_borrowed_code_end - holdfast_borrowed_code);
  CallEnd call_end{};
  call_end.memory[0] = {*data, mapped_bytes};
  call_end.memory[1] = {*page, kCodePageBytes};
  call_end.patience = {kTracerPatienceNs / 1'000'000'000, kTracerPatienceNs % 1'000'000'000};
  call_end.frame = own_frame;
  if (!s.Write(*data, bytes.data(), bytes.size()) || !s.Write(end_at, &call_end, sizeof call_end) ||
      !s.Write(block.image, call.image.data(), call.image.size()) ||
      !s.WriteCode(*page, holdfast_borrowed_code, code_bytes)) {
    const absl::Status status = TraceFailed("write to its memory");
    unmap();
    return fail(status);
  }

  user_regs_struct calling = s.registers;
  calling.rip = *page;
  calling.rsp = *data + mapped_bytes;
  calling.rbx = *data;
  calling.rbp = 0;
  calling.eflags &= ~uint64_t{0x500};  // direction and trap
  calling.orig_rax = static_cast<uint64_t>(-1);
  if (call.begun_at != nullptr) *call.begun_at = *data + offsetof(CallBlock, begun);
  if (call.done_at != nullptr) *call.done_at = done_at;
  if (!s.SetRegisters(calling) || !s.SetMask(kBlockedInCall) ||
      ptrace(PTRACE_CONT, s.thread, nullptr, std::exchange(s.pending_signal, 0)) != 0) {
    const absl::Status status = TraceFailed("start the call");
    if (call.done_at != nullptr) *call.done_at = 0;
    unmap();
    return fail(status);
  }

  const int64_t begun = NowNs() / 1'000'000, end = begun + kCallPatienceMs;
  int64_t next_look = begun + kLookPatienceMs;
  std::string frozen;
  while (true) {
    int status = 0;
    const pid_t got = AwaitTraced(s.thread, &status, WNOHANG);
    if (got < 0 && errno == ECHILD) {
      s.is_gone = true;
      return absl::NotFoundError("it has executed another program meanwhile");
    }
    if (got == s.thread) {
      const absl::StatusOr<bool> stopped = s.Classify(status, State::Until::kStop);
      if (!stopped.ok()) return stopped.status();
      ptrace(PTRACE_CONT, s.thread, nullptr, std::exchange(s.pending_signal, 0));
      continue;
    }
    uint64_t done = 0;
    if (s.Read(done_at, &done, sizeof done) && done != 0) {
      if (call.done_at != nullptr) *call.done_at = kCallHasEnded;
      break;
    }
    const int64_t now = NowNs() / 1'000'000;
    if (now > next_look) {
      frozen = WhyFrozen(s.pid);
      next_look = now + kLookPatienceMs;
    }
    if (now > end || !frozen.empty()) {
      // Another thread has a lock of the dynamic linker, or nobody runs. This one finishes the call and continues by itself.
      s.StopFrozen();
      return absl::DeadlineExceededError(
          frozen.empty()
              ? "a thread waits for the dynamic linker, which another thread uses; the call completes as soon as "
                "that is over"
              : frozen + " since the call began; the call completes as soon as it is thawed");
    }
    constexpr timespec kPause = {0, 100'000};
    nanosleep(&kPause, nullptr);
  }
  ptrace(PTRACE_INTERRUPT, s.thread, nullptr, nullptr);
  while (true) {
    const absl::StatusOr<bool> stopped = s.Await(State::Until::kStop);
    // Frozen after the call: it continues by itself later, and the answer is there.
    if (absl::IsDeadlineExceeded(stopped.status())) break;
    if (!stopped.ok()) return stopped.status();
    if (*stopped) break;
    ptrace(PTRACE_CONT, s.thread, nullptr, std::exchange(s.pending_signal, 0));
  }

  AttachCall answered{};
  std::string error;
  s.Read(block.call_copy, &answered, sizeof answered);
  const CallBlock sent = block;
  s.Read(block.block_copy, &block, sizeof block);
  const bool is_intact = block.errno_location == sent.errno_location && block.call_copy == sent.call_copy &&
                         block.trylock == sent.trylock && answered.action == request.action &&
                         answered.variables == request.variables &&
                         memcmp(answered.linker_locks, request.linker_locks, sizeof answered.linker_locks) == 0;
  for (char c = 0; block.error != 0 && error.size() < 1000 && s.Read(block.error + error.size(), &c, 1) && c != 0;)
    error += c;
  user_regs_struct now{};
  // Fails if the thread could not be stopped.
  if (ptrace(PTRACE_GETREGS, s.thread, nullptr, &now) != 0) now = {};
  // Otherwise the thread waited for us in vain and has continued, or will.
  if (now.rbx == end_at) {
    s.Restore(true).IgnoreError();
  } else if (now.rip >= *page && now.rip < *page + kCodePageBytes) {  // no library that unmaps
    unmap();
    if (!s.is_gone) s.Restore().IgnoreError();
  }
  // If the thread waited for us in vain, the program may have used the stack with the answer since.
  if (!is_intact) {
    return absl::InternalError(
        "its thread continued before the answer was read, because holdfast did not run for 2 s. holdfast ls tells whether it is "
        "attached, and holdfast detach undoes it");
  }
  if (block.time == PR_TSC_SIGSEGV)
    return absl::FailedPreconditionError("may not read the time (PR_SET_TSC). Start it with holdfast run");
  if (block.is_program_busy != 0) return LibraryAnswer{.result = AttachResult::kThreadIsBusy, .is_program_busy = true};
  if (block.memory_error != 0) {
    return absl::UnavailableError(
        fmt::format("it may not make a file in memory ({})", strerror(static_cast<int>(-block.memory_error))));
  }
  if (block.handle == 0) return absl::UnavailableError(error.empty() ? "the library cannot be loaded" : error);
  if (block.function == 0) return absl::UnavailableError("the loaded library is of another version of holdfast");
  return LibraryAnswer{.result = answered.result,
                       .redirected = answered.redirected,
                       .refused = answered.refused,
                       .unreadable = answered.unreadable,
                       .patches = reinterpret_cast<uint64_t>(answered.patches),
                       .patch_count = answered.patch_count,
                       .entries = answered.entries,
                       .is_program_busy = answered.is_program_busy != 0};
}

#else

struct BorrowedThread::State {};
absl::StatusOr<std::unique_ptr<BorrowedThread>> BorrowedThread::Stop(pid_t, pid_t, int) {
  return absl::UnimplementedError("only possible on x86-64");
}
BorrowedThread::BorrowedThread(std::unique_ptr<State> state) : state_(std::move(state)) {}
BorrowedThread::~BorrowedThread() = default;
uint64_t BorrowedThread::pc() const { return 0; }
uint64_t BorrowedThread::sp() const { return 0; }
uint64_t BorrowedThread::thread_pointer() const { return 0; }
std::optional<BlockedCall> BorrowedThread::call() const { return std::nullopt; }
bool BorrowedThread::is_call_lost() const { return false; }
std::string BorrowedThread::WhyNotNow() const { return ""; }
bool BorrowedThread::HasUserDispatch() const { return false; }
absl::StatusOr<LibraryAnswer> BorrowedThread::Call(const CodeAddresses&, const LibraryCall&) {
  return absl::UnimplementedError("only possible on x86-64");
}

#endif

}  // namespace holdfast
