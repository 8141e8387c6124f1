#include "report/run/attach_check.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/daemon/installation.h"
#include "report/daemon/sweep_tables.h"
#include "report/names/elf/dynamic_names.h"
#include "report/names/elf/executable_kind.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/thread_status.h"
#include "report/run/doctor_objects.h"
#include "report/run/doctor_surroundings.h"
#include "report/run/linked_allocator.h"
#include "report/run/safe_thread.h"
#include "report/run/search_order.h"

namespace holdfast {
namespace {

class Checker {
 public:
  Checker(pid_t pid, const std::string& library, const std::string& tables)
      : pid_(pid),
        process_(fmt::format("{}", pid)),
        root_(fmt::format("/proc/{}/root", pid)),
        library_(library),
        tables_(tables),
        objects_(ObjectsOfProcess(pid)) {}

  AttachCheck Run() {
    if (objects_.empty()) {
      Refuse("program", "its executable cannot be read: it has ended, or belongs to another user");
      return std::move(check_);
    }
    Executable();
    User();
    Surroundings();
    Tracing();
    Library();
    Allocator();
    Tables();
    if (check_.refused.empty()) Threads();
    if (check_.refused.empty()) {
      check_.findings.Note("unseen",
                           "not recorded: blocks and locks from before the attach, calls of libraries that are loaded "
                           "later, calls through stored pointers to functions, exceptions, programs that it executes");
    }
    return std::move(check_);
  }

 private:
  void Refuse(const char* topic, const std::string& text) {
    if (check_.refused.empty()) check_.refused = text;
    check_.findings.No(topic, text);
  }
  void Ok(const char* topic, std::string text) { check_.findings.Ok(topic, std::move(text)); }

