#include "sampler/process/cpu_timers.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/utsname.h>

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "sampler/arch/call_on_stack.h"
#include "sampler/capture/added_code.h"
#include "sampler/capture/little_stack.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/mapped_ranges.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/process/interrupted_call.h"
#include "sampler/process/process.h"
#include "sampler/table/live_threads.h"

namespace holdfast {

constinit std::atomic<uint8_t> cpu_changes{0};
constinit std::atomic<uint32_t> cpu_applied{1};

namespace {

constinit CpuSampler sampler = nullptr;
constinit std::atomic<uint64_t> interval_ns{0};  // in force; 0: no timers
constinit std::atomic<CpuState> state{CpuState::kOff};
constinit std::atomic<uint32_t> in_handler{0};
constinit std::atomic<uint64_t> left_out{0};  // threads without a timer, not yet in the table

// ---- The handler ----

// As the kernel has it.
struct KernelAction {
  uintptr_t handler;
  uint64_t flags;
  uintptr_t restorer;
  uint64_t mask;
};
constexpr uint64_t kRestorerFlag = 0x04000000;
constexpr uint64_t kMaskBytes = 8;

// The handler that was there before ours, or that glibc installed since. It never changes again.
constinit std::atomic<uintptr_t> previous{0};
constinit std::atomic<uint64_t> previous_mask{0};
constinit std::atomic<uint64_t> previous_flags{0};

// The stack that the kernel needs for a signal, mostly for the processor's registers: from the interrupted code's stack pointer on.
// Measured when the handler is installed. Before that: as with AVX-512.
constinit std::atomic<uint64_t> frame_bytes{3584};
constexpr uintptr_t kLargestFrame = 64 << 10;

// The owner's id, and from bit 32 on 1 + the timer's number; 0: free. Without a number: being made. kByOther: made by
// another thread, which cannot know whether the owner has thread-local memory of libc.
using Slot = std::atomic<uint64_t>;
extern Slot slots[];
bool IsOurs(const void* value);
void Sample(const siginfo_t& info, const ucontext_t& context);
void StopForProgramsTimer(const siginfo_t& info);

// The kernel checks all CPU timers at the same tick, so SIGPROF of setitimer often is pending together with our signal. If
// our action blocked it, the kernel would give it to another thread: its call would fail with EINTR.
constexpr uint64_t BitOf(int signal) { return uint64_t{1} << (signal - 1); }
constexpr uint64_t kOfTimers = BitOf(SIGPROF) | BitOf(SIGVTALRM) | BitOf(SIGXCPU);

// Set once the program has made a timer on a CPU clock by timer_create that sends the process a signal. It may be gone.
constinit std::atomic<bool> program_made_timer{false};

// Whether the program has a CPU timer by setitimer (gprof, a profiler, a watchdog), which takes its samples in code of
// ours if ours are taken at the same tick.
bool HasProgramsTimer() {
  uint64_t words[4] = {};
  for (const int which : {ITIMER_PROF, ITIMER_VIRTUAL}) {
    if (!SyscallFailed(RawSyscall(SYS_getitimer, which, words)) && (words[0] | words[1] | words[2] | words[3]) != 0)
      return true;
  }
  return false;
}

bool SetAction(int number, const KernelAction* action, KernelAction* before) {
  return !SyscallFailed(RawSyscall(SYS_rt_sigaction, number, action, before, kMaskBytes));
}

uint64_t MaskOf(const ucontext_t& context) {
  uint64_t mask = 0;
  __builtin_memcpy(&mask, &context.uc_sigmask, sizeof mask);
  return mask;
}

// A signal that no timer of ours sent: pthread_cancel's. glibc's handler may unwind the whole stack, and runs cleanup
// handlers of the program, so it gets the signal mask that it would have without us.
void PassOn(int number, siginfo_t* info, ucontext_t* context) {
  // Another thread has just installed our handler, and is about to store the one before.
  if (info->si_code == SI_TKILL) AwaitBounded(100, [] { return previous.load(std::memory_order_acquire) != 0; });
  const uintptr_t handler = previous.load(std::memory_order_acquire);
  if (handler == reinterpret_cast<uintptr_t>(SIG_IGN)) return;
  if (handler == reinterpret_cast<uintptr_t>(SIG_DFL)) {
    // Ends the process, as it would without us, once this handler has returned.
    const KernelAction none = {};
    SetAction(number, &none, nullptr);
    RawSyscall(SYS_tgkill, RawSyscall(SYS_getpid), RawSyscall(SYS_gettid), number);
    return;
  }
  const uint64_t mask = MaskOf(*context) | previous_mask.load(std::memory_order_relaxed) | AlternateStackMask::kBit;
  RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, kMaskBytes);
  if ((previous_flags.load(std::memory_order_relaxed) & SA_SIGINFO) != 0) {
    reinterpret_cast<void (*)(int, siginfo_t*, void*)>(handler)(number, info, context);
  } else {
    reinterpret_cast<void (*)(int)>(handler)(number);
  }
}

void OnSignal(int number, siginfo_t* info, void* given) {
  auto* context = static_cast<ucontext_t*>(given);
  if (UNLIKELY(info->si_code != SI_TIMER) || UNLIKELY(!IsOurs(info->si_value.sival_ptr)))
    return PassOn(number, info, context);
  // It was pending while a filter was installed, which may forbid whatever follows.
  if (UNLIKELY(no_system_calls.load(std::memory_order_acquire))) return;
  // Sequentially consistent, like the end of all timers: either EndCpuTimers sees this handler, or it sees the end.
  in_handler.fetch_add(1);
  constexpr uint64_t kAll = ~uint64_t{0};
  RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &kAll, nullptr, kMaskBytes);
  if (UNLIKELY(info->si_value.sival_ptr == slots)) {
    const auto sp = *reinterpret_cast<const uintptr_t*>(static_cast<const char*>(given) + kSignalSpOffset);
    const uintptr_t here = reinterpret_cast<uintptr_t>(given), bytes = sp - here;
    if (sp > here && bytes < kLargestFrame) frame_bytes.store(bytes, std::memory_order_relaxed);
  } else if (UNLIKELY(HasProgramsTimer())) {
    StopForProgramsTimer(*info);
  } else if (interval_ns.load() != 0) {
    Sample(*info, *context);
  }
  const uint64_t temporary = RepairInterruptedCall(context);
  in_handler.fetch_sub(1, std::memory_order_release);
  // Last: handlers of the program run in this call, and may jump out of it.
  if (UNLIKELY(temporary != kAllSignals)) {
    const uint64_t mask = temporary | AlternateStackMask::kBit;
    RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, kMaskBytes);
  }
}

