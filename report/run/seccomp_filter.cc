#include "report/run/seccomp_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/thread_status.h"
#include "report/run/doctor_surroundings.h"
#include "report/run/stopped_call.h"
#include "report/run/traced_stop.h"

namespace holdfast {
namespace {

using Word = std::optional<uint32_t>;  // nothing: any value

FilterEffect EffectOfAction(uint32_t result) {
  switch (result & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG:
      return FilterEffect::kAllowed;
    case SECCOMP_RET_ERRNO:
      return FilterEffect::kDenied;
    default:
      return FilterEffect::kFatal;
  }
}

#if defined(__x86_64__)

// Runs a filter with partly known data: a state for each branch that may be taken.
class FilterRun {
 public:
  FilterRun(const SeccompFilter& filter, const FilteredCall& call) : filter_(filter), call_(call) {}

  FilterEffect Run() {
    states_.push_back({});
    while (!states_.empty() && worst_ != FilterEffect::kFatal) {
      State state = states_.back();
      states_.pop_back();
      while (Step(&state)) {
        if (++steps_ > kMaxSteps) return FilterEffect::kFatal;
      }
    }
    return worst_;
  }

 private:
  static constexpr uint32_t kMaxSteps = 1 << 20;
  struct State {
    size_t at = 0;
    Word a = 0, x = 0;
    std::array<Word, BPF_MEMWORDS> memory = {};
  };

  void End(Word result) {
    worst_ = std::max(worst_, result.has_value() ? EffectOfAction(*result) : FilterEffect::kFatal);
  }

  Word Load(uint32_t offset) const {
    if (offset == offsetof(seccomp_data, nr)) return static_cast<uint32_t>(call_.number);
    if (offset == offsetof(seccomp_data, arch)) return AUDIT_ARCH_X86_64;
    if (offset < offsetof(seccomp_data, args) || offset % 4 != 0 || offset >= sizeof(seccomp_data)) return std::nullopt;
    const auto& argument = call_.arguments[(offset - offsetof(seccomp_data, args)) / 8];
    if (!argument.has_value()) return std::nullopt;
    return static_cast<uint32_t>(offset % 8 == 0 ? *argument : *argument >> 32);
  }

