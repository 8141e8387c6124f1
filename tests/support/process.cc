#include "tests/support/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

extern char** environ;

namespace holdfast::testing {
namespace {

std::vector<std::string> Environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (text.rfind("HOLDFAST_", 0) == 0 || text.rfind("LD_PRELOAD=", 0) == 0) continue;
    if (added.count(text.substr(0, text.find('=')))) continue;
    result.push_back(text);
  }
  for (const auto& [name, value] : added) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& s : strings) result.push_back(s.data());
  result.push_back(nullptr);
  return result;
}

void Close(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

// Where no exporter can start (scripts/systems arm64-tests), this command writes the profiles of processes that have ended.
void CollectTables() {
  const char* command = getenv("HOLDFAST_TEST_COLLECT");
  if (command != nullptr && system(command) != 0) fprintf(stderr, "%s: failed\n", command);
}

// There, `run` says so.
void EraseSaidOfExporters(std::string* err) {
  if (getenv("HOLDFAST_TEST_COLLECT") == nullptr) return;
  for (size_t at = 0; (at = err->find("holdfast: the exporter does not answer.", at)) != std::string::npos;) {
    const size_t end = err->find('\n', at);
    err->erase(at, end == std::string::npos ? end : end + 1 - at);
  }
}

bool ReadSome(int* fd, std::string* text) {
  char buffer[65536];
  const ssize_t n = read(*fd, buffer, sizeof buffer);
  if (n > 0) {
    text->append(buffer, static_cast<size_t>(n));
    return true;
  }
  if (n == 0 || (errno != EINTR && errno != EAGAIN)) Close(fd);
  return false;
}

}  // namespace

bool RunResult::exited(int code) const {
  return started && !timed_out && WIFEXITED(status) && WEXITSTATUS(status) == code;
}
bool RunResult::killed_by(int signal) const {
  return started && !timed_out && WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

bool RunResult::AboutAsFastAs(const RunResult& bare) const { return seconds < 8 * bare.seconds + 20; }

std::string RunResult::Describe() const {
  std::ostringstream text;
  if (!started)
    text << "could not be started; ";
  else if (timed_out)
    text << "did not end in time and was killed; ";
  else if (WIFSIGNALED(status))
    text << "killed by signal " << WTERMSIG(status) << "; ";
  else
    text << "exit status " << WEXITSTATUS(status) << "; ";
  text << seconds << " s\n--- stdout\n" << out.substr(0, 4000) << "\n--- stderr\n" << err.substr(0, 4000) << "\n---";
  return text.str();
}

double Now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

bool IsRoot() { return geteuid() == 0; }

void Pause() {
  const timespec step{0, 5'000'000};
  nanosleep(&step, nullptr);
}

Running::Running(const Command& command) {
  signal(SIGPIPE, SIG_IGN);
  int in[2], out[2], err[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) abort();
  std::vector<std::string> environment = Environment(command.env);
  std::vector<std::string> arguments = command.argv;
  const std::vector<char*> envp = Pointers(environment);
  const std::vector<char*> argv = Pointers(arguments);
  start_ = Now();
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    syscall(SYS_close_range, 3, ~0U, 0);  // what ctest and others left open
    // As from a terminal: a shell's background jobs are started with SIGINT ignored.
    for (int number = 1; number < 32; ++number) signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (command.own_group) setpgid(0, 0);
    if (!command.cwd.empty() && chdir(command.cwd.c_str())) _exit(124);
    for (const auto& [what, value] : command.limits) {
      const rlimit limit{value, value};
      if (setrlimit(static_cast<__rlimit_resource>(what), &limit)) _exit(124);
    }
    if (command.uid >= 0) {
      const auto id = static_cast<uid_t>(command.uid);
      if (setgroups(0, nullptr) || setresgid(id, id, id) || setresuid(id, id, id)) _exit(124);
    }
    execvpe(argv[0], argv.data(), envp.data());
    dprintf(2, "cannot execute %s: %s\n", argv[0], strerror(errno));
    _exit(124);
  }
  close(in[0]);
  close(out[1]);
  close(err[1]);
  in_ = in[1];
  out_ = out[0];
  err_ = err[0];
  result_.started = pid_ > 0;
  result_.pid = pid_;
  if (!command.input.empty()) {
    Write(command.input);
    CloseInput();
  }
}

Running::~Running() {
  if (!waited_ && pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Close(&in_);
  Close(&out_);
  Close(&err_);
}

void Running::Signal(int signal) const { kill(pid_, signal); }

void Running::Write(const std::string& input) {
  size_t done = 0;
  while (done < input.size()) {
    const ssize_t n = write(in_, input.data() + done, input.size() - done);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

void Running::CloseInput() { Close(&in_); }

void Running::Pump(int timeout_ms) {
  pollfd fds[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  if (poll(fds, 2, timeout_ms) <= 0) return;
  if (fds[0].revents) ReadSome(&out_, &result_.out);
  if (fds[1].revents) ReadSome(&err_, &result_.err);
}

bool Running::WaitForOutput(const std::string& text, double seconds) {
  const double end = Now() + seconds;
  while (result_.out.find(text) == std::string::npos) {
    if (Now() > end || (out_ < 0 && err_ < 0)) return false;
    Pump(50);
  }
  return true;
}

RunResult Running::Wait(double timeout_seconds) {
  if (!hold_input_) CloseInput();
  const double end = Now() + timeout_seconds;
  bool ended = false;
  while (!ended) {
    Pump(10);
    const pid_t done = waitpid(pid_, &result_.status, WNOHANG);
    ended = done == pid_;
    if (!ended && out_ < 0 && err_ < 0) Pause();
    if (!ended && Now() > end) {
      result_.timed_out = true;
      kill(pid_, SIGKILL);
      waitpid(pid_, &result_.status, 0);
      ended = true;
    }
  }
  waited_ = true;
  result_.seconds = Now() - start_;
  CollectTables();
  // What is still in the pipes; a child that lives on may hold them open, so no waiting for their end.
  for (int i = 0; i < 1000 && (out_ >= 0 || err_ >= 0); ++i) {
    const size_t before = result_.out.size() + result_.err.size();
    Pump(0);
    if (out_ >= 0 && err_ >= 0 && before == result_.out.size() + result_.err.size()) break;
    if (before == result_.out.size() + result_.err.size() && i > 2) break;
  }
  EraseSaidOfExporters(&result_.err);
  return result_;
}

RunResult Execute(const Command& command) {
  Running running(command);
  return running.Wait(command.timeout_seconds);
}

}  // namespace holdfast::testing