void StorePrevious(const KernelAction& action) {
  previous_mask.store(action.mask, std::memory_order_relaxed);
  previous_flags.store(action.flags, std::memory_order_relaxed);
  previous.store(action.handler, std::memory_order_release);
}

// Go's threads run on small stacks, and each has a large alternate one. Go's runtime installs this handler for itself.
bool IsGo() {
  KernelAction urgent{};
  return SetAction(SIGURG, nullptr, &urgent) && urgent.handler > 1 && (urgent.flags & SA_ONSTACK) != 0;
}

// Installs our handler, unless it is there. The one before is stored first, because a signal may come at once.
bool InstallHandler() {
  const auto ours = reinterpret_cast<uintptr_t>(&OnSignal);
  KernelAction before{};
  if (!SetAction(kCpuSignal, nullptr, &before)) return false;
  if (before.handler == ours) return true;
  if (before.handler != 0) StorePrevious(before);
  // All signals wait: the handler needs no second frame of theirs, and none of theirs jumps out of it. See kOfTimers for
  // those that wait only from the handler's first call on.
  const KernelAction action = {ours, SA_SIGINFO | SA_RESTART | kRestorerFlag | (IsGo() ? uint64_t{SA_ONSTACK} : 0),
                               reinterpret_cast<uintptr_t>(&HoldfastSignalReturn), ~kOfTimers};
  KernelAction replaced{};
  if (!SetAction(kCpuSignal, &action, &replaced)) return false;
  // glibc has installed its own in between.
  if (replaced.handler != before.handler && replaced.handler != ours && replaced.handler != 0) StorePrevious(replaced);
  return true;
}

// Sends this thread the signal that measures its frame. It arrives when the signals are allowed again.
void MeasureFrame() {
  struct {
    int signal, error, code, unused, timer, overrun;
    void* value;
    char rest[128 - 32];
  } info{};
  static_assert(sizeof info == sizeof(siginfo_t));
  info.signal = kCpuSignal;
  info.code = SI_TIMER;
  info.value = slots;
  RawSyscall(SYS_rt_tgsigqueueinfo, RawSyscall(SYS_getpid), RawSyscall(SYS_gettid), kCpuSignal, &info);
}

// Handlers that were installed for alternate stacks before.
void MaskInHandlers() {
  if (IsGo()) return;
  for (int signal = 1; signal <= 64; ++signal) {
    KernelAction now{};
    if (signal == kCpuSignal || signal == kCpuSignal + 1 || !SetAction(signal, nullptr, &now)) continue;
    // Another thread may change it meanwhile: then its change is put back, with the bit.
    for (int i = 0; i < 4; ++i) {
      if (now.handler <= 1) break;
      KernelAction with = now, replaced{};
      with.mask = AlternateStackMask::ForKernel(signal, static_cast<int>(now.flags), now.mask);
      if (with.mask == now.mask) break;
      if (!SetAction(signal, &with, &replaced) ||
          (replaced.handler == now.handler && replaced.flags == now.flags && replaced.mask == now.mask))
        break;
      now = replaced;
    }
  }
}

// ---- The timers ----

constexpr uint64_t kByOther = uint64_t{1} << 63;
constexpr int kNumberShift = 32;
// The process ends, and a thread is about to report the owner's rest. There is no timer any more.
constexpr uint64_t kIsEnding = uint64_t{1} << 62;
constexpr uint32_t kSlots = 8192, kProbes = 64;
// 64 KiB of zeros, touched only as used. The first one is nobody's: a signal with its address measures the frame.
constinit Slot slots[kSlots] = {};
// When each timer's first signal is due, by the CPU clock of its thread; the intervals reported so far, and their length.
// The thread itself or one that ends the process reads it while another one changes it.
struct Progress {
  std::atomic<uint64_t> first_ns, reported, every_ns;
};
constexpr uint64_t kNothingDue = UINT64_MAX;  // first_ns, while the rest changes
constinit Progress progress[kSlots] = {};
constinit std::atomic<uint32_t> timer_count{0};

// Taken while timers are made or changed; the end of a thread takes away its own timer without it.
constinit std::atomic<bool> busy{false};
// Used only by its owner.
constinit uint32_t next_check = 1;    // timer_count at which the limit is read again
constinit int64_t last_sweep_ns = 0;  // when timers of threads that are gone were searched for
constinit char status[4096] = {};
constinit bool handlers_are_masked = false;

// A thread with less left than this much has no timer: the kernel needs up to 4 KiB for a signal, we as much.
constexpr uintptr_t kStackForTimer = 16 << 10;
// The least stack of a thread for which another one makes the timer. glibc's default is 8 MiB; Go's threads have 64 KiB and
// more.
constexpr uint64_t kStackForTimerOfOthers = 64 << 10;
constexpr int64_t kSweepEveryNs = 100'000'000;

