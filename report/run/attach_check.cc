#include "report/run/attach_check.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/base/libc_names.h"
#include "report/builder/symbols_in_memory.h"
#include "report/daemon/find_tables.h"
#include "report/daemon/installation.h"
#include "report/daemon/sweep_tables.h"
#include "report/names/elf/dynamic_names.h"
#include "report/names/elf/elf_symbols.h"
#include "report/names/elf/executable_kind.h"
#include "report/names/elf/processors.h"
#include "report/observe/memory/mappings.h"
#include "report/observe/outside/frozen_group.h"
#include "report/observe/outside/modules_of_process.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"
#include "report/run/doctor_objects.h"
#include "report/run/doctor_surroundings.h"
#include "report/run/linked_allocator.h"
#include "report/run/memory_limits.h"
#include "report/run/safe_thread.h"
#include "report/run/search_order.h"
#include "report/run/shortened_file.h"
#include "report/run/static_tls.h"
#include "sampler/contract/table_share.h"

namespace holdfast {
namespace {

class Checker {
 public:
  Checker(pid_t pid, const std::string& library, const std::string& tables, const FilterAnswer& filters)
      : pid_(pid),
        thread_(ThreadWithMemory(pid)),
        process_(fmt::format("{}", thread_)),
        root_(RootOfProcess(pid)),
        library_(library),
        tables_(tables),
        filters_(filters),
        objects_(ObjectsOfProcess(pid)) {}

  AttachCheck Run(bool detaches) {
    if (!kHasAttach) {
      Refuse("processor", "attach is only possible on x86-64. Start it with holdfast run");
      return std::move(check_);
    }
    if (const std::string emulator = Emulator(); !emulator.empty()) {
      Refuse("emulator", fmt::format("{} executes holdfast, and emulated programs cannot trace others. "
                                     "Start it with holdfast run",
                                     emulator));
      return std::move(check_);
    }
    if (objects_.empty()) {
      Refuse("program",
             "its executable cannot be read: it has just ended, or is not dumpable (prctl PR_SET_DUMPABLE), which only "
             "root may examine");
      return std::move(check_);
    }
    Tracing();
    if (!check_.refused.empty()) return std::move(check_);
    Executable(detaches);
    // A detach loads nothing and makes no table: the program may have changed its user or its root folder meanwhile.
    if (!detaches) User();
    Surroundings(detaches);
    Library(detaches);
    if (detaches) {
      Filters();
      return std::move(check_);
    }
    Limits();
    Descriptors();
    Sealed();
    if (check_.refused.empty()) ThreadLocals();
    Allocator();
    Tables();
    Filters();
    if (check_.refused.empty()) Threads();
    if (check_.refused.empty()) {
      check_.findings.Note("later",
                           "asked of the stopped thread only, before the library is loaded: Syscall User Dispatch, "
                           "PR_SET_TSC, a thread pointer that is not the C library's. Attach refuses these then");
      check_.findings.Note(
          "unseen",
          "not recorded: blocks and locks from before the attach, calls of libraries that are loaded "
          "later, calls through stored pointers to functions, CPU samples, exceptions, OpenMP, names such as "
          "mallocx of an allocator's library, programs that it executes");
    }
    return std::move(check_);
  }

 private:
  void Refuse(const char* topic, const std::string& text) {
    if (check_.refused.empty()) check_.refused = text;
    check_.findings.No(topic, text);
  }
  void Ok(const char* topic, std::string text) { check_.findings.Ok(topic, std::move(text)); }

