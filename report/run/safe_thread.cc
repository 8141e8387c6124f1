#include "report/run/safe_thread.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/base/libc_names.h"
#include "report/builder/symbols_in_memory.h"
#include "report/names/elf/dynamic_names.h"
#include "report/observe/outside/modules_of_process.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"
#include "report/run/linker_locks.h"
#include "report/run/search_order.h"
#include "report/run/static_tls.h"
#include "sampler/contract/records.h"

namespace holdfast {
namespace {

// Functions of libc in which a thread may sleep with no lock but its own file's. All others may hold a lock that the
// dynamic linker needs: malloc, dlopen, fork, exit, getaddrinfo …
bool MaySleepIn(std::string_view function) {
  static const auto& functions = *new absl::flat_hash_set<std::string_view>{"epoll_wait",
                                                                            "epoll_pwait",
                                                                            "epoll_pwait2",
                                                                            "poll",
                                                                            "ppoll",
                                                                            "select",
                                                                            "pselect",
                                                                            "read",
                                                                            "readv",
                                                                            "write",
                                                                            "writev",
                                                                            "recv",
                                                                            "recvfrom",
                                                                            "recvmsg",
                                                                            "recvmmsg",
                                                                            "send",
                                                                            "sendto",
                                                                            "sendmsg",
                                                                            "accept",
                                                                            "accept4",
                                                                            "connect",
                                                                            "nanosleep",
                                                                            "clock_nanosleep",
                                                                            "usleep",
                                                                            "sleep",
                                                                            "pause",
                                                                            "sigsuspend",
                                                                            "sigwait",
                                                                            "sigwaitinfo",
                                                                            "sigtimedwait",
                                                                            "wait",
                                                                            "waitpid",
                                                                            "wait3",
                                                                            "wait4",
                                                                            "waitid",
                                                                            "pthread_join",
                                                                            "pthread_cond_wait",
                                                                            "pthread_cond_timedwait",
                                                                            "pthread_cond_clockwait",
                                                                            "pthread_mutex_lock",
                                                                            "pthread_mutex_timedlock",
                                                                            "pthread_mutex_clocklock",
                                                                            "pthread_rwlock_rdlock",
                                                                            "pthread_rwlock_wrlock",
                                                                            "pthread_barrier_wait",
                                                                            "sem_wait",
                                                                            "sem_timedwait",
                                                                            "sem_clockwait",
                                                                            "cnd_wait",
                                                                            "cnd_timedwait",
                                                                            "lockf",
                                                                            "eventfd_read",
                                                                            "mtx_lock",
                                                                            "thrd_join",
                                                                            "thrd_sleep",
                                                                            "syscall",
                                                                            "fgets",
                                                                            "fgetc",
                                                                            "getc",
                                                                            "getchar",
                                                                            "getline",
                                                                            "getdelim",
                                                                            "fread",
                                                                            "flock",
                                                                            "fcntl",
                                                                            "io_getevents",
                                                                            "msgrcv",
                                                                            "semop",
                                                                            "fgets_unlocked",
                                                                            "fread_unlocked",
                                                                            "getc_unlocked",
                                                                            "getchar_unlocked",

                                                                            "read_chk",
                                                                            "recv_chk",
                                                                            "poll_chk",
                                                                            "fgets_chk",
                                                                            "fread_chk"};
  // Of a function with several names, the symbol table may give an internal one: _IO_fgets, __poll.
  for (const std::string_view prefix : {"_IO_", "__libc_", "__"}) {
    if (function.starts_with(prefix)) return functions.contains(function.substr(prefix.size()));
  }
  return functions.contains(function);
}

// sem_wait jumps to a function that has no name in libc's table of symbols. Functions of semaphores and conditions wait in this
// way, locks of libc and its malloc do not (FUTEX_WAIT).
bool WaitsAsSemaphore(const BlockedCall& call) {
  return (call.number == SYS_futex || call.number == SYS_restart_syscall) &&
         (call.arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
}

// Functions in which an allocator may wait, with a lock of its own. It waits for no input and no event. Background threads
// of jemalloc wait for a condition, and hold nothing then.
bool MayBeAllocatorsWait(std::string_view function) {
  for (const std::string_view prefix : {"__pthread_", "pthread_", "__"}) {
    if (!function.starts_with(prefix)) continue;
    function.remove_prefix(prefix.size());
    break;
  }
  for (const std::string_view part : {"mutex", "mtx", "rwlock", "sleep", "syscall", "write", "flock", "sem", "spin"}) {
    if (function.find(part) != std::string_view::npos) return true;
  }
  return false;
}

std::string FileOf(pid_t pid, const std::string& path) { return RootOfProcess(pid) + path; }

// Opens the file of a module. An upgrade may have replaced it, and the process may have changed its root folder: then the
// exported names are read from memory, which is enough.
absl::StatusOr<std::unique_ptr<ElfSymbols>> SymbolsOf(pid_t pid, const ModuleInfo& module) {
  // Whoever owns the process may have put a FIFO there.
  const FileDescriptor file(open(FileOf(pid, module.path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.valid()) {
    if (auto symbols = ElfSymbols::Load(file.get(), module.build_id); symbols.ok()) return symbols;
  }
  const FileDescriptor in_memory = SymbolsInMemory(pid, module);
  if (!in_memory.valid()) return absl::NotFoundError(fmt::format("{} cannot be read", module.path));
  return ElfSymbols::Load(in_memory.get(), module.build_id);
}

bool DefinesMalloc(pid_t pid, const ModuleInfo& module) {
  const auto names = ReadDynamicNames(FileOf(pid, module.path));
  if (names.ok()) return names->defines.contains("malloc");
  const auto symbols = SymbolsOf(pid, module);
  return symbols.ok() && (*symbols)->FunctionCalled("malloc").has_value();
}

}  // namespace

ProcessCode::ProcessCode(pid_t pid) : pid_(pid), memory_(pid), entry_(AuxiliaryValue(pid, AT_ENTRY)) {}

absl::StatusOr<std::unique_ptr<ProcessCode>> ProcessCode::Read(pid_t pid) {
  auto code = std::unique_ptr<ProcessCode>(new ProcessCode(pid));
  AddModulesOf(pid, code->memory_, &code->modules_);
  if (code->modules_.empty()) return absl::PermissionDeniedError("its memory cannot be read");
  // An LD_AUDIT library may have brought a second libc, which is not the program's.
  const std::vector<uint64_t> listed = ListedObjects(pid);
  const auto is_listed = [&listed](const ModuleInfo& module) {
    return std::any_of(listed.begin(), listed.end(),
                       [&](uint64_t at) { return at >= module.start && at < module.end; });
  };
  const ModuleInfo* libc = nullptr;
  uint16_t tag = 1;
  for (ModuleInfo& module : code->modules_) {
    module.tag = tag++;
    const std::string_view name = BaseName(module.path);
    Part part = Part::kProgram;
    if (IsFileOfGlibc(module.path)) {
      part = Part::kLibc;
      if (libc == nullptr || is_listed(module)) libc = &module;
    } else if (name.starts_with("ld-linux") || name.starts_with("ld-2.")) {
      part = Part::kLinker;
      if (code->addresses_.linker_locks[0] == 0) code->addresses_.linker_locks = LinkerLocks(pid, module);
    } else if (!IsHoldfastLibrary(module.path) && DefinesMalloc(pid, module)) {
      // The first module is the executable.
      if (&module == &code->modules_[0]) {
        code->has_allocator_in_program_ = true;
      } else {
        part = Part::kAllocator;
      }
    }
    code->parts_.push_back(part);
  }
  if (libc == nullptr) return absl::NotFoundError("it uses no shared glibc");
  if (const absl::Status status = code->ReadLibc(*libc); !status.ok()) return status;
  code->FindOwnLibrary();
  return code;
}

absl::Status ProcessCode::ReadLibc(const ModuleInfo& libc) {
  libc_path_ = libc.path;
  libc_bias_ = libc.bias;
  absl::StatusOr<std::unique_ptr<ElfSymbols>> names = SymbolsOf(pid_, libc);
  if (!names.ok()) return names.status();
  libc_names_ = *std::move(names);
  // The library finds modules by _dl_find_object, without the dynamic linker's lock.
  if (!libc_names_->FunctionCalled("_dl_find_object").has_value())
    return absl::NotFoundError("its glibc is older than 2.35. Start it with holdfast run");
  for (const auto& [name, address] : {std::pair("dlopen", &addresses_.dlopen),
                                      {"dlsym", &addresses_.dlsym},
                                      {"dlerror", &addresses_.dlerror},
                                      {"pthread_mutex_trylock", &addresses_.trylock},
                                      {"pthread_mutex_unlock", &addresses_.unlock},
                                      {"__errno_location", &addresses_.errno_location}}) {
    const auto found = libc_names_->FunctionCalled(name);
    if (!found.has_value()) return absl::NotFoundError(fmt::format("its libc has no function {}", name));
    *address = libc_bias_ + found->start;
  }
  addresses_.dlerror_from_errno = DlerrorFromErrno(pid_, libc);
  return FindInstructions(libc);
}

// A library that dlopen still loads may not be called: it is mapped before its addresses are filled in. Nothing is being loaded
// when the lock is free.
void ProcessCode::FindOwnLibrary() {
  const auto own = std::find_if(modules_.begin(), modules_.end(),
                                [](const ModuleInfo& module) { return IsHoldfastLibrary(module.path); });
  maps_library_ = own != modules_.end();
  if (!maps_library_ || addresses_.linker_locks[0] == 0) return;
  // The second one as well: glibc frees the first in a child that was forked while a call of ours loaded the library.
  for (const uint64_t at : addresses_.linker_locks) {
    uint32_t lock = 0;
    if (!memory_.Read(at, &lock, sizeof lock) || lock != 0) return;
  }
  const auto symbols = SymbolsOf(pid_, *own);
  const auto function = symbols.ok() ? (*symbols)->FunctionCalled(kAttachFunction) : std::nullopt;
  // A load that fails unmaps it.
  if (function.has_value() && memory_.Read(own->bias + function->start, &attach_code_, sizeof attach_code_))
    addresses_.attach = own->bias + function->start;
}

bool ProcessCode::IsLibraryThere() const {
  uint64_t code = 0;
  return addresses_.attach == 0 || (memory_.Read(addresses_.attach, &code, sizeof code) && code == attach_code_);
}

absl::Status ProcessCode::FindInstructions(const ModuleInfo& libc) {
  constexpr std::string_view kSyscall("\x0f\x05\xc3", 3), kReturn("\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9);
  for (const auto& segment : libc.segments) {
    std::string bytes(std::min<uint64_t>(segment.end - segment.start, 16 << 20), '\0');
    if (!memory_.Read(segment.start, bytes.data(), bytes.size())) continue;
    const auto find = [&](std::string_view wanted, uint64_t* address) {
      if (const size_t at = bytes.find(wanted); *address == 0 && at != std::string::npos) *address = segment.start + at;
    };
    find(kSyscall, &addresses_.syscall_and_return);
    find(kReturn, &addresses_.return_from_signal);
  }
  if (addresses_.syscall_and_return == 0 || addresses_.return_from_signal == 0)
    return absl::NotFoundError("its libc lacks the instructions that the call needs");
  return absl::OkStatus();
}

ProcessCode::Part ProcessCode::PartOf(uint64_t pc) const {
  for (size_t i = 0; i < modules_.size(); ++i) {
    for (const auto& segment : modules_[i].segments) {
      if (pc >= segment.start && pc < segment.end) return parts_[i];
    }
  }
  return Part::kNowhere;
}

void ProcessCode::ReadStacks() {
  absl::StatusOr<std::vector<MemoryMapping>> mappings = ReadMemoryMap(pid_);
  mappings_ = mappings.ok() ? *std::move(mappings) : std::vector<MemoryMapping>();
}

bool ProcessCode::HasStack(uint64_t sp, uint64_t thread_pointer) const {
  const MemoryMapping* stack = MappingAt(mappings_, sp);
  if (stack == nullptr) return false;
  uint64_t start = stack->start;
  if (thread_pointer != 0) {
    // The kernel merges neighbours, so a coroutine's stack and a thread's own may be in one mapping. A thread's own may also be a
    // part of the initial thread's.
    const std::optional<uint64_t> block = ThreadsBlock(thread_pointer);
    const bool is_in_block = block.has_value() && sp >= *block && sp < thread_pointer;
    if (!is_in_block && stack->name != "[stack]") return false;
    if (is_in_block) start = std::max(start, *block);
  }
  return sp - start >= BorrowedThread::kStackBytes;
}

// In glibc's struct pthread, to which the thread pointer leads, are the start of the thread's stack and its size, one after
// the other. The struct is near the stack's end. The initial thread's stack has no start there.
std::optional<uint64_t> ProcessCode::ThreadsBlock(uint64_t thread_pointer) const {
  constexpr size_t kSearched = 0xa00;
  constexpr uint64_t kLongestEnd = 16 << 10;
  for (size_t at = 0x200; at < kSearched; at += sizeof(uint64_t)) {
    uint64_t block[2];
    if (!memory_.Read(thread_pointer + at, block, sizeof block)) return std::nullopt;
    const uint64_t end = block[0] + block[1];
    if (block[0] != 0 && block[0] < thread_pointer && end > thread_pointer && end - thread_pointer <= kLongestEnd)
      return block[0];
  }
  return std::nullopt;
}

bool ProcessCode::IsOfLibc(pid_t thread, uint64_t thread_pointer) const {
  // glibc's struct pthread: its own address twice, and somewhere the thread's id. After a program's own fork the id is
  // its parent's, but then it has one thread.
  constexpr uint64_t kSelf = 0x10;
  constexpr size_t kSearched = 0x400;
  uint64_t first = 0, self = 0;
  if (!memory_.Read(thread_pointer, &first, sizeof first) ||
      !memory_.Read(thread_pointer + kSelf, &self, sizeof self) || first != thread_pointer || self != thread_pointer)
    return false;
  const std::string status = ReadOfThread(pid_, thread, "status");
  if (status.find("\nThreads:\t1\n") != std::string::npos) return true;
  const uint32_t inner = InnerIdOf(status);
  if (inner == 0) return false;
  for (size_t at = kSelf + sizeof self; at < kSearched; at += sizeof(uint64_t)) {
    uint32_t id = 0;
    if (!memory_.Read(thread_pointer + at, &id, sizeof id)) return false;
    if (id == inner) return true;
  }
  return false;
}

// Whether the outermost frame, which returns to `pc`, is one in which threads begin. In _start a "hlt" follows the call of
// libc's function that calls main; in clone and clone3, the system call that ends the thread.
bool ProcessCode::BeginsThread(uint64_t pc) const {
  constexpr uint64_t kLongestStart = 128;
  constexpr unsigned char kHalt = 0xf4, kRexW = 0x48;
  constexpr std::array<unsigned char, 9> kExit = {0x89, 0xc7, 0xb8, SYS_exit, 0, 0, 0, 0x0f, 0x05};  // mov %eax, %edi …
  if (pc - entry_ < kLongestStart) return true;
  std::array<unsigned char, 1 + kExit.size()> code{};
  if (!memory_.Read(pc, code.data(), code.size())) return false;
  const auto* const after = code.data() + (code[0] == kRexW ? 1 : 0);
  if (PartOf(pc - 1) == Part::kLibc) return std::equal(kExit.begin(), kExit.end(), after);
  return code[0] == kHalt;
}

std::string ProcessCode::WhyUnsafe(uint64_t pc, uint64_t sp, uint64_t thread_pointer,
                                   const std::optional<BlockedCall>& call) {
  if (!call.has_value()) {
    if (has_allocator_in_program_) return std::string(kMayAllocate);
    switch (PartOf(pc)) {
      case Part::kLibc:
        return "is inside the C library";
      case Part::kLinker:
        return "is inside the dynamic linker";
      case Part::kAllocator:
        return "is inside the allocator";
      default:
        break;
    }
  }
  if (!HasStack(sp, thread_pointer)) return "has little stack left, or runs on another one than its own";
  // A walk looks at the instruction before each address, which must be in the same function.
  const StackInfo stack = stacks_.Walk(memory_, modules_, pc + 1, sp);
  if (stack.truncated) return std::string(kCannotBeWalked);
  const auto& frames = stack.frames;
  // A coroutine may run on a part of the thread's own stack, below which is something else.
  if (frames.empty() || !BeginsThread(frames.back() & kPcMask)) return "runs on another stack than its own";
  std::vector<Part> parts;
  for (const TaggedPc frame : frames) parts.push_back(PartOf((frame & kPcMask) - 1));
  // main's outermost frames are _start, in the executable, and the functions of libc that call main.
  if (parts.back() == Part::kProgram) parts.pop_back();
  if (std::find(parts.begin(), parts.end(), Part::kLinker) != parts.end()) return std::string(kCalledByLinker);
  if (std::find(parts.begin(), parts.end(), Part::kAllocator) != parts.end()) return "is inside the allocator";
  size_t first = 0;
  while (first < parts.size() && parts[first] == Part::kLibc) ++first;
  if (first != 0) {
    const std::string_view function = libc_names_->Find((frames[first - 1] & kPcMask) - 1 - libc_bias_);
    // A thread that runs is not inside libc here.
    const bool is_semaphore =
        function.empty() && !has_allocator_in_program_ && call.has_value() && WaitsAsSemaphore(*call);
    if (!MaySleepIn(function) && !is_semaphore)
      return fmt::format("is inside the C library ({})", function.empty() ? "a function without a name" : function);
    if (has_allocator_in_program_ && MayBeAllocatorsWait(function))
      return fmt::format("waits in {}, and may be inside the allocator of its executable", function);
  } else if (has_allocator_in_program_) {
    return "makes system calls itself, and may be inside the allocator of its executable";
  }
  size_t last = parts.size();
  while (last > first && parts[last - 1] == Part::kLibc) --last;
  if (std::find(parts.begin() + static_cast<ptrdiff_t>(first), parts.begin() + static_cast<ptrdiff_t>(last),
                Part::kLibc) != parts.begin() + static_cast<ptrdiff_t>(last))
    return "was called by the C library";
  return "";
}

std::vector<ThreadChoice> ChooseThreads(pid_t pid, ProcessCode* code) {
  std::vector<ThreadChoice> choices;
  code->ReadStacks();
  for (const auto& [thread, inside] : ThreadsOf(pid, false)) {
    const std::optional<BlockedCall> call = BlockedCallOf(pid, thread);
    ThreadChoice choice;
    choice.thread = thread;
    const ThreadActivity activity = ThreadActivityOf(pid, thread, call);
    choice.doing = activity.text;
    if (!call.has_value()) {
      // It runs, or does not tell: see where, once it is stopped.
      choice.cost = activity.text == "runs" ? StopCost::kNothing : StopCost::kImpossible;
      if (choice.cost == StopCost::kImpossible) choice.why = activity.text;
      // A stop would tell no more, and may cut short a call that begins meanwhile.
      else if (code->has_allocator_in_program())
        choice.why = kMayAllocate;
    } else {
      choice.cost = CostOfStop(thread, *call);
      choice.why = code->WhyUnsafe(call->pc, call->sp, 0, call);
      const bool is_stoppable = choice.cost != StopCost::kImpossible && RunStateOf(thread) != 'D';
      if (!is_stoppable && choice.why != kCalledByLinker) choice.why = activity.text;
    }
    choices.push_back(std::move(choice));
  }
  std::stable_sort(choices.begin(), choices.end(), [](const ThreadChoice& a, const ThreadChoice& b) {
    return std::pair(!a.why.empty(), a.cost) < std::pair(!b.why.empty(), b.cost);
  });
  return choices;
}

}  // namespace holdfast