  static Word Compute(uint16_t operation, Word a, Word b) {
    if (operation == BPF_NEG) return a.has_value() ? Word(-*a) : a;
    if (operation == BPF_AND && (a == Word(0) || b == Word(0))) return 0;
    if (!a.has_value() || !b.has_value()) return std::nullopt;
    switch (operation) {
      case BPF_ADD:
        return *a + *b;
      case BPF_SUB:
        return *a - *b;
      case BPF_MUL:
        return *a * *b;
      case BPF_DIV:  // Step has looked at the divisor
        return *b == 0 ? std::nullopt : Word(*a / *b);
      case BPF_AND:
        return *a & *b;
      case BPF_OR:
        return *a | *b;
      case BPF_XOR:
        return *a ^ *b;
      case BPF_LSH:
        return *b < 32 ? Word(*a << *b) : std::nullopt;  // differs between processors
      case BPF_RSH:
        return *b < 32 ? Word(*a >> *b) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

  static std::optional<bool> Test(uint16_t operation, Word a, Word b) {
    if (operation == BPF_JSET && b == Word(0)) return false;
    if (!a.has_value() || !b.has_value()) return std::nullopt;
    switch (operation) {
      case BPF_JEQ:
        return *a == *b;
      case BPF_JGT:
        return *a > *b;
      case BPF_JGE:
        return *a >= *b;
      case BPF_JSET:
        return (*a & *b) != 0;
      default:
        return std::nullopt;
    }
  }

  // False: the run has ended, or continues as other states.
  bool Step(State* state) {
    if (state->at >= filter_.size()) return End(std::nullopt), false;
    const sock_filter& line = filter_[state->at++];
    const uint16_t kind = BPF_CLASS(line.code);
    const Word other = BPF_SRC(line.code) == BPF_X ? state->x : Word(line.k);
    switch (kind) {
      case BPF_LD:
      case BPF_LDX: {
        Word& to = kind == BPF_LD ? state->a : state->x;
        switch (BPF_MODE(line.code)) {
          case BPF_ABS:
            to = Load(line.k);
            break;
          case BPF_IMM:
            to = line.k;
            break;
          case BPF_LEN:
            to = static_cast<uint32_t>(sizeof(seccomp_data));
            break;
          case BPF_MEM:
            to = line.k < BPF_MEMWORDS ? state->memory[line.k] : std::nullopt;
            break;
          default:
            to = std::nullopt;
        }
        return true;
      }
      case BPF_ST:
      case BPF_STX:
        if (line.k < BPF_MEMWORDS) state->memory[line.k] = kind == BPF_ST ? state->a : state->x;
        return true;
      case BPF_ALU:
        // The kernel ends a filter that divides by 0, and with it the thread.
        if (BPF_OP(line.code) == BPF_DIV && other.value_or(0) == 0) return End(std::nullopt), false;
        state->a = Compute(BPF_OP(line.code), state->a, other);
        return true;
      case BPF_MISC:
        (BPF_MISCOP(line.code) == BPF_TAX ? state->x : state->a) =
            BPF_MISCOP(line.code) == BPF_TAX ? state->a : state->x;
        return true;
      case BPF_RET:
        return End(BPF_RVAL(line.code) == BPF_A ? state->a : Word(line.k)), false;
      default:
        return Jump(state, line, other);
    }
  }

  bool Jump(State* state, const sock_filter& line, Word other) {
    if (BPF_OP(line.code) == BPF_JA) {
      state->at += line.k;
      return true;
    }
    const std::optional<bool> taken = Test(BPF_OP(line.code), state->a, other);
    if (!taken.has_value()) {
      State second = *state;
      second.at += line.jt;
      states_.push_back(second);
    }
    state->at += taken.value_or(false) ? line.jt : line.jf;
    return true;
  }

  const SeccompFilter& filter_;
  const FilteredCall& call_;
  std::vector<State> states_;
  FilterEffect worst_ = FilterEffect::kAllowed;
  uint32_t steps_ = 0;
};

constexpr uint64_t kRead = PROT_READ, kReadWrite = PROT_READ | PROT_WRITE, kReadExecute = PROT_READ | PROT_EXEC;
#define HOLDFAST_CALL(name, needed) \
  {                                 \
#name, SYS_##name, needed, {}   \
  }
const std::vector<FilteredCall>& AllCausedCalls() {
  static const auto& calls = *new std::vector<FilteredCall>{
      {"mmap", SYS_mmap, true, {{{}, {}, kReadExecute, MAP_PRIVATE | MAP_ANONYMOUS}}},
      {"mmap", SYS_mmap, true, {{{}, {}, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS}}},
      {"mmap", SYS_mmap, true, {{{}, {}, kRead}}},
      {"mmap", SYS_mmap, true, {{{}, {}, kReadExecute, MAP_PRIVATE | MAP_DENYWRITE}}},
      {"mmap", SYS_mmap, true, {{{}, {}, kReadExecute, MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE}}},
      {"mmap", SYS_mmap, true, {{{}, {}, kReadWrite}}},
      {"mmap", SYS_mmap, true, {{{}, {}, PROT_NONE}}},
      {"mprotect", SYS_mprotect, true, {{{}, {}, kRead}}},
      {"mprotect", SYS_mprotect, true, {{{}, {}, kReadWrite}}},
      {"mprotect", SYS_mprotect, true, {{{}, {}, PROT_NONE}}},
      {"close", SYS_close, true, {}},
      {"ftruncate", SYS_ftruncate, true, {}},
      {"memfd_create", SYS_memfd_create, true, {}},
      {"munmap", SYS_munmap, true, {}},
      {"newfstatat", SYS_newfstatat, true, {}},
      {"openat", SYS_openat, true, {}},
      {"ppoll", SYS_ppoll, true, {}},
      {"read", SYS_read, true, {}},
      {"renameat", SYS_renameat, true, {}},
      {"rt_sigreturn", SYS_rt_sigreturn, true, {}},
      {"write", SYS_write, true, {}},
      HOLDFAST_CALL(brk, false),
      HOLDFAST_CALL(clock_gettime, false),
      HOLDFAST_CALL(faccessat, false),
      HOLDFAST_CALL(fallocate, false),
      HOLDFAST_CALL(fchmod, false),
      HOLDFAST_CALL(fchmodat, false),
      HOLDFAST_CALL(fchown, false),
      HOLDFAST_CALL(flock, false),
      HOLDFAST_CALL(fstat, false),
      HOLDFAST_CALL(futex, false),
      HOLDFAST_CALL(getcwd, false),
      HOLDFAST_CALL(getdents64, false),
      HOLDFAST_CALL(geteuid, false),
      HOLDFAST_CALL(getpid, false),
      HOLDFAST_CALL(getppid, false),
      HOLDFAST_CALL(getrandom, false),
      HOLDFAST_CALL(getresuid, false),
      HOLDFAST_CALL(gettid, false),
      HOLDFAST_CALL(lseek, false),
      HOLDFAST_CALL(madvise, false),
      HOLDFAST_CALL(mkdirat, false),
      HOLDFAST_CALL(mremap, false),
      HOLDFAST_CALL(munlock, false),
      HOLDFAST_CALL(nanosleep, false),
      HOLDFAST_CALL(prctl, false),
      HOLDFAST_CALL(pread64, false),
      HOLDFAST_CALL(prlimit64, false),
      HOLDFAST_CALL(process_vm_readv, false),
      HOLDFAST_CALL(pwrite64, false),
      HOLDFAST_CALL(readlink, false),
      HOLDFAST_CALL(restart_syscall, false),
      HOLDFAST_CALL(rt_sigaction, false),
      HOLDFAST_CALL(rt_sigprocmask, false),
      HOLDFAST_CALL(sched_yield, false),
      HOLDFAST_CALL(shmctl, false),
      HOLDFAST_CALL(sigaltstack, false),
      HOLDFAST_CALL(statfs, false),
      HOLDFAST_CALL(tgkill, false),
      HOLDFAST_CALL(uname, false),
      HOLDFAST_CALL(unlinkat, false),
      HOLDFAST_CALL(utimensat, false),
  };
  return calls;
}
#undef HOLDFAST_CALL

#endif

constexpr size_t kMaxFilters = 64, kMaxFilteredThreads = 256;
constexpr int kStopWithinMs = 200;

// In a child, so that the kernel lets go of the thread whatever happens. The filters follow each other in `to`.
int CopyFilters(pid_t thread, std::vector<SeccompFilter>* to, bool* is_call_lost) {
  constexpr auto kGetFilter = static_cast<__ptrace_request>(0x420c);
  if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return errno;
  if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return errno;
  for (int waited = 0; true; ++waited) {
    int status = 0;
    if (AwaitTraced(thread, &status, WNOHANG) == thread) {
      if (!WIFSTOPPED(status)) return ESRCH;
      if (status >> 16 == PTRACE_EVENT_STOP) break;
      // A signal comes first: the thread gets it. The stop that was asked for follows.
      ptrace(PTRACE_CONT, thread, nullptr, WSTOPSIG(status));
    }
    if (waited == kStopWithinMs * 10) return EAGAIN;
    constexpr timespec kPause = {0, 100'000};
    nanosleep(&kPause, nullptr);
  }
#if defined(__x86_64__)
  *is_call_lost = IsCallOfStoppedLost(thread);
#endif
  int error = 0;
  for (size_t i = 0; i < kMaxFilters && error == 0; ++i) {
    const long length = ptrace(kGetFilter, thread, reinterpret_cast<void*>(i), nullptr);
    if (length < 0) {
      error = errno;
      break;
    }
    SeccompFilter filter(static_cast<size_t>(length));
    if (ptrace(kGetFilter, thread, reinterpret_cast<void*>(i), filter.data()) != length) error = errno;
    to->push_back(std::move(filter));
  }
  ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
  return error == ENOENT ? 0 : error == 0 ? E2BIG : error;
}

// The value of a line of /proc/PID/status; "": there is none.
std::string ValueIn(const std::string& status, std::string_view field) {
  const size_t at = status.find(fmt::format("\n{}:\t", field));
  if (at == std::string::npos) return "";
  const size_t from = at + field.size() + 3;
  return status.substr(from, status.find('\n', from) - from);
}

// Returns an error number; 0: the filters are known.
int ReadFiltersOfThread(pid_t thread, ProcessFilters* to) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  FileDescriptor read_end(ends[0]), write_end(ends[1]);
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) {
    std::vector<SeccompFilter> filters;
    bool is_call_lost = false;
    const int error = CopyFilters(thread, &filters, &is_call_lost);
    std::string bytes(reinterpret_cast<const char*>(&error), sizeof error);
    bytes += is_call_lost ? '1' : '0';
    for (const SeccompFilter& filter : filters) {
      const auto length = static_cast<uint32_t>(filter.size());
      bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
      bytes.append(reinterpret_cast<const char*>(filter.data()), filter.size() * sizeof filter[0]);
    }
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t put = write(write_end.get(), bytes.data() + at, bytes.size() - at);
      if (put <= 0) break;
      at += static_cast<size_t>(put);
    }
    _exit(0);
  }
  write_end.Close();
  const std::string bytes = ReadWhole(read_end);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  int error = EAGAIN;
  char lost = '0';
  size_t at = 0;
  const auto take = [&](void* into, size_t count) {
    if (bytes.size() - at < count) return false;
    memcpy(into, bytes.data() + at, count);
    at += count;
    return true;
  };
  if (!take(&error, sizeof error) || !take(&lost, sizeof lost)) return EAGAIN;
  if (error == 0) ++to->stops;
  if (lost == '1') ++to->lost_calls;
  std::vector<SeccompFilter> filters;
  for (uint32_t length = 0; error == 0 && take(&length, sizeof length);) {
    SeccompFilter filter(std::min<size_t>(length, BPF_MAXINSNS));
    if (!take(filter.data(), filter.size() * sizeof filter[0])) error = EAGAIN;
    filters.push_back(std::move(filter));
  }
  if (error == 0 && filters.empty()) error = EAGAIN;
  if (error == 0) to->of_threads.push_back(std::move(filters));
  return error;
}

}  // namespace

const std::vector<FilteredCall>& CausedCalls() {
#if defined(__x86_64__)
  return AllCausedCalls();
#else
  static const auto& none = *new std::vector<FilteredCall>;
  return none;
#endif
}

FilterEffect EffectOf(const std::vector<SeccompFilter>& filters, const FilteredCall& call) {
  FilterEffect worst = FilterEffect::kAllowed;
#if defined(__x86_64__)
  for (const SeccompFilter& filter : filters) worst = std::max(worst, FilterRun(filter, call).Run());
#else
  if (!filters.empty()) worst = FilterEffect::kFatal;
#endif
  return worst;
}

std::string WhyFiltersForbid(const std::vector<SeccompFilter>& filters, bool detaches) {
#if defined(__x86_64__)
  // dlopen finds the loaded library, by its name or by the identity of its file. Its caller may allocate.
  static constexpr std::array kNeededByDetach = {SYS_mmap, SYS_mprotect, SYS_munmap, SYS_ppoll, SYS_rt_sigreturn};
  static constexpr std::array kAttachOnly = {SYS_memfd_create, SYS_ftruncate, SYS_renameat, SYS_write,  SYS_pwrite64,
                                             SYS_fallocate,    SYS_fchmod,    SYS_fchmodat, SYS_fchown, SYS_mkdirat,
                                             SYS_unlinkat,     SYS_utimensat, SYS_flock};
  for (FilteredCall call : CausedCalls()) {
    if (detaches && std::count(kAttachOnly.begin(), kAttachOnly.end(), call.number) != 0) continue;
    if (detaches) call.is_needed = std::count(kNeededByDetach.begin(), kNeededByDetach.end(), call.number) != 0;
    const FilterEffect effect = EffectOf(filters, call);
    if (effect == FilterEffect::kFatal)
      return fmt::format("has a seccomp filter that may end it at a call of {}, which the library makes", call.name);
    if (effect == FilterEffect::kDenied && call.is_needed)
      return fmt::format("has a seccomp filter that denies {}, which the library needs", call.name);
  }
#else
  (void)detaches;
#endif
  return "";
}

FilterCounts CountFiltersOf(pid_t pid, pid_t thread) {
  const std::string status = ReadOfProcess(pid, fmt::format("task/{}/status", thread));
  const std::string state = ValueIn(status, "State");
  if (state.empty() || state[0] == 'Z' || state[0] == 'X') return {};  // runs no more
  return {{thread, ValueIn(status, "Seccomp") + " " + ValueIn(status, "Seccomp_filters")}};
}

FilterCounts CountFilters(pid_t pid) {
  FilterCounts counts;
  for (const auto& [thread, inside] : ThreadsOf(pid, false)) counts.merge(CountFiltersOf(pid, thread));
  return counts;
}

bool HasMode(const FilterCounts& counts, char mode) {
  return std::any_of(counts.begin(), counts.end(), [mode](const auto& one) { return one.second[0] == mode; });
}

bool FiltersChanged(const FilterCounts& before, const FilterCounts& now) {
  std::set<std::string> known;
  for (const auto& [thread, count] : before) known.insert(count);
  return std::any_of(now.begin(), now.end(), [&](const auto& one) {
    const auto same = before.find(one.first);
    return same != before.end() ? same->second != one.second : !known.contains(one.second);
  });
}

bool IsUnexamined(const FilterCounts& before, const FilterCounts& now, pid_t thread) {
  const auto found = now.find(thread);
  return found != now.end() && found->second[0] == '2' && !before.contains(thread);
}

bool HasUncountedFilters(const FilterCounts& counts) {
  return std::any_of(counts.begin(), counts.end(), [](const auto& one) { return one.second == "2 "; });
}

absl::StatusOr<ProcessFilters> ReadFilters(pid_t pid) {
  constexpr int kTries = 50;
  ProcessFilters found;
  found.counts = CountFilters(pid);
  std::set<pid_t> done;
  for (int tries = 0; true; ++tries) {
    std::string why;  // a thread is missing
    for (const auto& [thread, count] : CountFilters(pid)) {
      if (count[0] != '2' || done.contains(thread)) continue;
      if (done.size() == kMaxFilteredThreads) {
        return absl::FailedPreconditionError(fmt::format(
            "has a seccomp filter and more than {} threads, and attach would stop each of them to read its filter",
            kMaxFilteredThreads));
      }
      const std::optional<BlockedCall> call = BlockedCallOf(pid, thread);
      const std::string state = StatusField(fmt::format("{}/task/{}", pid, thread), "State");
      const StopCost cost = call.has_value() ? CostOfStop(thread, *call) : StopCost::kNothing;
      // A large write may end by itself.
      if (state.starts_with('D') || cost == StopCost::kImpossible || (cost == StopCost::kShort && tries < kTries / 2)) {
        why = fmt::format("thread {} is in a system call that cannot be interrupted without harm", thread);
        continue;
      }
      const int error = ReadFiltersOfThread(thread, &found);
      if (error == EACCES || error == EPERM) {
        return absl::PermissionDeniedError(
            "has a seccomp filter, which only root outside of containers may read: it might end the program. Run holdfast "
            "there, or start the program with holdfast run");
      }
      why = fmt::format("thread {}: {}", thread, strerror(error));
      if (error == 0) done.insert(thread);
    }
    if (why.empty()) break;
    if (tries == kTries)
      return absl::UnavailableError(fmt::format("has a seccomp filter that cannot be read ({})", why));
    constexpr timespec kPause = {0, 10'000'000};
    nanosleep(&kPause, nullptr);
  }
  if (found.of_threads.empty()) return absl::NotFoundError("it has ended");
  if (FiltersChanged(found.counts, CountFilters(pid)))
    return absl::UnavailableError("changes its seccomp filters at this moment. Try again");
  return found;
}

}  // namespace holdfast