  void Executable(bool detaches) {
    ExecutableKind file = ReadExecutableKind(IsReplaced() ? KeptExecutable() : root_ + objects_[0]);
    // To detach, its kind is enough, whatever its root folder is now.
    if (detaches && file.kind != ExecutableKind::Kind::kElf) file = ReadExecutableKind(KeptExecutable());
    const auto has = [&](const char* part) {
      return std::any_of(objects_.begin(), objects_.end(), [part](const std::string& object) {
        return BaseName(object).find(part) != std::string_view::npos;
      });
    };
    if (const std::string chroot = Chroot(); file.kind != ExecutableKind::Kind::kElf && !chroot.empty()) {
      Refuse(
          "program",
          fmt::format("runs in a chroot, {}, where its files are not found by the names that the kernel gives. Start "
                      "it with holdfast run",
                      chroot));
    } else if (file.kind != ExecutableKind::Kind::kElf) {
      Refuse("program",
             fmt::format("{} cannot be read as an executable: it was replaced or deleted meanwhile", objects_[0]));
    } else if (!file.is_64_bit || !file.machine.empty()) {
      Refuse("program", fmt::format("is not a {} program", kOwnPrograms));
    } else if (file.interpreter.empty() && BaseName(objects_[0]).starts_with("ld-")) {
      Refuse("program",
             "was started as an argument of the dynamic linker (ld.so PROGRAM): its executable is not found then. "
             "Start the program itself");
    } else if (file.interpreter.empty()) {
      Refuse("program", "is linked statically, so no library can be loaded");
    } else if (file.is_musl) {
      Refuse("program", "uses the C library musl; attach needs glibc. Start it with holdfast run");
    } else if (!file.sanitizer.empty() || has("libasan.so") || has("libtsan.so") || has("libmsan.so") ||
               has("libhwasan.so")) {
      Refuse("program", "has a sanitizer, which has its own malloc: the library would record nothing");
    } else if (has("vgpreload_")) {
      Refuse("program", "runs under valgrind, which has its own malloc: the library would record nothing");
    } else {
      Ok("program", fmt::format("{}, linked dynamically ({})", kOwnPrograms, file.interpreter));
    }
    if (const std::string shortened = ShortenedFileOf(pid_); !shortened.empty()) {
      Refuse("program",
             fmt::format(
                 "{} was shortened since it was loaded (by cp, for example): to read the rest would end the program "
                 "(SIGBUS). Replace files by a rename, and start the program anew",
                 shortened));
    }
    if (AuxiliaryValue(pid_, AT_SECURE) != 0) {
      Refuse("program",
             "was started with raised privileges (setuid, setgid or capabilities): the library records nothing there");
    }
  }

  void User() {
    std::istringstream words(StatusField(process_, "Uid"));
    uid_t ids[4] = {};
    for (uid_t& id : ids) words >> id;
    const bool is_one = std::all_of(std::begin(ids), std::end(ids), [&](uid_t id) { return id == ids[0]; });
    if (!is_one) {
      Refuse("user", "its real, effective and saved user ids differ: its tables would belong to none of them");
    } else if (ids[0] != geteuid()) {
      Refuse("user", fmt::format("belongs to user {}. Run holdfast as that user, or as root", ids[0]));
    } else {
      Ok("user", fmt::format("is one of user {}", ids[0]));
    }
  }

  // A deploy replaces the file of a running program. The kernel keeps the old one.
  bool IsReplaced() const { return objects_[0].ends_with(kDeletedMark) && Chroot().empty(); }
  std::string KeptExecutable() const { return fmt::format("/proc/{}/exe", thread_); }

  // The root folder of the process, as seen from here; "": the root of its mount namespace.
  std::string Chroot() const {
    std::error_code none;
    const std::string root = std::filesystem::read_symlink(root_, none).string();
    return root == "/" ? "" : root;
  }

  bool IsElsewhere(const char* name) const {
    struct stat own, its;
    return stat(fmt::format("/proc/self/ns/{}", name).c_str(), &own) == 0 &&
           stat(fmt::format("/proc/{}/ns/{}", thread_, name).c_str(), &its) == 0 &&
           (own.st_ino != its.st_ino || own.st_dev != its.st_dev);
  }

