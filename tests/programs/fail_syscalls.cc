// Runs a program and makes system calls of the library fail. Affects only calls from an instruction in libholdfast.so, in
// any thread, and in the process that starts the exporter. The program's own calls are unaffected.
//
//   fail_syscalls COUNT-FILE nth N ERRNO PROGRAM…          the N-th call fails (0 = none)
//   fail_syscalls COUNT-FILE from N ERRNO PROGRAM…         every call from the N-th on
//   fail_syscalls COUNT-FILE random PERCENT SEED PROGRAM…  this percentage of calls, each with a different error
//   fail_syscalls COUNT-FILE after CALL NTH PROGRAM…       none; after the NTH call with this number, the shell runs $AFTER,
//                                                          as another process might at that very moment
//
// Writes the number of calls that the library made to COUNT-FILE. Ends as the program does.
#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>

namespace {

struct Traced {
  bool in_call = false;
  int fails_with = 0;
  bool awaited = false;  // the call after which $AFTER is run
  bool found = false;
  uint64_t start = 0, end = 0;  // of the library, as this process has it mapped
};

constexpr int kErrors[] = {ENOMEM, ENOSPC, EMFILE, EACCES, EINTR, EIO, EPERM, ENOSYS};

void FindLibrary(pid_t pid, Traced* traced) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/libholdfast.so") == std::string::npos || line.find(" r-xp ") == std::string::npos) continue;
    sscanf(line.c_str(), "%lx-%lx", &traced->start, &traced->end);
    traced->found = true;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 98;
  const std::string mode = argv[2];
  const long first = atol(argv[3]), second = atol(argv[4]);
  std::mt19937 random(static_cast<unsigned>(second));
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    execvp(argv[5], argv + 5);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ptrace(PTRACE_SETOPTIONS, child, nullptr,
         PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEFORK | PTRACE_O_TRACEEXEC |
             PTRACE_O_EXITKILL);
  std::map<pid_t, Traced> all;
  all[child];
  long calls = 0, of_the_number = 0;
  int result = 97;
  ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  while (!all.empty()) {
    const pid_t pid = waitpid(-1, &status, __WALL);
    if (pid < 0) break;
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      all.erase(pid);
      if (pid == child) {
        result = status;
        break;  // what it started lives on without us
      }
      continue;
    }
    Traced& traced = all[pid];
    const int signal = WSTOPSIG(status), event = status >> 16;
    int deliver = 0;
    if (event == PTRACE_EVENT_EXEC) {
      traced = {};
      if (pid != child) {  // the exporter itself: not the library's code any more
        all.erase(pid);
        ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
        continue;
      }
    } else if (signal == (SIGTRAP | 0x80)) {
      user_regs_struct registers;
      ptrace(PTRACE_GETREGS, pid, nullptr, &registers);
      if (!traced.in_call) {
        if (!traced.found || registers.orig_rax == SYS_openat) FindLibrary(pid, &traced);
        const bool ours = traced.found && registers.rip >= traced.start && registers.rip < traced.end;
        if (ours) ++calls;
        traced.awaited =
            mode == "after" && ours && registers.orig_rax == static_cast<uint64_t>(first) && ++of_the_number == second;
        const bool fails = ours && registers.orig_rax != SYS_exit_group && registers.orig_rax != SYS_exit &&
                           ((mode == "nth" && calls == first) || (mode == "from" && calls >= first) ||
                            (mode == "random" && static_cast<long>(random() % 100) < first));
        if (fails) {
          traced.fails_with = mode == "random" ? kErrors[random() % std::size(kErrors)] : static_cast<int>(second);
          registers.orig_rax = ~0ull;
          ptrace(PTRACE_SETREGS, pid, nullptr, &registers);
        }
      } else if (traced.fails_with != 0) {
        registers.rax = static_cast<uint64_t>(-traced.fails_with);
        ptrace(PTRACE_SETREGS, pid, nullptr, &registers);
        traced.fails_with = 0;
      } else if (traced.awaited) {
        if (system(getenv("AFTER")) != 0) _exit(96);
        traced.awaited = false;
      }
      traced.in_call = !traced.in_call;
    } else if (event == 0 && signal != SIGSTOP && signal != SIGTRAP) {
      deliver = signal;
    }
    ptrace(PTRACE_SYSCALL, pid, nullptr, deliver);
  }
  std::ofstream(argv[1]) << calls << "\n";
  if (WIFSIGNALED(result)) {
    signal(WTERMSIG(result), SIG_DFL);
    raise(WTERMSIG(result));
  }
  return WEXITSTATUS(result);
}
