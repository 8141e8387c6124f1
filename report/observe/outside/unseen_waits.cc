// Waits that libc's functions do not see: OpenMP's runtimes sleep by direct system calls, and malloc by libc's internal
// ones.
#include <sys/syscall.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/base/base_name.h"
#include "report/base/libc_names.h"
#include "report/observe/outside/look_at_waits.h"
#include "report/observe/outside/modules_of_process.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {
namespace {

constexpr size_t kMaxThreads = 64;

const ModuleInfo* ModuleWith(const std::vector<ModuleInfo>& modules, uint64_t address) {
  for (const ModuleInfo& module : modules) {
    if (!module.unloaded && address >= module.start && address < module.end) return &module;
  }
  return nullptr;
}

bool IsLibrary(const ModuleInfo* module, std::initializer_list<std::string_view> names) {
  if (module == nullptr) return false;
  const std::string_view name = BaseName(module->path);
  return std::any_of(names.begin(), names.end(), [name](std::string_view known) { return name.starts_with(known); });
}

bool InLibc(const ModuleInfo* module) {
  return module != nullptr && (IsFileOfGlibc(module->path) || IsFileOfMusl(module->path));
}

// Returns whether the address is in an arena of glibc's malloc. All arenas except the first are at the start of heaps,
// at multiples of 64 MiB.
bool IsOfArena(uint64_t address) {
  constexpr uint64_t kHeap = uint64_t{64} << 20, kArenaEnd = 0x100;
  return address % kHeap < kArenaEnd;
}

}  // namespace

void FindUnseenWaits(const TableFile& table, WaitGraph* state) {
  const TableOwner& owner = table.owner();
  const std::optional<pid_t> pid = FindProcess(owner);
  // The cheaper question first: most processes that live for a moment have one thread.
  if (!pid.has_value() || ThreadCountOf(*pid) == 1 || table.liveness() == Liveness::kDead) return;
  std::vector<std::pair<pid_t, uint32_t>> threads = ThreadsOf(*pid, !owner.IsOfOurNamespace());
  if (threads.size() < 2) return;
  const size_t all_threads = threads.size();
  threads.resize(std::min(threads.size(), kMaxThreads));
  const ProcessMemory memory(*pid);
  std::optional<std::vector<ModuleInfo>> modules;
  size_t in_openmp = 0, in_malloc = 0, in_libc = 0;
  for (const auto& [thread, inner] : threads) {
    const bool is_known = std::any_of(state->ongoing.begin(), state->ongoing.end(),
                                      [id = inner](const OngoingWaitInfo& wait) { return wait.thread_id == id; });
    const std::optional<BlockedCall> call = is_known ? std::nullopt : BlockedCallOf(*pid, thread);
    if (!call.has_value() || call->number != SYS_futex) continue;
    if (!modules.has_value()) AddModulesOf(*pid, memory, &modules.emplace(state->modules));
    const ModuleInfo* caller = ModuleWith(*modules, call->pc);
    if (IsLibrary(caller, {"libgomp", "libomp", "libiomp"})) {
      ++in_openmp;
    } else if (InLibc(caller)) {
      in_malloc += IsFileOfGlibc(caller->path) && IsOfArena(call->arguments[0]) ? 1 : 0;
      in_libc += InLibc(ModuleWith(*modules, call->arguments[0])) ? 1 : 0;
    }
  }
  const auto add = [state](size_t count, std::string_view where) {
    if (count == 0) return;
    if (!state->unseen.empty()) state->unseen += ", ";
    state->unseen += std::to_string(count) + " in " + std::string(where);
  };
  add(in_openmp, "OpenMP");
  add(in_malloc, "malloc");
  add(in_libc, "libc's own locks (malloc, stdio)");
  if (!state->unseen.empty() && all_threads > kMaxThreads) {
    state->unseen += " (of the " + std::to_string(kMaxThreads) + " threads that were looked at; " +
                     std::to_string(all_threads) + " run)";
  }
}

}  // namespace holdfast