  // Unknown, and false, if the kernel was built without kcmp.
  bool SharesMemoryWithParent() const {
    constexpr int kMemory = 1;  // KCMP_VM
    pid_t parent = 0;
    return absl::SimpleAtoi(StatusField(process_, "PPid"), &parent) && parent > 0 &&
           syscall(SYS_kcmp, pid_, parent, kMemory, 0, 0) == 0;
  }

  void Surroundings(bool detaches) {
    struct stat own, its;
    const bool has_other_root = stat("/", &own) == 0 && stat((root_ + "/").c_str(), &its) == 0 &&
                                (own.st_ino != its.st_ino || own.st_dev != its.st_dev);
    if (!detaches && SharesMemoryWithParent()) {
      Refuse("parent",
             fmt::format("is a child of vfork, and shares the memory of process {0}. Attach that one: holdfast attach "
                         "{0}",
                         StatusField(process_, "PPid")));
    }
    if (IsElsewhere("user") && !detaches) {
      Refuse(
          "namespace",
          "has another user namespace (a rootless container), so its tables belong to a user that differs inside and "
          "outside. Run holdfast attach inside it");
    } else if (has_other_root || IsElsewhere("mnt")) {
      check_.root = root_;
      check_.starts_exporter = false;
      struct stat self;
      if (!detaches && lstat((root_ + "/proc/self").c_str(), &self) != 0) {
        Refuse("namespace", "sees no /proc, through which the library is handed over (chroot)");
      } else {
        Ok("namespace",
           "sees other files (a container, or a sandbox of systemd): the library is handed over in memory");
      }
    } else if (IsElsewhere("pid")) {
      check_.starts_exporter = false;
      Ok("namespace", "has another pid namespace");
    }
    if (StatusField(process_, "x86_Thread_features").find("shstk") != std::string::npos)
      Refuse("processor", "uses a shadow stack, which allows no borrowed thread");
  }

  void Filters() {
    const FilterCounts now = CountFilters(pid_);
    const bool has_filter = HasMode(now, '2');
    check_.starts_exporter = check_.starts_exporter && !has_filter;
    if (HasMode(now, '1')) {
      Refuse("seccomp", "is in seccomp's strict mode, which ends it when the library is loaded");
    } else if (!has_filter) {
      Ok("seccomp", "no filter");
    } else if (filters_.is_left_open) {
      check_.findings.Note(
          "seccomp",
          "has a filter. Attach stops each thread for a moment to read it, which only root may do, and refuses "
          "if the filter may end the program");
    } else if (!filters_.forbidden.empty()) {
      Refuse("seccomp", filters_.forbidden);
    } else if (!filters_.is_known || FiltersChanged(filters_.counts, now)) {
      Refuse(
          "seccomp",
          "has installed a seccomp filter since its filters were read. Run holdfast again as root, which reads them");
    } else {
      Ok("seccomp", "its filter allows all calls of the library");
    }
    if (StatusField(process_, "NoNewPrivs") == "1")
      check_.findings.Note("seccomp", "no_new_privs is set: it may install another filter later");
  }

  void Tracing() {
    if (const std::string tracer = StatusField(process_, "TracerPid"); !tracer.empty() && tracer != "0") {
      Refuse("tracing", fmt::format("is traced by process {} (a debugger, strace). End that first", tracer));
      return;
    }
    const std::string state = StatusField(process_, "State");
    if (!state.empty() && std::string_view("TtZX").find(state[0]) != std::string_view::npos)
      Refuse("tracing", fmt::format("is not running (state {}). Continue it first", state));
    if (const std::string frozen = WhyFrozen(pid_); !frozen.empty())
      Refuse("tracing", frozen + " (docker pause, systemctl freeze), so none of its threads runs. Thaw it first");
    // No such address is mapped, and the kernel checks the rights first.
    char byte = 0;
    const iovec ours = {&byte, 1}, its = {nullptr, 1};
    if (process_vm_readv(thread_, &ours, 1, &its, 1, 0) == 1 || errno == EFAULT) return Ok("tracing", "is permitted");
    const int error = errno;
    const LookRights rights = LookRightsFor(pid_);
    Refuse("tracing", fmt::format("the kernel does not permit it ({}): {}", strerror(error),
                                  WhyUnreadable(rights, pid_, "attach")));
  }

