#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/cmd/commands.h"
#include "report/daemon/exporter.h"
#include "report/daemon/resident_memory.h"
#include "report/run/doctor_surroundings.h"
#include "report/run/orphan_parent.h"
#include "report/show/label_blocks.h"
#include "sampler/contract/spawn_exporter.h"

namespace holdfast {
namespace {

// Resets what the exporter inherited from the program and must not keep: resource limits and a real-time priority.
void LeaveInheritedBounds() {
  for (const int resource : {RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_CPU, RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK}) {
    rlimit limit;
    if (getrlimit(resource, &limit) != 0) continue;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(resource, &limit);
  }
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const sched_param usual = {};
  sched_setscheduler(0, SCHED_OTHER, &usual);
  umask(0077);  // with the program's mask, we might be unable to open our own files
  SetBadness(kBadnessAtRest);
}

// Calls `serve` on a stack of the usual size. A program may have a hard limit of 64 KiB, which the exporter inherits, and
// demangling one long name of C++ takes more. Another thread will not do: the CPU time of
// the exporter is that of its first thread.
void WithUsualStack(const std::function<void()>& serve) {
  constexpr size_t kBytes = 8 << 20, kGuard = 64 << 10;
  rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kBytes) return serve();
  static void* const stack =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  // As below any stack, memory that nobody may use: a recursion without end must not write into what is mapped there.
  if (stack == MAP_FAILED || mprotect(stack, kGuard, PROT_NONE) != 0) return serve();
  static ucontext_t before, large;
  static std::function<void()> called;
  called = serve;
  getcontext(&large);
  large.uc_stack = {static_cast<char*>(stack) + kGuard, 0, kBytes - kGuard};
  large.uc_link = &before;
  makecontext(
      &large, [] { called(); }, 0);
  swapcontext(&before, &large);
}

// Not before the answer: a program waits for it. Relative to the program's own priority: far below it, the exporter would run
// only when the program sleeps, and looks at threads would find what they do after they have computed.
void YieldToPrograms() { [[maybe_unused]] const int now = nice(5); }

void IgnoreSignalsAndStandardStreams() {
  for (const int number :
       {SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGQUIT, SIGXFSZ, SIGTTOU, SIGTTIN, SIGUSR1, SIGUSR2, SIGALRM}) {
    signal(number, SIG_IGN);
  }
  signal(SIGCHLD, SIG_DFL);
  for (int fd = 0; fd < 3; ++fd) {
    const int null = open("/dev/null", O_RDWR);
    if (null > fd) {
      dup2(null, fd);
      close(null);
    }
  }
}

}  // namespace

void AddExporterCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<ExporterOptions>();
  CLI::App* command = app.add_subcommand(
      "exporter", "Write the profiles of running programs (started by `run` and by the library, not by users)");
  command->add_option("--out", options->out, "The output folder, an absolute path")->required();
  command->add_option("--tables", options->tables, "The folder of the table files")->required();
  auto id = std::make_shared<std::string>();
  command->add_option("--out-id", *id, "Device and inode of the output folder, as the program sees it: DEVICE:INODE");
  command->add_option("--parent", options->parent, "Run until this process exits");
  command->add_option("--max-disk", options->max_disk_bytes,
                      "The maximum size of the output folder in bytes; 0 = unlimited");
  auto answers = std::make_shared<bool>(false), only_answers = std::make_shared<bool>(false);
  command->add_flag(
      kAnswerOption, *answers,
      fmt::format("Write one byte to standard output once the folder is served; end with status {} before "
                  "that if a program would see this process as its child",
                  kNoticedStatus));
  command->add_flag(kOnlyAnswerOption, *only_answers, "Like --answer, without serving");
  command->callback([options, id, answers, only_answers, invocation] {
    const std::vector<std::string> numbers = absl::StrSplit(*id, ':');
    if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &options->out_id.device) ||
        !absl::SimpleAtoi(numbers[1], &options->out_id.inode)) {
      options->out_id = {};
    }
    if (*answers || *only_answers) {
      // Our parent is an intermediate process that is about to exit. The parent of that process is the program.
      const std::string starter = StatusField(StatusField("self", "PPid"), "PPid");
      if (starter.empty() || ParentOfOrphans(starter, {options->tables}).has_value()) {
        invocation->exit_code = kNoticedStatus;
        return;
      }
      auto answer = std::make_shared<FileDescriptor>(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
      options->on_served = [answer] {
        [[maybe_unused]] const ssize_t written = write(answer->get(), "", 1);
        answer->Close();
        YieldToPrograms();
      };
      if (*only_answers) {
        options->on_served();
        return;
      }
    }
    // The command comes from the environment of the process that started this exporter, so it runs with no more rights
    // than that process has. It is not passed to the processes that we start.
    if (const char* command = getenv("HOLDFAST_ON_SNAPSHOT"); command != nullptr) options->on_snapshot = command;
    unsetenv("HOLDFAST_ON_SNAPSHOT");
    options->label_blocks = [folder = options->tables](pid_t pid, ProcessState* state) {
      (void)LabelBlocks(pid, {folder}, state, nullptr).ok();  // without labels if it fails
    };
    LeaveInheritedBounds();
    if (!options->on_served) YieldToPrograms();
    IgnoreSignalsAndStandardStreams();
    prctl(PR_SET_NAME, "holdfast", 0, 0, 0);  // otherwise the name would be the number of a descriptor
    WithUsualStack([options, invocation] { invocation->exit_code = ServeTables(*options).ok() ? 0 : 3; });
  });
}

}  // namespace holdfast
