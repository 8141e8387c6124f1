#include "report/run/doctor_objects.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/profiles/spinning_locks.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/base/holdfast_library.h"
#include "report/base/libc_names.h"
#include "report/names/elf/call_arguments.h"
#include "report/names/elf/dynamic_names.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/executable_kind.h"
#include "report/names/elf/import_slots.h"
#include "report/names/elf/own_mappings.h"
#include "report/names/elf/private_allocator.h"
#include "report/names/elf/processors.h"
#include "report/names/elf/separate_symbols.h"
#include "report/observe/outside/modules_of_process.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"
#include "report/run/linked_allocator.h"
#include "report/run/search_order.h"
#include "report/run/system_libraries.h"
#include "report/run/tested_systems.h"

extern char** environ;

namespace holdfast {
namespace {

// Functions in which a program waits for another thread, by what they wait for. A kind is seen only if the library
// exports its functions.
const std::map<std::string, std::vector<std::string>>& WaitingFunctions() {
  static const auto& functions = *new std::map<std::string, std::vector<std::string>>{
      {"mutexes", {"pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_mutex_clocklock"}},
      {"C11 mutexes", {"mtx_lock", "mtx_timedlock"}},
      {"reader-writer locks",
       {"pthread_rwlock_rdlock", "pthread_rwlock_wrlock", "pthread_rwlock_timedrdlock", "pthread_rwlock_timedwrlock",
        "pthread_rwlock_clockrdlock", "pthread_rwlock_clockwrlock"}},
      {"conditions", {"pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait"}},
      {"C11 conditions", {"cnd_wait", "cnd_timedwait"}},
      {"semaphores", {"sem_wait", "sem_timedwait", "sem_clockwait"}},
      {"barriers", {"pthread_barrier_wait"}},
      {"futexes", {"syscall"}},
      {"spin locks", {"pthread_spin_lock"}},
      {"once", {"pthread_once", "call_once"}},
      {"joins", {"pthread_join", "pthread_timedjoin_np", "pthread_clockjoin_np", "thrd_join"}},
  };
  return functions;
}

bool IsGlibc(const std::string& path) {
  const std::string_view name = BaseName(path);
  return IsFileOfGlibc(path) || name.starts_with("ld-linux") || name.starts_with("ld-2.");
}

bool IsLibc(const std::string& path) { return IsGlibc(path) || IsFileOfMusl(path); }

bool HasDebugFile(const std::string& root, const std::string& path) {
  const FileDescriptor file(open((root + path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const std::unique_ptr<ElfFile> elf = file.valid() ? ElfFile::Open(file.get()) : nullptr;
  return elf != nullptr && OpenSeparateSymbols(*elf, root, path).elf != nullptr;
}

// Lists at most `most` names, then how many more there are.
std::string Listed(const std::vector<std::string>& names, size_t most = 6) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

// Runtimes with heaps of their own: the prefix of their libraries' names, and what Holdfast does not see of them.
struct Runtime {
  std::string_view object, says;
};
constexpr Runtime kRuntimes[] = {
    {"libjli.so", "Java's own heap and monitors are not seen, only malloc calls of the JVM and native code"},
    {"libjvm.so", "Java's own heap and monitors are not seen, only malloc calls of the JVM and native code"},
    {"libnode.so", "V8's own heap is not seen, only malloc calls of node and native code (such as buffers)"},
    {"node", "V8's own heap is not seen, only malloc calls of node and native code (such as buffers)"},
    {"libpython3", "small Python objects are in mapped arenas: PYTHONMALLOC=malloc shows each object"},
    {"python3", "small Python objects are in mapped arenas: PYTHONMALLOC=malloc shows each object"},
    {"libcoreclr.so", ".NET's own heap is not seen, only malloc calls of native code"},
    {"libmono", "Mono's own heap is not seen, only malloc calls of native code"},
    {"beam.smp", "Erlang's own heap is not seen: +Mea min lets it use malloc"},
    {"libgc.so", "what is taken from Boehm's garbage collector (GC_malloc) is not seen"},
    {"libgphobos.so", "D's garbage-collected heap is not seen, only malloc calls"},
    {"libdruntime-ldc", "D's garbage-collected heap is not seen, only malloc calls"},
    {"libphobos2.so", "D's garbage-collected heap is not seen, only malloc calls"},
    {"php", "PHP's own heap is not seen: USE_ZEND_ALLOC=0 shows it"},
};

struct Object {
  std::string path;
  DynamicNames file;
};

// Returns whether the executable's own allocator is redirected.
bool DescribeAllocator(const std::vector<Object>& objects, const std::string& root, TableOnAllocator table,
                       AttachState attachment, Findings* findings) {
  const LinkedAllocator linked =
      objects.empty() ? LinkedAllocator()
                      : LinkedAllocatorOf(root + objects[0].path, objects[0].file, EntriesWanted(), root);
  if (linked.is_there && table != TableOnAllocator::kDescribes) {
    if (linked.is_seen && linked.is_redirected && table == TableOnAllocator::kHasNone) {
      findings->No(
          "allocator",
          fmt::format("{} has an allocator linked in, and this process has redirected none of its functions: it was "
                      "started with --entries no, or by another build of Holdfast. To see it: holdfast run",
                      BaseName(objects[0].path)));
    } else if (!linked.is_seen) {
      findings->No("allocator", linked.text);
    } else {
      linked.may_lack ? findings->Note("allocator", linked.text) : findings->Ok("allocator", linked.text);
    }
  }
  std::string from;
  for (const Object& object : objects) {
    if (!from.empty() || !object.file.defines.contains("malloc") || !object.file.defines.contains("free")) continue;
    from = IsGlibc(object.path) ? "glibc" : IsFileOfMusl(object.path) ? "musl" : object.path;
  }
  if (from.empty()) {
    findings->Note("allocator", "no object defines malloc and free: it may be linked in under other names");
  } else if (linked.is_there && !linked.is_seen) {
    if (!linked.replaces_malloc) findings->Note("allocator", fmt::format("malloc and free of {} are seen", from));
  } else if (!linked.replaces_malloc && attachment == AttachState::kDetached) {
    findings->Note("allocator",
                   fmt::format("malloc and free are those of {}; since the detach, no call is recorded", from));
  } else if (!linked.replaces_malloc) {
    findings->Ok("allocator", fmt::format("malloc and free are those of {}; calls reach it through the library", from));
  }
  for (const Object& object : objects) {
    if (&object == objects.data() || IsLibc(object.path)) continue;
    const std::string text = PrivateAllocatorText(BaseName(object.path), root + object.path, object.file);
    if (!text.empty()) findings->Note("allocator", text);
  }
  for (const Object& object : objects) {
    if (object.file.has_nims_heap) {
      findings->Note("allocator", fmt::format("{} is written in Nim: Nim's own heap is not seen, only C code's; "
                                              "nim c -d:useMalloc makes it visible",
                                              BaseName(object.path)));
    }
    if (object.file.is_go) {
      findings->Note("allocator",
                     fmt::format("{} is written in Go: Go's own heap and locks are not seen, only C code's",
                                 BaseName(object.path)));
    }
  }
  return linked.is_redirected;
}

void DescribeMappings(const std::vector<Object>& objects, const std::string& root, Findings* findings) {
  if (objects.empty()) return;
  const std::string text = OwnMappingsText(root + objects[0].path);
  if (!text.empty()) findings->Note("mappings", text);
}

void DescribeRuntime(const std::vector<Object>& objects, Findings* findings) {
  for (const Object& object : objects) {
    for (const Runtime& runtime : kRuntimes) {
      if (BaseName(object.path).starts_with(runtime.object))
        return findings->Note("allocator", std::string(runtime.says));
    }
  }
}

void DescribeSymbols(const std::vector<Object>& objects, const std::string& root, Findings* findings) {
  std::vector<std::string> full, exported, no_build_id;
  for (const Object& object : objects) {
    const bool named = object.file.has_symtab || HasDebugFile(root, object.path);
    (named ? full : exported).emplace_back(BaseName(object.path));
    if (object.file.build_id.empty()) no_build_id.emplace_back(BaseName(object.path));
  }
  if (!full.empty()) findings->Ok("symbols", fmt::format("all functions have names in {}", Listed(full)));
  if (!exported.empty()) {
    findings->Note(
        "symbols",
        fmt::format(
            "only exported functions have names in {}: install the -dbgsym packages, or keep .symtab (strip --strip-debug)",
            Listed(exported)));
  }
  if (!no_build_id.empty()) {
    findings->Note("symbols", fmt::format("no build id in {}: its functions can be named only on this machine",
                                          Listed(no_build_id)));
  }
}

// What a call of OpenMP's runtimes means. Waits in the first two are seen.
enum class OpenMpUse { kNone, kLock, kBarrier, kTask, kRegion, kDoacross };

struct OpenMpCall {
  std::string_view name;
  OpenMpUse use;
};
constexpr OpenMpCall kOpenMpCalls[] = {
#define HOLDFAST_OPENMP(name, wrapper) {#name, OpenMpUse::kLock},
#define HOLDFAST_OPENMP_BARRIER(name, wrapper) {#name, OpenMpUse::kBarrier},
#define HOLDFAST_OPENMP_TASK(name) {#name, OpenMpUse::kTask},
#define HOLDFAST_OPENMP_REAL(name) {#name, OpenMpUse::kNone},
#include "sampler/contract/openmp.inc"
#undef HOLDFAST_OPENMP
#undef HOLDFAST_OPENMP_BARRIER
#undef HOLDFAST_OPENMP_TASK
#undef HOLDFAST_OPENMP_REAL
    {"GOMP_doacross_wait", OpenMpUse::kDoacross},
    {"GOMP_doacross_ull_wait", OpenMpUse::kDoacross},
    {"__kmpc_doacross_wait", OpenMpUse::kDoacross},
};

std::vector<std::string_view> OpenMpNames(OpenMpUse use) {
  std::vector<std::string_view> names;
  for (const OpenMpCall& call : kOpenMpCalls) {
    if (call.use == use) names.push_back(call.name);
  }
  return names;
}

std::set<OpenMpUse> OpenMpUsesOf(const Object& object) {
  std::set<OpenMpUse> uses;
  for (const OpenMpCall& call : kOpenMpCalls) {
    if (object.file.needs.contains(std::string(call.name))) uses.insert(call.use);
  }
  for (const std::string& name : object.file.needs) {
    if (StartsOpenMpRegion(name)) uses.insert(OpenMpUse::kRegion);
  }
  return uses;
}

// What the library sees of OpenMP, and what it cannot see.
void DescribeOpenMp(const std::vector<Object>& objects, const std::set<std::string>& unbound, AttachState attachment,
                    std::vector<std::string>* seen, Findings* findings) {
  bool has_runtime = false;
  std::set<OpenMpUse> uses;
  std::vector<std::string> linked_in, plugins;
  for (const Object& object : objects) {
    const bool exports = object.file.defines.contains("GOMP_barrier") || object.file.defines.contains("__kmpc_barrier");
    if (exports && &object != objects.data()) {
      has_runtime = true;
    } else if (object.file.has_openmp) {
      linked_in.emplace_back(BaseName(object.path));
    } else if (const std::set<OpenMpUse> own = OpenMpUsesOf(object); unbound.contains(object.path)) {
      plugins.emplace_back(BaseName(object.path));
    } else {
      uses.insert(own.begin(), own.end());
    }
  }
  if (!linked_in.empty()) {
    findings->Note("locks",
                   fmt::format("OpenMP: waits in {} are not seen: its runtime is linked in statically. Link it "
                               "as a shared library (libgomp.so, libomp.so)",
                               Listed(linked_in)));
  }
  uses.erase(OpenMpUse::kNone);
  if (!has_runtime || (uses.empty() && plugins.empty())) return;
  if (attachment != AttachState::kNone) {
    findings->Note("locks", "OpenMP: waits in a program that was attached are not seen: start it with holdfast run");
    return;
  }
  if (!plugins.empty())
    findings->Note("locks", fmt::format("OpenMP: waits in {} are not seen: the program loaded it after its start "
                                        "(LD_PRELOAD loads it at the start)",
                                        Listed(plugins)));
  const bool has_tasks = uses.contains(OpenMpUse::kTask);
  if (uses.contains(OpenMpUse::kLock)) seen->emplace_back("OpenMP's critical sections, locks and turns");
  if (uses.contains(OpenMpUse::kBarrier) && !has_tasks) seen->emplace_back("OpenMP's barriers");
  std::vector<std::string> unseen;
  if (has_tasks) unseen.insert(unseen.end(), {"for tasks", "at barriers, where threads run tasks"});
  if (uses.contains(OpenMpUse::kRegion)) unseen.emplace_back("at the end of parallel regions");
  if (uses.contains(OpenMpUse::kDoacross)) unseen.emplace_back("in doacross loops");
  if (!unseen.empty()) findings->Note("locks", fmt::format("OpenMP: waits {} are not seen", fmt::join(unseen, ", ")));
}

void DescribeLocks(const std::vector<Object>& objects, const DynamicNames& library,
                   const std::set<std::string>& unbound, AttachState attachment, Findings* findings) {
  std::vector<std::string> seen, unseen;
  for (const auto& [kind, functions] : WaitingFunctions()) {
    bool used = false, covered = true;
    for (const Object& object : objects) {
      if (IsLibc(object.path)) continue;
      for (const std::string& function : functions) {
        if (!object.file.needs.contains(function)) continue;
        used = true;
        covered = covered && library.defines.contains(function);
      }
    }
    if (used) (covered ? seen : unseen).push_back(kind);
  }
  DescribeOpenMp(objects, unbound, attachment, &seen, findings);
  if (!seen.empty()) findings->Ok("locks", fmt::format("waits that are seen: {}", Listed(seen, 20)));
  if (!unseen.empty()) findings->Note("locks", fmt::format("waits that are not seen: {}", Listed(unseen, 20)));
  std::vector<std::string_view> spinning;
  for (const Object& object : objects) {
    AddSpinningLocks(object.path, &spinning);
    for (const std::string& scope : object.file.scopes) {
      for (const SpinningLocks& locks : AllSpinningLocks()) {
        if (locks.scope.starts_with(scope + "::") &&
            std::find(spinning.begin(), spinning.end(), locks.of) == spinning.end())
          spinning.push_back(locks.of);
      }
    }
  }
  if (!spinning.empty()) findings->Note("locks", SpinningText(spinning));
  if (seen.empty() && unseen.empty())
    findings->Note("locks", "it calls no function that waits for a lock, or looks such functions up at run time");
}

void DescribeExceptions(const std::vector<Object>& objects, AttachState attachment, Findings* findings) {
  std::vector<std::string> unseen;
  bool seen = false;
  for (const Object& object : objects) {
    const auto& needs = object.file.needs;
    if (object.file.throws_itself) unseen.emplace_back(BaseName(object.path));
    seen = seen || (!object.file.throws_itself && needs.contains("__cxa_throw")) ||
           (needs.contains("_Unwind_RaiseException") && !object.file.defines.contains("__cxa_throw"));
  }
  if (!unseen.empty())
    findings->Note(
        "exceptions",
        fmt::format(
            "{} links the C++ runtime or the unwinder statically (-static-libstdc++, -static-libgcc): its exceptions are not seen",
            Listed(unseen)));
  if (seen && attachment != AttachState::kNone) {
    findings->Note("exceptions",
                   "exceptions of a program that was attached are not recorded: start it with holdfast run");
  } else if (seen) {
    findings->Ok("exceptions", "exceptions are seen, with their types");
  }
}

// Libraries of the system open such plugins themselves (libmount opens libcryptsetup).
void DescribeDeepPlugins(const std::vector<Object>& objects, const std::string& root, Findings* findings) {
  for (const Object& object : objects) {
    if (IsSystemLibrary(object.path) || !OpensPluginsDeep(root + object.path)) continue;
    findings->Note(
        "plugins",
        fmt::format(
            "{} opens plugins with RTLD_DEEPBIND: their own allocations and frees are not seen, and blocks that libc allocates for them count as freed",
            object.path));
  }
}

}  // namespace

bool DescribeObjects(const std::vector<std::string>& paths, const std::string& root, const std::string& library,
                     const std::set<std::string>& unbound, Findings* findings, TableOnAllocator table,
                     AttachState attachment) {
  std::vector<Object> objects;
  for (const std::string& path : paths) {
    if (IsHoldfastLibrary(path)) continue;
    absl::StatusOr<DynamicNames> file = ReadDynamicNames(root + path);
    if (!file.ok()) {
      findings->Note("symbols", fmt::format("{}: {}", path, std::string(file.status().message())));
      continue;
    }
    objects.push_back({path, *std::move(file)});
  }
  const absl::StatusOr<DynamicNames> own = ReadDynamicNames(library);
  const auto libc = std::find_if(objects.begin(), objects.end(), [](const Object& object) {
    return IsLibc(object.path) && object.file.defines.contains("puts");
  });
  if (libc != objects.end()) DescribeLibc(root + libc->path, findings);
  const bool is_redirected = DescribeAllocator(objects, root, table, attachment, findings);
  DescribeMappings(objects, root, findings);
  DescribeRuntime(objects, findings);
  DescribeLocks(objects, own.ok() ? *own : DynamicNames(), unbound, attachment, findings);
  DescribeExceptions(objects, attachment, findings);
  DescribeDeepPlugins(objects, root, findings);
  DescribeSymbols(objects, root, findings);
  return is_redirected;
}

namespace {

// In address order.
std::vector<ModuleInfo> ModulesOf(int pid, const ProcessMemory& memory) {
  std::vector<ModuleInfo> modules;
  AddModulesOf(pid, memory, &modules);
  return modules;
}

// Returns the paths of the modules to which the module's slots for these names lead.
std::vector<std::string> TargetsOfSlots(const ModuleInfo& module, const std::string& root,
                                        const std::vector<std::string_view>& names, const ProcessMemory& memory,
                                        const std::vector<ModuleInfo>& modules) {
  const FileDescriptor file(open((root + module.path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const std::unique_ptr<ElfFile> elf = file.valid() ? ElfFile::Open(file.get()) : nullptr;
  std::vector<std::string> targets;
  if (elf == nullptr || !RunsHere(*elf)) return targets;
  for (const ImportSlot& slot : ImportSlotsOf(*elf, names)) {
    uint64_t target = 0;
    if (!memory.Read(module.bias + slot.address, &target, sizeof target)) continue;
    const auto found = std::find_if(modules.begin(), modules.end(), [target](const ModuleInfo& other) {
      return target >= other.start && target < other.end;
    });
    if (found != modules.end()) targets.push_back(found->path);
  }
  return targets;
}

}  // namespace

void DescribeFreesElsewhere(int pid, const std::string& root, const std::set<std::string>& noted, Findings* findings) {
  const ProcessMemory memory(pid);
  const std::vector<ModuleInfo> modules = ModulesOf(pid, memory);
  for (const ModuleInfo& module : modules) {
    if (module.path.find(".so") == std::string::npos || IsSystemLibrary(module.path) || noted.contains(module.path))
      continue;
    for (const std::string& target : TargetsOfSlots(module, root, {"free"}, memory, modules)) {
      // The slot still points into the module itself: not bound yet.
      if (target == module.path || IsHoldfastLibrary(target)) continue;
      findings->Note(
          "frees",
          fmt::format(
              "{} calls the free of {} (RTLD_DEEPBIND, or its own free): its own allocations and frees are not seen, and blocks that libc allocates for it count as freed",
              module.path, BaseName(target)));
      break;
    }
  }
}

std::set<std::string> OpenMpUsersUnseen(int pid, const std::string& root) {
  const ProcessMemory memory(pid);
  const std::vector<ModuleInfo> modules = ModulesOf(pid, memory);
  std::set<std::string> unseen;
  // libgomp, libomp, libiomp5, as the library looks for them.
  if (std::none_of(modules.begin(), modules.end(),
                   [](const ModuleInfo& module) { return module.path.find("omp") != std::string::npos; }))
    return unseen;
  bool has_tasks = false;
  const auto leads_to = [&](const ModuleInfo& module, OpenMpUse use) {
    return TargetsOfSlots(module, root, OpenMpNames(use), memory, modules);
  };
  for (const ModuleInfo& module : modules) has_tasks = has_tasks || !leads_to(module, OpenMpUse::kTask).empty();
  for (const ModuleInfo& module : modules) {
    std::vector<std::string> targets = leads_to(module, OpenMpUse::kLock);
    // The library leaves the barriers of a program with tasks alone.
    if (targets.empty() && !has_tasks) targets = leads_to(module, OpenMpUse::kBarrier);
    if (!targets.empty() && std::none_of(targets.begin(), targets.end(), IsHoldfastLibrary)) unseen.insert(module.path);
  }
  return unseen;
}

// Runs the system's own loader with --list, which maps the program and runs none of its code. Never starts the
// interpreter that the program names, because that may be any program.
std::vector<std::string> ObjectsOfProgram(const std::string& program) {
  std::vector<std::string> objects = {program};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return objects;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  // Resolve links: libraries found by $ORIGIN are beside the file itself.
  std::error_code none;
  const std::string file = std::filesystem::canonical(program, none).string();
  const ExecutableKind kind = ReadExecutableKind(program);
  const std::string loader = kind.is_musl ? kind.interpreter : kOwnLoader;
  const char* const arguments[] = {loader.c_str(), "--list", none ? program.c_str() : file.c_str(), nullptr};
  pid_t child = 0;
  const int error =
      posix_spawn(&child, loader.c_str(), &actions, nullptr, const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  const FileDescriptor answer(ends[0]);
  if (error != 0) return objects;
  const std::string text = ReadWhole(answer);
  waitpid(child, nullptr, 0);
  // "\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x…)", "\t/lib64/ld-linux-x86-64.so.2 (0x…)"
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t start = line.find('/'), end = line.rfind(" (0x");
    if (start == std::string::npos || end == std::string::npos || end < start) continue;
    // musl is both the program's linker and its libc.
    const std::string path = line.substr(start, end - start);
    if (std::find(objects.begin(), objects.end(), path) == objects.end()) objects.push_back(path);
  }
  return objects;
}

std::vector<std::string> ObjectsOfProcess(int pid) {
  std::vector<std::string> objects;
  const std::string executable = ExecutableOfProcess(pid);
  if (!executable.empty()) objects.push_back(executable);
  std::istringstream maps(ReadOfProcess(pid, "maps"));
  for (std::string line; std::getline(maps, line);) {
    const size_t path_at = line.find('/');
    if (path_at == std::string::npos || line.find(" r-xp ") == std::string::npos || line.ends_with(kDeletedMark))
      continue;
    const std::string path = line.substr(path_at);
    if (std::find(objects.begin(), objects.end(), path) == objects.end()) objects.push_back(path);
  }
  SortBySearch(pid, &objects);
  return objects;
}

}  // namespace holdfast