  // The library that an earlier attach has loaded: its path, or "" for a file in memory. Nothing: none is loaded.
  std::optional<std::string> LoadedLibrary() const {
    for (const std::string& object : objects_) {
      if (IsHoldfastLibrary(object)) return object;
    }
    std::istringstream lines(ReadOfProcess(pid_, "maps"));
    for (std::string line; std::getline(lines, line);) {
      const size_t path = line.find('/');
      if (path == std::string::npos || !IsHoldfastLibrary(line.substr(path))) continue;
      // An update of Holdfast replaces the file: the dynamic linker still knows its path.
      const std::string_view file = WithoutDeletedMark(std::string_view(line).substr(path));
      return file.starts_with("/memfd:") ? "" : std::string(file);
    }
    return std::nullopt;
  }

  // By its build id: since it was loaded, the process may have changed its root folder or its mounts.
  bool IsOurs(const ModuleInfo& loaded) const {
    const FileDescriptor file(open(library_.c_str(), O_RDONLY | O_CLOEXEC));
    return file.valid() && ElfSymbols::Load(file.get(), loaded.build_id.empty() ? "?" : loaded.build_id).ok();
  }

  ModuleInfo LoadedModule() const {
    std::vector<ModuleInfo> modules;
    AddModulesOf(pid_, ProcessMemory(pid_), &modules);
    const auto found = std::find_if(modules.begin(), modules.end(),
                                    [](const ModuleInfo& module) { return IsHoldfastLibrary(module.path); });
    return found != modules.end() ? *found : ModuleInfo{};
  }

  // Whether a library of another build has the function that detaches, which has the form of our call in its name.
  bool TakesOurCall(const ModuleInfo& loaded) const {
    const FileDescriptor names = SymbolsInMemory(thread_, loaded);
    if (!names.valid()) return false;
    const auto symbols = ElfSymbols::Load(names.get(), loaded.build_id);
    return symbols.ok() && (*symbols)->FunctionCalled(kAttachFunction).has_value();
  }

  // What a library does that was loaded at the start; "": an attach has loaded it. Programs that change their title overwrite
  // their environment (setproctitle), so the variables are asked last.
  std::string AboutPreloaded() {
    const std::vector<std::string> folders = tables_.empty() ? std::vector<std::string>() : std::vector{tables_};
    if (const absl::StatusOr<ProcessTable> process = FindTableOf(pid_, folders); process.ok()) {
      check_.is_profiled = !IsAttached(process->table);
      return check_.is_profiled ? "was started with the library, and is profiled already" : "";
    }
    if (VariableOf(process_, "LD_PRELOAD").find("libholdfast.so") == std::string::npos) return "";
    const auto is_no = [this](const char* variable) {
      const std::string value = VariableOf(process_, variable);
      return value == "no" || value == "0";
    };
    if (is_no("HOLDFAST_ENABLE")) {
      return "was started with the library switched off (HOLDFAST_ENABLE=0): nothing is recorded, and attach cannot switch "
             "it on. Start it without that variable";
    }
    // "NSpid: 4242 1": the last number is the pid as the process sees it.
    const std::string pids = StatusField(fmt::format("{}", pid_), "NSpid"),
                      root = VariableOf(process_, "HOLDFAST_ROOT");
    if (is_no("HOLDFAST_CHILDREN") && !root.empty() && root != pids.substr(pids.find_last_of("\t ") + 1)) {
      return "is a child of a program that was started with --children no: the library is loaded and records nothing, and "
             "attach cannot switch it on. Start that program with --children yes";
    }
    check_.is_profiled = true;
    return fmt::format(
        "was started with the library. It has no table: nothing was sampled so far, or nothing can be recorded, as "
        "holdfast doctor {} tells",
        pid_);
  }