  void Executable() {
    const ExecutableKind file = ReadExecutableKind(root_ + objects_[0]);
    const auto has = [&](const char* part) {
      return std::any_of(objects_.begin(), objects_.end(), [part](const std::string& object) {
        return BaseName(object).find(part) != std::string_view::npos;
      });
    };
#if !defined(__x86_64__)
    Refuse("program", "attach is only possible on x86-64");
#endif
    if (file.kind != ExecutableKind::Kind::kElf) {
      Refuse("program",
             fmt::format("{} cannot be read as an executable: it was replaced or deleted meanwhile", objects_[0]));
    } else if (!file.is_64_bit || !file.machine.empty()) {
      Refuse("program", "is not a 64-bit x86 program");
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
      Ok("program", fmt::format("64-bit x86, linked dynamically ({})", file.interpreter));
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

  void Surroundings() {
    for (const auto& [name, what] : {std::pair("mnt", "mount"), {"pid", "pid"}, {"user", "user"}}) {
      struct stat own, its;
      if (stat(fmt::format("/proc/self/ns/{}", name).c_str(), &own) != 0 ||
          stat(fmt::format("/proc/{}/ns/{}", pid_, name).c_str(), &its) != 0 ||
          (own.st_ino == its.st_ino && own.st_dev == its.st_dev))
        continue;
      Refuse("namespace", fmt::format("has another {} namespace (a container, or a unit of systemd with a sandbox). "
                                      "Run holdfast attach inside it",
                                      what));
    }
    struct stat own, its;
    if (stat("/", &own) == 0 && stat((root_ + "/").c_str(), &its) == 0 &&
        (own.st_ino != its.st_ino || own.st_dev != its.st_dev))
      Refuse("namespace", "has another root directory (chroot), so it does not see the library");
    if (const std::string filter = StatusField(process_, "Seccomp"); !filter.empty() && filter != "0") {
      Refuse("seccomp",
             "has a seccomp filter, which may kill it when the library is loaded. Start it with holdfast run");
    } else {
      Ok("seccomp", "no filter");
    }
    if (StatusField(process_, "NoNewPrivs") == "1")
      check_.findings.Note("seccomp", "no_new_privs is set: it may install a filter later");
    if (StatusField(process_, "x86_Thread_features").find("shstk") != std::string::npos)
      Refuse("processor", "uses a shadow stack, which allows no borrowed thread");
  }

  void Tracing() {
    if (const std::string tracer = StatusField(process_, "TracerPid"); !tracer.empty() && tracer != "0") {
      Refuse("tracing", fmt::format("is traced by process {} (a debugger, strace). End that first", tracer));
      return;
    }
    const std::string state = StatusField(process_, "State");
    if (!state.empty() && std::string_view("TtZX").find(state[0]) != std::string_view::npos)
      Refuse("tracing", fmt::format("is not running (state {}). Continue it first", state));
    const FileDescriptor memory(open(fmt::format("/proc/{}/mem", pid_).c_str(), O_RDWR | O_CLOEXEC));
    if (memory.valid()) return Ok("tracing", "is permitted");
    const LookRights rights = LookRightsFor(pid_);
    Refuse("tracing", fmt::format("the kernel does not permit it ({}): {}", strerror(errno),
                                  WhyUnreadable(rights, pid_, "attach")));
  }

  void Library() {
    for (const std::string& object : objects_) {
      if (!BaseName(object).starts_with("libholdfast.so")) continue;
      check_.has_library = true;
      check_.loaded_library = object;
    }
    struct stat own, its;
    if (!check_.has_library) {
      Ok("library", library_);
    } else if (VariableOf(process_, "LD_PRELOAD").find("libholdfast.so") != std::string::npos) {
      Refuse("library", "was started with the library, and is profiled already");
    } else if (stat(library_.c_str(), &own) != 0 || stat((root_ + check_.loaded_library).c_str(), &its) != 0 ||
               own.st_ino != its.st_ino || own.st_dev != its.st_dev) {
      Refuse("library",
             fmt::format("has another library loaded: {}. Use the holdfast that it belongs to", check_.loaded_library));
    } else {
      Ok("library", "is loaded from an earlier attach");
    }
  }

  void Allocator() {
    const auto names = ReadDynamicNames(root_ + objects_[0]);
    if (!names.ok()) return;
    const LinkedAllocator linked = LinkedAllocatorOf(root_ + objects_[0], *names, EntriesWanted());
    if (linked.replaces_malloc || names->defines.contains("malloc") || names->has_hidden_malloc) {
      Refuse("allocator",
             "its executable has an allocator of its own, which can only be redirected at the start. Start it with "
             "holdfast run");
    } else if (const std::string second = SecondAllocator(); !second.empty()) {
      Refuse("allocator",
             fmt::format("{} has an allocator beside the one that the program uses: blocks of one must not "
                         "be freed by the other",
                         second));
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
      const std::string_view name = BaseName(object);
      if (name.starts_with("libholdfast.so") || name.starts_with("ld-")) continue;
      const auto names = ReadDynamicNames(root_ + object);
      if (!names.ok() || !names->defines.contains("malloc")) continue;
      const bool is_libc = name.starts_with("libc.so.") || name.starts_with("libc-2.");
      if (found && !is_libc) return object;
      found = true;
    }
    return "";
  }

  void Tables() {
    const std::string folder = tables_.empty() ? UsualTablesFolder(".") : tables_;
    if (const auto known = TablesFolder(folder); !known.ok()) {
      Refuse("tables", std::string(known.status().message()));
    } else if (const std::string why = WhyNoTable(folder); !why.empty()) {
      Refuse("tables", why);
    } else {
      Ok("tables", fmt::format("in {}", *known));
    }
  }

  void Threads() {
    const absl::StatusOr<std::unique_ptr<ProcessCode>> code = ProcessCode::Read(pid_);
    if (!code.ok()) return Refuse("threads", std::string(code.status().message()));
    const std::vector<ThreadChoice> choices = ChooseThreads(pid_, code->get());
    if (choices.empty() || !choices[0].why.empty()) {
      check_.findings.Note(
          "threads",
          fmt::format("none of {} threads can be borrowed at this moment{}; attach tries for 10s", choices.size(),
                      choices.empty() ? "" : ": thread " + std::to_string(choices[0].thread) + " " + choices[0].why));
      return;
    }
    const char* cost = choices[0].cost == BorrowingCost::kReturns
                           ? "its system call returns EINTR, as after SIGSTOP and SIGCONT"
                       : choices[0].cost == BorrowingCost::kLonger ? "its system call continues afterwards"
                                                                   : "it continues as it was";
    Ok("threads", fmt::format("1 of {} is stopped for some ms: thread {} {}; {}", choices.size(), choices[0].thread,
                              choices[0].doing, cost));
  }

  const pid_t pid_;
  const std::string process_, root_, library_, tables_;
  std::vector<std::string> objects_;
  AttachCheck check_;
};

}  // namespace

AttachCheck CheckAttach(pid_t pid, const std::string& library, const std::string& tables) {
  return Checker(pid, library, tables).Run();
}

}  // namespace holdfast