bool IsOurs(const void* value) {
  const auto at = reinterpret_cast<uintptr_t>(value), begin = reinterpret_cast<uintptr_t>(slots);
  return at - begin < sizeof slots;
}

uint32_t OwnerOf(uint64_t slot) { return static_cast<uint32_t>(slot); }
long NumberOf(uint64_t slot) { return static_cast<long>((slot & ~(kByOther | kIsEnding)) >> kNumberShift) - 1; }

// False: somebody else has. The slot is free then, or has `after`.
bool Delete(Slot* slot, uint64_t value, uint64_t after = 0) {
  if (NumberOf(value) < 0 || !slot->compare_exchange_strong(value, after, std::memory_order_acq_rel)) return false;
  RawSyscall(SYS_timer_delete, NumberOf(value));
  timer_count.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

template <typename Function>
void ForEachTimer(Function function) {
  for (Slot& slot : slots) {
    const uint64_t value = slot.load(std::memory_order_acquire);
    if (NumberOf(value) >= 0) function(&slot, value);
  }
}

bool IsGone(uint32_t id) { return RawSyscall(SYS_tgkill, process.pid, static_cast<int>(id), 0) == -ESRCH; }

// Threads that were cancelled, or ended by a system call, leave their timers.
bool Sweep() {
  const int64_t now = KernelNs();
  if (now - last_sweep_ns < kSweepEveryNs) return false;
  last_sweep_ns = now;
  const uint32_t before = timer_count.load(std::memory_order_relaxed);
  ForEachTimer([](Slot* slot, uint64_t value) {
    if (IsGone(OwnerOf(value))) Delete(slot, value);
  });
  return timer_count.load(std::memory_order_relaxed) < before;
}

uint64_t NumberAt(const char* text) {
  uint64_t number = 0;
  for (; *text >= '0' && *text <= '9'; ++text) number = number * 10 + static_cast<uint64_t>(*text - '0');
  return number;
}

// Each timer takes one of the signals that the user may have pending in all processes (RLIMIT_SIGPENDING).
bool IsBelowQuarter() {
  constexpr uint32_t kUnseen = 64;  // timers
  next_check = std::min(next_check, timer_count.load(std::memory_order_relaxed) + kUnseen);
  if (timer_count.load(std::memory_order_relaxed) < next_check) return true;
  uint64_t used = timer_count.load(std::memory_order_relaxed), limit = 0;
  const char* found = nullptr;
  if (ReadSmallFile("/proc/self/status", status, sizeof status) > 0) {
    for (const char* at = status; *at != '\0' && found == nullptr; ++at) {
      if (TextStartsWith(at, "\nSigQ:\t")) found = at + 7;
    }
  }
  if (found != nullptr) {
    used = NumberAt(found);
    while (*found >= '0' && *found <= '9') ++found;
    limit = *found == '/' ? NumberAt(found + 1) : 0;
  } else {
    uint64_t limits[2] = {};
    constexpr int kSigPending = 11;
    if (!SyscallFailed(RawSyscall(SYS_prlimit64, 0, kSigPending, nullptr, limits))) limit = limits[0];
  }
  if (used >= limit / 4) return false;
  // Other processes take theirs, too: half of what is left may be taken unseen, but not more than kUnseen.
  const uint64_t left = (limit / 4 - used + 1) / 2;
  next_check = timer_count.load(std::memory_order_relaxed) + static_cast<uint32_t>(left < kUnseen ? left : kUnseen);
  return true;
}

void LeaveOut() {
  if (SharedTable* table = CurrentTable()) {
    table->header()->losses[static_cast<int>(Loss::kCpuTimersFull)].fetch_add(
        left_out.exchange(0, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  } else {
    left_out.fetch_add(1, std::memory_order_relaxed);
  }
}

// The CPU clock of a thread: its complement, and the bits of a thread's clock of exact run time.
int ClockOf(uint32_t id) { return static_cast<int>(~id << 3) | 6; }
uint64_t CpuNs(uint32_t id) {
  timespec now{};
  return SyscallFailed(RawSyscall(SYS_clock_gettime, ClockOf(id), &now)) ? 0 : static_cast<uint64_t>(NsOf(now));
}

timespec TimeOf(uint64_t ns) { return {static_cast<time_t>(ns / kNsOfSecond), static_cast<long>(ns % kNsOfSecond)}; }

// The intervals that the thread has used and no signal has reported. Its first one ends at a random moment, so this is right
// on average.
struct Rest {
  uint64_t intervals, every_ns;
};
Rest RestOf(const Slot* slot, uint32_t id) {
  const Progress& of = progress[slot - slots];
  const uint64_t now_ns = CpuNs(id), first_ns = of.first_ns.load(std::memory_order_acquire);
  const uint64_t reported = of.reported.load(std::memory_order_relaxed);
  const uint64_t every_ns = of.every_ns.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (of.first_ns.load(std::memory_order_relaxed) != first_ns || now_ns < first_ns || every_ns == 0) return {0, 0};
  const uint64_t due = 1 + (now_ns - first_ns) / every_ns;
  return {due > reported ? due - reported : 0, every_ns};
}

// Starts or changes a timer. False: there is no such timer, or its thread is gone.
bool SetTimer(Slot* slot, uint64_t value, uint64_t every_ns) {
  const uint32_t id = OwnerOf(value);
  // Its first signal comes at a random moment of its first interval: so threads that end sooner have their share.
  uint64_t random = (static_cast<uint64_t>(KernelNs()) ^ process.seed) + uint64_t{id} * 0x9e3779b97f4a7c15;
  random = (random ^ random >> 30) * 0xbf58476d1ce4e5b9;
  random ^= random >> 31;
  const uint64_t first_ns = 1 + random % every_ns;
  const timespec times[2] = {TimeOf(every_ns), TimeOf(first_ns)};
  Progress& of = progress[slot - slots];
  of.first_ns.store(kNothingDue, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  of.reported.store(0, std::memory_order_relaxed);
  of.every_ns.store(every_ns, std::memory_order_relaxed);
  const uint64_t used_ns = CpuNs(id);
  const bool is_set = !SyscallFailed(RawSyscall(SYS_timer_settime, NumberOf(value), 0, &times, nullptr));
  of.first_ns.store(used_ns + first_ns, std::memory_order_release);
  return is_set;
}

// Makes a timer for the thread. −errno; 0: done, or not wanted any more.
long MakeTimer(Slot* slot, uint32_t id, bool by_other, uint64_t every_ns) {
  struct {
    void* value;
    int signal, notify, thread;
    char rest[64 - 20];
  } event{};
  event.value = slot;
  event.signal = kCpuSignal;
  event.notify = 4;  // SIGEV_THREAD_ID
  event.thread = static_cast<int>(id);
  int number = -1;
  const long result = RawSyscall(SYS_timer_create, ClockOf(id), &event, &number);
  if (SyscallFailed(result)) return result;
  timer_count.fetch_add(1, std::memory_order_relaxed);
  const uint64_t value = uint64_t{id} | (static_cast<uint64_t>(number) + 1) << kNumberShift | (by_other ? kByOther : 0);
  slot->store(value, std::memory_order_release);
  // Whoever ends all timers may have waited for `busy` in vain, and has not seen this one.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool has_ended = interval_ns.load(std::memory_order_relaxed) == 0;
  if (!has_ended && SetTimer(slot, value, every_ns)) return 0;
  Delete(slot, value);
  return has_ended ? 0 : -ESRCH;
}

// Returns the thread's slot, or a free one that is then its own; null: none.
Slot* SlotOf(uint32_t id, bool take) {
  Slot* free = nullptr;
  for (uint32_t i = 0; i < kProbes; ++i) {
    Slot* slot = &slots[1 + (id + i) % (kSlots - 1)];
    const uint64_t value = slot->load(std::memory_order_acquire);
    if (OwnerOf(value) == id) return slot;
    if (value == 0 && free == nullptr) free = slot;
  }
  uint64_t none = 0;
  return take && free != nullptr && free->compare_exchange_strong(none, uint64_t{id}) ? free : nullptr;
}

// Gives the thread a timer, or its timer the interval in force. Called by the owner of `busy`.
long GiveTimer(uint32_t id, bool by_other, uint64_t every_ns) {
  Slot* slot = SlotOf(id, true);
  if (slot == nullptr && Sweep()) slot = SlotOf(id, true);
  if (slot == nullptr) return -EAGAIN;
  const uint64_t value = slot->load(std::memory_order_acquire);
  if (NumberOf(value) >= 0) {
    if (SetTimer(slot, value, every_ns)) return 0;
    // The timer is that of an earlier thread with this id.
    Delete(slot, value);
    uint64_t none = 0;
    if (!slot->compare_exchange_strong(none, uint64_t{id})) return -EAGAIN;
  }
  if ((value & kIsEnding) != 0) return 0;
  long result = -EAGAIN;
  if (IsBelowQuarter() || (Sweep() && IsBelowQuarter())) result = MakeTimer(slot, id, by_other, every_ns);
  if (result != 0) {
    uint64_t own = id;
    slot->compare_exchange_strong(own, 0, std::memory_order_acq_rel);
  }
  return result;
}

// A thread for which another one made the timer: whether its thread pointer is libc's, and ours may be used.
bool HasThreadMemory() {
  const uintptr_t pointer = ThreadPointerFromKernel();
  if (pointer < kPageBytes || pointer >= kUserEnd) return false;
  // The probe of raw_memory.cc, which counts in thread-local memory.
  if (RawSyscall(SYS_rt_sigprocmask, -1L, pointer, 0L, 8L) != -EINVAL) return false;
  return *reinterpret_cast<const uintptr_t*>(pointer) == pointer;
}

// Stacks for samples: a coroutine may have room for a signal and not for more. A sample takes 3 KiB, 6 if it makes the
// table. If all are in use, the sample is taken on the interrupted stack. 256 KiB of zeros, touched only as used.
constexpr int kStacks = 16;
constexpr size_t kStackBytes = 16 << 10;
alignas(64) constinit char stacks[kStacks][kStackBytes] = {};
constinit std::atomic<uint32_t> stacks_taken{0};

int TakeStack() {
  uint32_t now = stacks_taken.load(std::memory_order_relaxed);
  for (int free = std::countr_one(now); free < kStacks; free = std::countr_one(now)) {
    // Acquire: its last user has left it.
    if (stacks_taken.compare_exchange_weak(now, now | 1u << free, std::memory_order_acquire)) return free;
  }
  return -1;
}

void SampleOnOwnStack(const CpuTick& tick) {
  const int stack = TakeStack();
  if (stack < 0) return sampler(tick);
  const auto take = [](void* given) { sampler(*static_cast<const CpuTick*>(given)); };
  HoldfastCallOnStack(take, const_cast<CpuTick*>(&tick), stacks[stack] + kStackBytes);
  stacks_taken.fetch_and(~(1u << stack), std::memory_order_release);
}

void Sample(const siginfo_t& info, const ucontext_t& context) {
  auto* slot = static_cast<Slot*>(info.si_value.sival_ptr);
  uint64_t value = slot->load(std::memory_order_acquire);
  // A late signal of a timer that is gone; the slot may be another thread's by now.
  if (UNLIKELY(OwnerOf(value) != static_cast<uint32_t>(RawSyscall(SYS_gettid))) || UNLIKELY((value & kIsEnding) != 0))
    return;
  // The program has made itself a small alternate stack by a system call of its own. Without one the size is 0, and the
  // flags are not defined.
  if (UNLIKELY((context.uc_stack.ss_flags & SS_DISABLE) == 0) && !MayHaveTimer(context.uc_stack.ss_size)) {
    Delete(slot, value);
    return LeaveOut();
  }
  if (UNLIKELY((value & kByOther) != 0)) {
    if (!HasThreadMemory()) {
      Delete(slot, value);
      return;
    }
    if (LittleStackLeft(kStackForTimer)) {
      Delete(slot, value);
      return LeaveOut();
    }
    slot->compare_exchange_strong(value, value & ~kByOther, std::memory_order_acq_rel);
  }
  const auto* registers = reinterpret_cast<const char*>(&context);
  const auto word = [registers](int64_t offset) { return *reinterpret_cast<const uintptr_t*>(registers + offset); };
  CallerRegisters at = {word(kSignalPcOffset) + 1, word(kSignalSpOffset), word(kSignalFpOffset)};
  const uintptr_t sp = at.sp;
  LeaveAddedCode(&at);
  const uint64_t missed = info.si_overrun > 0 ? static_cast<uint64_t>(info.si_overrun) : 0;
  Progress& of = progress[slot - slots];
  of.reported.fetch_add(1 + missed, std::memory_order_relaxed);
  // The kernel puts the frame right below the interrupted code's stack.
  SampleOnOwnStack({at, 1 + missed, of.every_ns.load(std::memory_order_relaxed),
                    sp - reinterpret_cast<uintptr_t>(&context) > kLargestFrame, 0, 0});
}

// ---- The program's own timers ----

// Of the process or a thread; other negative numbers are clocks of devices.
bool IsCpuClock(int clock) {
  return clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID || (clock < 0 && (clock & 3) != 3);
}

// Whether timer_create has made one. Reads /proc/self/timers, in which a timer has lines such as "notify: signal/pid.4242" and "ClockID: 2"; ours have
// "signal/tid.4242". Without that file, timers that were made count as still there. Called by the owner of `busy`.
bool HasTimerOnCpuClock() {
  if (!program_made_timer.load(std::memory_order_relaxed)) return false;
  const long file = RawSyscall(SYS_openat, AT_FDCWD, "/proc/self/timers", O_RDONLY | O_CLOEXEC, 0);
  if (SyscallFailed(file)) return true;
  constexpr char kSignal[] = "notify: signal/pid", kClock[] = "ClockID: ";
  bool found = false, is_signal = false;
  long kept = 0, got = 0;  // the beginning of a line
  while (!found && (got = RawSyscall(SYS_read, file, status + kept, sizeof status - 1 - kept)) > 0) {
    status[kept + got] = '\0';
    const char* line = status;
    for (const char* at = line; *at != '\0'; ++at) {
      if (*at != '\n') continue;
      if (TextStartsWith(line, "notify: ")) is_signal = TextStartsWith(line, kSignal);
      if (is_signal && TextStartsWith(line, kClock)) {
        const char* number = line + sizeof kClock - 1;
        const bool is_negative = *number == '-';
        const auto size = static_cast<int>(NumberAt(number + is_negative));
        found |= IsCpuClock(is_negative ? -size : size);
      }
      line = at + 1;
    }
    kept = status + kept + got - line;
    __builtin_memmove(status, line, static_cast<size_t>(kept));
  }
  RawSyscall(SYS_close, file);
  return found;
}

// ---- On and off ----

CpuState Decide() {
  if (!kHasCpuSamples) return CpuState::kOtherProcessor;
  if (process.libc != Libc::kGlibc || sampler == nullptr) return CpuState::kOtherLibc;
  if (no_system_calls.load(std::memory_order_relaxed)) return CpuState::kFiltered;
  if (!process.options.cpu_is_forced) {
    if (RawSyscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) != 0) return CpuState::kFiltered;
    utsname system{};
    if (SyscallFailed(RawSyscall(SYS_uname, &system)) || !DefersCpuTimers(system.release)) return CpuState::kOldKernel;
  }
  if (HasProgramsTimer() || HasTimerOnCpuClock()) return CpuState::kProgramsTimer;
  LearnInterruptedCalls();
  if (!InstallHandler()) return CpuState::kRefused;
  if (!handlers_are_masked) {
    MeasureFrame();
    MaskInHandlers();
  }
  handlers_are_masked = true;
  return CpuState::kOn;
}

void Report(CpuState now) {
  state.store(now, std::memory_order_relaxed);
  SharedTable* table = CurrentTable();
  if (table == nullptr) return;
  CpuSampling& shown = table->header()->cpu;
  shown.state.store(now, std::memory_order_relaxed);
  shown.timers.store(timer_count.load(std::memory_order_relaxed), std::memory_order_relaxed);
  shown.applied.store(cpu_applied.load(std::memory_order_relaxed), std::memory_order_release);
}

// In the handler. Each thread deletes its own timer, at its next signal.
void StopForProgramsTimer(const siginfo_t& info) {
  if (interval_ns.exchange(0) != 0) Report(CpuState::kProgramsTimer);
  auto* slot = static_cast<Slot*>(info.si_value.sival_ptr);
  const uint64_t value = slot->load(std::memory_order_acquire);
  if (OwnerOf(value) == static_cast<uint32_t>(RawSyscall(SYS_gettid))) Delete(slot, value);
}

void BumpChanges() {
  // 0 remains "never": a new thread has seen that.
  cpu_changes.store(static_cast<uint8_t>(cpu_changes.load(std::memory_order_relaxed) % 63 + 1),
                    std::memory_order_release);
}

void DeleteAll() {
  ForEachTimer([](Slot* slot, uint64_t value) { Delete(slot, value); });
}

// Applies an interval to the whole process. Called by the owner of `busy`.
void Use(uint64_t wanted_ns) {
  CpuState now = wanted_ns == 0 ? CpuState::kOff : Decide();
  interval_ns.store(now == CpuState::kOn ? wanted_ns : 0);
  if (now == CpuState::kOn || HasCpuTimers()) BumpChanges();
  // Once more: see NoteTimerOfProgram.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (now == CpuState::kOn && HasTimerOnCpuClock()) {
    now = CpuState::kProgramsTimer;
    interval_ns.store(0);
  }
  if (now == CpuState::kOn) {
    ForEachTimer([wanted_ns](Slot* slot, uint64_t value) { SetTimer(slot, value, wanted_ns); });
  } else {
    DeleteAll();
  }
  Report(now);
}

// Threads that libc made, and the main thread: each would make its own timer only at its next slow path.
void GiveTimersToOthers(SharedTable* table) {
  const uint64_t every_ns = interval_ns.load(std::memory_order_relaxed);
  if (every_ns == 0) return;
  GiveTimer(static_cast<uint32_t>(process.pid), true, every_ns);
  const uint32_t threads = LiveThreadSlots(table);
  for (uint32_t i = 0; i < threads; ++i) {
    const uint64_t who = LiveThreadAt(table, i)->who.load(std::memory_order_relaxed);
    const auto id = static_cast<uint32_t>(who);
    if (id == 0) continue;
    // Only the thread itself knows how much stack it has left: one with a small stack, or a stack of the program's own,
    // asks at its next slow path.
    const uint64_t stack_bytes = StackBytes(table->At<Row>(static_cast<Offset>(who >> kNotedRowShift))->size_class);
    const bool may_be_cramped = stack_bytes < kStackForTimerOfOthers;
    if (may_be_cramped ? stack_bytes != 0 : GiveTimer(id, true, every_ns) == -EAGAIN) LeaveOut();
  }
}

// The right to make and change timers. All signals are blocked. Others mostly hold it for some microseconds; a thread that
// waits in vain asks again in its next slow path.
class Busy {
 public:
  explicit Busy(WhileOthersChange what = WhileOthersChange::kWait)
      : held_(what == WhileOthersChange::kWait ? AwaitBounded(100, Take) : Take()) {}
  ~Busy() {
    if (held_) busy.store(false, std::memory_order_release);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  bool held() const { return held_; }

 private:
  static bool Take() { return !busy.exchange(true, std::memory_order_acquire); }
  const bool held_;
};

}  // namespace

void BeginCpuTimers(CpuSampler given) {
  sampler = given;
  if (process.options.cpu_interval_ns == 0 || !process.recording.load(std::memory_order_relaxed)) return;
  {
    const SignalsBlocked blocked;
    const Busy own;
    if (own.held()) Use(process.options.cpu_interval_ns);
  }
  if (!HasCpuTimers()) return;
  // A handler on an alternate stack has it blocked (AlternateStackMask), and may have executed this program. No program
  // can block it through libc.
  RawSyscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &AlternateStackMask::kBit, nullptr, kMaskBytes);
  SeeCpuSlow(thread_state, WhileOthersChange::kWait);
}

void SeeCpuSlow(ThreadState& thread, WhileOthersChange what) {
  if (no_system_calls.load(std::memory_order_relaxed) || InBorrowedMemory()) return;
  const bool is_cramped = LittleStackLeft(kStackForTimer);
  const SignalsBlocked blocked;
  const Busy own(what);
  if (!own.held() || no_system_calls.load(std::memory_order_acquire)) return;
  SharedTable* const table = CurrentTable();
  if (table != nullptr) {
    TableHeader& head = *table->header();
    const uint32_t count = head.cpu.interval_count.load(std::memory_order_acquire);
    if (count != cpu_applied.load(std::memory_order_relaxed)) {
      cpu_applied.store(count, std::memory_order_relaxed);
      Use(head.cpu_intervals[NewestIndex(count)].interval);
      GiveTimersToOthers(table);
      Report(state.load(std::memory_order_relaxed));
    }
  }
  // A thread of libc that waits for this signal itself, for timers that call a function (SIGEV_THREAD); or a handler on an
  // alternate stack, after which the thread asks again.
  if ((blocked.before() & AlternateStackMask::kBit) != 0) return;
  thread.cpu_seen = cpu_changes.load(std::memory_order_relaxed) & 63;
  const uint64_t every_ns = interval_ns.load(std::memory_order_relaxed);
  if (every_ns == 0) return;
  InstallHandler();
  const auto id = static_cast<uint32_t>(RawSyscall(SYS_gettid));
  const Slot* const has = SlotOf(id, false);
  stack_t alternate{};
  const bool has_small = !SyscallFailed(RawSyscall(SYS_sigaltstack, nullptr, &alternate)) &&
                         (alternate.ss_flags & SS_DISABLE) == 0 && !MayHaveTimer(alternate.ss_size);
  if (has_small || (is_cramped && has == nullptr)) return LeaveOut();
  const long result = GiveTimer(id, false, every_ns);
  if (result == -EAGAIN) LeaveOut();
  if (result != 0 && result != -EAGAIN && timer_count.load(std::memory_order_relaxed) == 0) {
    interval_ns.store(0);
    return Report(CpuState::kRefused);
  }
  if (table != nullptr)
    table->header()->cpu.timers.store(timer_count.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void EndCpuTimer(const CallerRegisters& caller, const void* function) {
  if (no_system_calls.load(std::memory_order_relaxed) || InBorrowedMemory()) return;
  const SignalsBlocked blocked;
  const auto id = static_cast<uint32_t>(RawSyscall(SYS_gettid));
  Slot* const slot = SlotOf(id, false);
  if (slot == nullptr) return;
  uint64_t value = slot->load(std::memory_order_acquire);
  const bool is_ending = (value & kIsEnding) != 0;
  if (OwnerOf(value) != id || (NumberOf(value) < 0 && !is_ending)) return;
  const Rest rest = interval_ns.load(std::memory_order_relaxed) != 0 ? RestOf(slot, id) : Rest{0, 0};
  // Only one of this thread and one that ends the process counts it.
  const bool is_ours =
      is_ending ? slot->compare_exchange_strong(value, 0, std::memory_order_acq_rel) : Delete(slot, value);
  if (is_ours && rest.intervals > 0)
    sampler({caller, rest.intervals, rest.every_ns, false, reinterpret_cast<uintptr_t>(function), 0});
}

void ReportCpuRestSlow(const CallerRegisters& caller, bool of_all) {
  if (no_system_calls.load(std::memory_order_relaxed) || InBorrowedMemory()) return;
  const SignalsBlocked blocked;
  if (interval_ns.load(std::memory_order_relaxed) == 0) return;
  const auto id = static_cast<uint32_t>(RawSyscall(SYS_gettid));
  uint64_t pending = 0;
  Slot* const own = SlotOf(id, false);
  const uint64_t own_value = own != nullptr ? own->load(std::memory_order_acquire) : 0;
  // A signal that has come already will count all of it.
  const bool is_pending =
      SyscallFailed(RawSyscall(SYS_rt_sigpending, &pending, kMaskBytes)) || (pending & AlternateStackMask::kBit) != 0;
  if (OwnerOf(own_value) == id && NumberOf(own_value) >= 0 && !is_pending) {
    if (const auto [rest, every_ns] = RestOf(own, id); rest > 0) {
      // The timer goes on after what is reported here: the process may use more in its exit handlers.
      Progress& of = progress[own - slots];
      const uint64_t reported = of.reported.fetch_add(rest, std::memory_order_relaxed) + rest;
      const timespec times[2] = {TimeOf(every_ns),
                                 TimeOf(of.first_ns.load(std::memory_order_relaxed) + reported * every_ns)};
      RawSyscall(SYS_timer_settime, NumberOf(own_value), TIMER_ABSTIME, &times, nullptr);
      sampler({caller, rest, every_ns, false, 0, id});
    }
  }
  if (!of_all) return;
  bool any = false;
  ForEachTimer([id, &any](Slot* slot, uint64_t value) {
    const uint32_t other = OwnerOf(value);
    any |= other != id && Delete(slot, value, other | kIsEnding);
  });
  if (!any) return;
  // Their handlers may run at this moment, and count. A thread that is not scheduled may stay in its handler for long, so this
  // is one wait for all of them.
  AwaitBounded(20, [] { return in_handler.load() == 0; });
  for (Slot& slot : slots) {
    uint64_t value = slot.load(std::memory_order_acquire);
    if ((value & kIsEnding) == 0) continue;
    const auto [rest, every_ns] = RestOf(&slot, OwnerOf(value));
    // Only one of two threads that end the process counts it.
    if (slot.compare_exchange_strong(value, 0, std::memory_order_acq_rel) && rest > 0)
      sampler({caller, rest, every_ns, false, 0, OwnerOf(value)});
  }
}

void NoteTimerOfProgram(int clock) {
  if (no_system_calls.load(std::memory_order_relaxed) || !IsCpuClock(clock)) return;
  program_made_timer.store(true, std::memory_order_relaxed);
  // Either this thread sees that timers are on, or Use, which switches them on at this moment, sees the program's.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!HasCpuTimers() || InBorrowedMemory()) return;
  const SignalsBlocked blocked;
  // Before the interval is read: a thread in Use may be about to store one.
  const Busy own;
  if (interval_ns.exchange(0) == 0) return;
  DeleteAll();
  Report(CpuState::kProgramsTimer);
}

bool MayHaveTimer(uint64_t alternate_stack_bytes) {
  constexpr uint64_t kForProgramsHandler = 1024;
  return alternate_stack_bytes == 0 ||
         alternate_stack_bytes >= 2 * frame_bytes.load(std::memory_order_relaxed) + kForProgramsHandler;
}

void LeaveCpuTimer() {
  if (no_system_calls.load(std::memory_order_relaxed) || InBorrowedMemory()) return;
  const SignalsBlocked blocked;
  const auto id = static_cast<uint32_t>(RawSyscall(SYS_gettid));
  Slot* const slot = SlotOf(id, false);
  if (slot == nullptr) return;
  Delete(slot, slot->load(std::memory_order_acquire));
  LeaveOut();
}

void AskForCpuTimer() {
  ThreadState& thread = thread_state;
  if (interval_ns.load(std::memory_order_relaxed) == 0 || InBorrowedMemory()) return;
  // What a timer has not reported yet would be lost. Rust's threads call it at their end.
  const Slot* const has = SlotOf(static_cast<uint32_t>(RawSyscall(SYS_gettid)), false);
  const bool is_mine = thread.cpu_seen == (cpu_changes.load(std::memory_order_relaxed) & 63);
  if (is_mine && has != nullptr && NumberOf(has->load(std::memory_order_acquire)) >= 0) return;
  thread.cpu_seen = 0;
  SeeCpuSlow(thread, WhileOthersChange::kWait);
}

void EndCpuTimers() {
  if (!HasCpuTimers()) return;
  const SignalsBlocked blocked;
  interval_ns.store(0);
  const Busy own;
  DeleteAll();
  // This thread may be in the handler itself only if the sampler installed a filter, which it does not.
  AwaitBounded(1000, [] { return in_handler.load() == 0; });
  // A handler that has just counted itself out still returns, by a system call: a millisecond for that.
  AwaitBounded(20, [] { return false; });
  Report(CpuState::kFiltered);
  // Before `busy` is given up: a thread that waits for it makes no timer behind the filter.
  no_system_calls.store(true, std::memory_order_release);
}

void ResumeCpuTimers() {
  if (!HasCpuTimers()) return;
  const SignalsBlocked blocked;
  const Busy own;
  if (!own.held()) return;
  SharedTable* const table = CurrentTable();
  Use(table != nullptr
          ? table->header()->cpu_intervals[NewestIndex(cpu_applied.load(std::memory_order_relaxed))].interval
          : process.options.cpu_interval_ns);
  if (table != nullptr) GiveTimersToOthers(table);
}

void ForgetCpuTimers(uint64_t requested_ns) {
  cpu_applied.store(1, std::memory_order_relaxed);
  program_made_timer.store(false, std::memory_order_relaxed);
  // Another thread of the parent may have had it.
  busy.store(false, std::memory_order_relaxed);
  if (!HasCpuTimers() && requested_ns == 0) return;
  for (Slot& slot : slots) {
    if (slot.load(std::memory_order_relaxed) != 0) slot.store(0, std::memory_order_relaxed);
  }
  timer_count.store(0, std::memory_order_relaxed);
  left_out.store(0, std::memory_order_relaxed);
  in_handler.store(0, std::memory_order_relaxed);
  stacks_taken.store(0, std::memory_order_relaxed);
  next_check = 1;
  last_sweep_ns = 0;
  process.options.cpu_interval_ns = requested_ns;
  // The handler is inherited.
  if (!process.options.children) {
    interval_ns.store(0);
    return;
  }
  Use(requested_ns);
}

void NoteCpu(SharedTable* made) {
  CpuSampling& shown = made->header()->cpu;
  shown.state.store(state.load(std::memory_order_relaxed), std::memory_order_relaxed);
  shown.timers.store(timer_count.load(std::memory_order_relaxed), std::memory_order_relaxed);
  shown.applied.store(1, std::memory_order_relaxed);
  made->header()->losses[static_cast<int>(Loss::kCpuTimersFull)].fetch_add(left_out.exchange(0),
                                                                           std::memory_order_relaxed);
}

void RestoreCpuHandlerSlow() {
  if (no_system_calls.load(std::memory_order_relaxed) || InBorrowedMemory()) return;
  const SignalsBlocked blocked;
  if (interval_ns.load(std::memory_order_relaxed) != 0) InstallHandler();
}

namespace {
constinit std::atomic<uint64_t> masked_by_program{0};  // bits of signals
constinit std::atomic<bool> some_are_masked{false};    // handlers, by us

// Alternate stacks that disarm themselves, by thread. Of two threads with one place the later one is known.
struct SelfDisarming {
  std::atomic<uint32_t> owner;
  std::atomic<uintptr_t> start;
  std::atomic<size_t> bytes;
};
constexpr uint32_t kSelfDisarming = 512;
constinit SelfDisarming self_disarming[kSelfDisarming] = {};
}  // namespace

uint64_t AlternateStackMask::ForKernel(int signal, int flags, uint64_t mask) {
  const uint64_t bit = uint64_t{1} << (signal - 1);
  if ((mask & kBit) != 0) {
    masked_by_program.fetch_or(bit, std::memory_order_relaxed);
  } else {
    masked_by_program.fetch_and(~bit, std::memory_order_relaxed);
  }
  if ((flags & SA_ONSTACK) == 0) return mask;
  some_are_masked.store(true, std::memory_order_relaxed);
  return mask | kBit;
}

void AlternateStackMask::NoteStack(const stack_t& stack) {
  if (no_system_calls.load(std::memory_order_relaxed)) return;
  constexpr int kAutodisarm = static_cast<int>(1U << 31);  // SS_AUTODISARM
  const auto id = static_cast<uint32_t>(RawSyscall(SYS_gettid));
  SelfDisarming& of = self_disarming[id % kSelfDisarming];
  const bool disarms = (stack.ss_flags & kAutodisarm) != 0 && (stack.ss_flags & SS_DISABLE) == 0;
  if (!disarms && of.owner.load(std::memory_order_relaxed) != id) return;
  of.owner.store(0, std::memory_order_relaxed);
  if (!disarms) return;
  of.start.store(reinterpret_cast<uintptr_t>(stack.ss_sp), std::memory_order_relaxed);
  of.bytes.store(stack.ss_size, std::memory_order_relaxed);
  of.owner.store(id, std::memory_order_release);
}

void AlternateStackMask::LeaveByJump(uintptr_t stack_pointer) {
  if (stack_pointer == 0 || !some_are_masked.load(std::memory_order_relaxed) ||
      no_system_calls.load(std::memory_order_relaxed))
    return;
  uint64_t now = 0;
  stack_t alternate{};
  // Signal 32 is pthread_cancel's, too. Only such a handler has it blocked: libc lets no program do that.
  if (SyscallFailed(RawSyscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &now, kMaskBytes)) || (now & kBit) == 0 ||
      SyscallFailed(RawSyscall(SYS_sigaltstack, nullptr, &alternate)))
    return;
  auto start = reinterpret_cast<uintptr_t>(alternate.ss_sp);
  size_t bytes = alternate.ss_size;
  if ((alternate.ss_flags & SS_ONSTACK) == 0) {
    const auto id = static_cast<uint32_t>(RawSyscall(SYS_gettid));
    const SelfDisarming& of = self_disarming[id % kSelfDisarming];
    start = of.start.load(std::memory_order_relaxed);
    bytes = of.bytes.load(std::memory_order_relaxed);
    if (of.owner.load(std::memory_order_acquire) != id) return;
  }
  if (stack_pointer - start <= bytes) return;
  RawSyscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &kBit, nullptr, kMaskBytes);
}

bool AlternateStackMask::HadBit(int signal) {
  return (masked_by_program.load(std::memory_order_relaxed) & uint64_t{1} << (signal - 1)) != 0;
}

}  // namespace holdfast