  void Library(bool detaches) {
    const std::optional<std::string> loaded = LoadedLibrary();
    check_.has_library = loaded.has_value();
    struct stat own, its;
    if (!loaded.has_value()) {
      // In a mount namespace that has the same file, nothing need be handed over.
      const bool is_seen = stat(library_.c_str(), &own) == 0 && stat((root_ + library_).c_str(), &its) == 0 &&
                           own.st_ino == its.st_ino && own.st_dev == its.st_dev;
      check_.loaded_library = is_seen ? library_ : "";
      return Ok("library", library_);
    }
    // Its SONAME, by which dlopen finds a loaded object.
    check_.loaded_library = loaded->empty() ? kMemoryFileName : *loaded;
    if (const std::string preloaded = AboutPreloaded(); !preloaded.empty()) {
      check_.is_preloaded = true;
      Refuse("library", preloaded);
      return;
    }
    const ModuleInfo module = LoadedModule();
    if (IsOurs(module)) return Ok("library", "is loaded from an earlier attach");
    const std::string name = loaded->empty() ? "a file in memory" : *loaded;
    if (detaches && TakesOurCall(module)) {
      // The file at its path may be another one now.
      check_.loaded_library = kMemoryFileName;
      Ok("library", fmt::format("has another build of the library loaded, {}, which can be detached", name));
    } else if (detaches) {
      Refuse("library",
             fmt::format("has another build of the library loaded, {}, which takes other calls. Use the holdfast "
                         "that it belongs to",
                         name));
    } else {
      Refuse("library",
             fmt::format("has another build of the library loaded: {}. holdfast detach {} ends its recording. To "
                         "attach again, use the holdfast that it belongs to, or start the program anew",
                         name, pid_));
    }
  }

  // A write beyond the limit of the file size sends SIGXFSZ, which ends the program. The other limits
  // only make dlopen fail, but after a thread was stopped.
  void Limits() {
    if (LimitOf(process_, "Max file size").value_or(UINT64_MAX) < kFirstTableBytes && !HasTable()) {
      Refuse("limits",
             "may not make a file as large as its table (RLIMIT_FSIZE, ulimit -f). Raise it with prlimit --fsize");
    }
    struct stat own;
    if (check_.has_library || stat(library_.c_str(), &own) != 0) return;
    const auto limit_of = [&](std::string_view title) { return LimitOf(process_, title).value_or(UINT64_MAX); };
    if (check_.loaded_library.empty() && limit_of("Max file size") < static_cast<uint64_t>(own.st_size)) {
      Refuse("limits",
             "may not make a file as large as the library, which is handed over in one (RLIMIT_FSIZE). Raise it with "
             "prlimit --fsize");
    }
    // The library in memory takes 3.7 MiB, 3.2 of them variables; the stack on which it is loaded 0.5. With 8 MiB the
    // smallest table fits, too. Memory in use while the first stack is walked counts as data: 9 MB were enough with --exact.
    constexpr uint64_t kMapped = 8 << 20, kData = 10 << 20;
    GroupMemory(kMapped);
    for (const std::string& limit : MemoryLimitsBelow(process_, kMapped, kData)) Refuse("limits", limit);
  }

  // Also for the second attach of a process without a table.
  void Descriptors() {
    if (HasTable()) return;
    constexpr uint64_t kFiles = 2;  // the library or its table, and one of /proc meanwhile
    std::error_code failed;
    const auto in_use = std::distance(std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", thread_), failed),
                                      std::filesystem::directory_iterator());
    if (!failed && static_cast<uint64_t>(in_use) + kFiles > LimitOf(process_, "Max open files").value_or(UINT64_MAX))
      Refuse("limits", "may open no more files (RLIMIT_NOFILE, ulimit -n). Raise it with prlimit --nofile");
  }

  // glibc writes the entries of an object when it loads it, and may then seal them (mseal): nobody can change them, not
  // even the process. They are in pages of files that are read-only and were written.
  void Sealed() {
    // The kernel holds up the process's mmap meanwhile, 20 ms for each GiB.
    constexpr uint64_t kMaxResident = 1 << 30;
    if (StatusBytes(process_, "VmRSS") > kMaxResident) {
      return check_.findings.Note("sealed",
                                  "whether entries are in sealed memory (mseal) is not asked of so large a process; "
                                  "attach is undone if it meets one");
    }
    const absl::StatusOr<std::vector<MemoryMapping>> mappings = ReadMappings(pid_);
    if (!mappings.ok()) return;  // it has ended
    std::set<std::string> sealed;
    for (const MemoryMapping& mapping : *mappings) {
      const bool is_read_only = mapping.readable && !mapping.writable && !mapping.executable && !mapping.shared;
      if (mapping.sealed && is_read_only && mapping.name.starts_with('/') && mapping.anonymous + mapping.swapped > 0)
        sealed.insert(mapping.name);
    }
    if (sealed.empty()) return;
    const std::string what = fmt::format(
        "the entries of {}{} are in sealed memory (mseal), which cannot be changed", BaseName(*sealed.begin()),
        sealed.size() == 1 ? "" : fmt::format(" and {} other files", sealed.size() - 1));
    if (!IsAttachedNow()) return Refuse("sealed", what + ". Start it with holdfast run");
    check_.findings.Note("sealed", what + ". Attach redirects other libraries that were loaded since its first time");
  }

  bool HasTable() const { return check_.has_library && FindTableOf(pid_, {}).ok(); }
  bool IsAttachedNow() const {
    if (!check_.has_library) return false;
    const absl::StatusOr<ProcessTable> process = FindTableOf(pid_, {});
    return process.ok() && IsAttached(process->table) && !IsDetached(process->table);
  }

  // Libraries that came by dlopen may have used up what glibc keeps for those.
  // The kernel ends a process of a group that has no memory left.
  void GroupMemory(uint64_t need) {
    constexpr uint64_t kUsualTable = 64 << 20;
    const std::optional<GroupLimit> group = TightestGroup(pid_);
    if (!group.has_value() || group->left_bytes >= need + kUsualTable) return;
    const std::string text =
        fmt::format("{:.1f} MiB of memory are left in its control group {} (memory.max), besides cached files",
                    static_cast<double>(group->left_bytes) / (1 << 20), group->folder);
    // With swap space, other memory is swapped out.
    struct sysinfo system {};
    if (group->left_bytes < need && (sysinfo(&system) != 0 || system.freeswap == 0)) {
      Refuse("memory", fmt::format("only {}. The library and its first table take up to {} MiB. Raise the limit", text,
                                   need >> 20));
    } else {
      check_.findings.Note("memory", fmt::format("{}; the table grows to 64 MiB", text));
    }
  }

  void ThreadLocals() {
    if (check_.has_library) return;
    const absl::StatusOr<StaticTls> need = StaticTlsNeededBy(library_);
    if (!need.ok()) return Refuse("TLS", std::string(need.status().message()));
    if (need->bytes == 0) return Ok("TLS", "the library needs no static TLS");
    const absl::StatusOr<StaticTls> left = FreeStaticTls(pid_);
    if (!left.ok()) {
      return check_.findings.Note(
          "TLS",
          fmt::format("how much static TLS is left is not known: {}. The library needs {} bytes; if there is less, "
                      "dlopen refuses it, and nothing is changed",
                      std::string(left.status().message()), need->bytes));
    }
    if (left->bytes < need->bytes || left->alignment < need->alignment) {
      return Refuse(
          "TLS", fmt::format("has {} bytes of static TLS left, and the library needs {}: other libraries that came by "
                             "dlopen have used it. Start it with holdfast run, or with "
                             "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=2048",
                             left->bytes, need->bytes));
    }
    Ok("TLS", fmt::format("has {} bytes of static TLS left, and the library needs {}", left->bytes, need->bytes));
  }

  // The exporter has the rights of the process's user. The kernel denies /proc/PID/root of such a process to this user.
  bool IsHiddenFromItsUser() const {
    struct stat info;
    const bool belongs_to_root = stat(fmt::format("/proc/{}", thread_).c_str(), &info) == 0 && info.st_uid == 0;
    const bool has_capability = StatusField(process_, "CapPrm").find_first_not_of('0') != std::string::npos;
    return !StatusField(process_, "Uid").starts_with("0") && (belongs_to_root || has_capability);
  }

  void Allocator() {
    const std::string file = IsReplaced() ? KeptExecutable() : root_ + objects_[0];
    const auto names = ReadDynamicNames(file);
    if (!names.ok()) return;
    const LinkedAllocator linked = LinkedAllocatorOf(file, *names, EntriesWanted(), IsReplaced() ? "" : root_);
    const bool has_own = linked.replaces_malloc || names->defines.contains("malloc") || names->has_hidden_malloc;
    if (has_own && !linked.is_redirected) {
      Refuse("allocator", linked.text.empty() ? "its executable has an allocator of its own, which cannot be redirected"
                                              : "its executable's allocator cannot be redirected: " + linked.text);
    } else if (!linked.why_not_late.empty()) {
      Refuse("allocator", linked.why_not_late + ". Start it with holdfast run");
    } else if (const std::string second = SecondAllocator(); !second.empty()) {
      Refuse("allocator",
             fmt::format("{} has an allocator beside the one that the program uses: blocks of one must not "
                         "be freed by the other",
                         second));
    } else if (linked.is_redirected) {
      Ok("allocator",
         fmt::format("{}. All threads are stopped at once for some ms, and system calls such as epoll_wait "
                     "return EINTR, as after SIGSTOP and SIGCONT",
                     linked.text));
    } else if (linked.is_there) {
      check_.findings.Note("allocator", "its executable has an allocator of its own beside malloc, which is not seen");
    } else {
      Ok("allocator", "calls of malloc pass entries that can be redirected");
    }
  }

  // Returns an object that defines malloc behind another one in search order, such as a plugin with an allocator of its own
  // (RTLD_DEEPBIND); "" if there is none. libc is the last allocator.
  std::string SecondAllocator() const {
    bool found = false;
    for (const std::string& object : objects_) {
      if (IsHoldfastLibrary(object) || BaseName(object).starts_with("ld-")) continue;
      const bool is_kept = &object == &objects_[0] && IsReplaced();
      const auto names = ReadDynamicNames(is_kept ? KeptExecutable() : root_ + object);
      if (!names.ok() || !names->defines.contains("malloc")) continue;
      if (found && !IsFileOfGlibc(object)) return object;
      found = true;
    }
    return "";
  }

  void Tables() {
    if (!check_.root.empty()) return TablesElsewhere();
    const std::string folder = tables_.empty() ? UsualTablesFolder(".") : tables_;
    const auto known = TablesFolder(folder);
    check_.tables = known.ok() ? *known : folder;
    if (!known.ok()) {
      Refuse("tables", std::string(known.status().message()));
    } else if (const std::string why = WhyNoTable(folder); !why.empty()) {
      Refuse("tables", why);
    } else {
      Ok("tables", fmt::format("in {}", *known));
    }
  }

  // The process makes its table in its own folder, which is reached through /proc/PID/root.
  void TablesElsewhere() {
    check_.tables = tables_.empty() ? "/dev/shm" : tables_;
    const std::string here = check_.root + check_.tables;
    if (IsHiddenFromItsUser()) {
      return Refuse(
          "tables",
          "has other files and has changed its user or has capabilities: the exporter, which runs as that user, "
          "cannot reach its table. Start it with holdfast run");
    }
    struct statfs kind;
    if (check_.tables[0] != '/' || statfs(here.c_str(), &kind) != 0 ||
        (kind.f_type != TMPFS_MAGIC && kind.f_type != RAMFS_MAGIC)) {
      Refuse("tables", fmt::format("{} is no folder in memory there. Name one with --tables", check_.tables));
    } else if (const std::string why = WhyNoTable(here); !why.empty()) {
      Refuse("tables", why);
    } else {
      Ok("tables", fmt::format("in its own {}", check_.tables));
    }
  }

  void Threads() {
    absl::StatusOr<std::unique_ptr<ProcessCode>> code = ProcessCode::Read(pid_);
    // A program that has just begun has not mapped its libraries yet.
    constexpr int kLooks = 20;
    for (int i = 0; i < kLooks && !code.ok(); ++i) {
      constexpr timespec kPause = {0, 5'000'000};
      nanosleep(&kPause, nullptr);
      code = ProcessCode::Read(pid_);
    }
    if (!code.ok()) return Refuse("threads", std::string(code.status().message()));
    if ((*code)->addresses().linker_locks[0] == 0) return Refuse("threads", kNoLinkerLocks);
    const std::vector<ThreadChoice> choices = ChooseThreads(pid_, code->get());
    if (choices.empty() || !choices[0].why.empty()) {
      check_.findings.Note(
          "threads",
          fmt::format("none of {} threads can be used at this moment{}; attach tries for 10s", choices.size(),
                      choices.empty() ? "" : ": thread " + std::to_string(choices[0].thread) + " " + choices[0].why));
      return;
    }
    const char* cost = choices[0].cost == StopCost::kShort
                           ? "its system call returns fewer bytes than it was asked for, as after SIGSTOP and SIGCONT"
                       : choices[0].cost == StopCost::kReturns
                           ? "its system call returns EINTR, as after SIGSTOP and SIGCONT"
                       : choices[0].cost == StopCost::kLonger ? "its system call continues afterwards"
                                                              : "it continues as it was";
    Ok("threads", fmt::format("1 of {} is stopped for some ms: thread {} {}; {}", choices.size(), choices[0].thread,
                              choices[0].doing, cost));
  }

  const pid_t pid_;
  const pid_t thread_;         // its folder in /proc is used: that of a main thread that has ended is nearly empty
  const std::string process_;  // the same as text
  const std::string root_, library_, tables_;
  const FilterAnswer filters_;
  std::vector<std::string> objects_;
  AttachCheck check_;
};

}  // namespace

FilterAnswer ReadFilterAnswer(pid_t pid, bool may_stop, bool detaches) {
  FilterAnswer answer;
  answer.counts = CountFilters(pid);
  if (!HasMode(answer.counts, '2')) return answer;
  answer.is_known = geteuid() != 0 || may_stop;
  answer.is_left_open = !answer.is_known;
  if (geteuid() != 0) {
    answer.forbidden =
        "has a seccomp filter, which only root may read: it might end the program. Run holdfast as root, or start the "
        "program with holdfast run";
  }
  if (geteuid() != 0 || !may_stop) return answer;
  const absl::StatusOr<ProcessFilters> filters = ReadFilters(pid);
  if (!filters.ok()) {
    answer.forbidden = std::string(filters.status().message());
    return answer;
  }
  answer.counts = filters->counts;
  answer.stops = filters->stops;
  answer.lost_calls = filters->lost_calls;
  for (const std::vector<SeccompFilter>& of_thread : filters->of_threads) {
    if (answer.forbidden.empty()) answer.forbidden = WhyFiltersForbid(of_thread, detaches);
  }
  return answer;
}

AttachCheck CheckAttach(pid_t pid, const std::string& library, const std::string& tables, const FilterAnswer& filters) {
  return Checker(pid, library, tables, filters).Run(false);
}

AttachCheck CheckDetach(pid_t pid, const std::string& library, const FilterAnswer& filters) {
  return Checker(pid, library, "", filters).Run(true);
}

}  // namespace holdfast
