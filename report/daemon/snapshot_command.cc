#include "report/daemon/snapshot_command.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/value_units.h"
#include "report/daemon/resident_memory.h"

namespace holdfast {
namespace {

constexpr off_t kMaxLog = 64 << 10, kRoomForNotes = 4 << 10;
constexpr const char* kLog = "/.on-snapshot.log";
constexpr int kMaxSignal = 64;
constexpr int kMaxTries = 1000;  // each takes a millisecond or more

// In the child before exec: restores the state of a normal program of the user.
void LeaveExporter(int output) {
  setsid();
  for (int number = 1; number <= kMaxSignal; ++number) {
    if (number != SIGKILL && number != SIGSTOP) signal(number, SIG_DFL);
  }
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(output >= 0 ? output : null, STDOUT_FILENO);
  dup2(output >= 0 ? output : null, STDERR_FILENO);
  closefrom(STDERR_FILENO + 1);
  AllowHugePages();
  SetBadness(kBadnessAtWork);  // charged to the program's control group, so it must be killed before the program
}

// Kills all processes of a session except the first one, and reaps those that have ended. A session may have several
// process groups: timeout and shells with job control make their own. Returns false if nobody was left.
bool KillSession(pid_t session) {
  bool any = false;
  kill(-session, SIGKILL);  // works even if /proc is not readable
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  while (const dirent* entry = proc != nullptr ? readdir(proc.get()) : nullptr) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid) || pid == session || getsid(pid) != session) continue;
    kill(pid, SIGKILL);
    any = waitpid(pid, nullptr, WNOHANG) != pid || any;
  }
  return any;
}

}  // namespace

SnapshotCommand::~SnapshotCommand() {
  if (pid_ != 0) EndAll();
}

// The command's process was not reaped yet, so its number still identifies its session. Orphans of the command become
// our children, because we are a subreaper; otherwise they could become children of a program that is one.
void SnapshotCommand::EndAll() {
  kill(pid_, SIGKILL);  // it may not be in its own session yet
  // Repeat until none is left, because one may just have started another. Does not wait for a process that cannot end
  // now.
  int tries = 0;
  for (; tries < kMaxTries && KillSession(pid_); ++tries) poll(nullptr, 0, 1);
  for (; tries < kMaxTries && waitpid(pid_, nullptr, WNOHANG) == 0; ++tries) poll(nullptr, 0, 1);
}

void SnapshotCommand::Append(std::string_view text, off_t most) const {
  const FileDescriptor log(
      open((out_ + kLog).c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  struct stat info;
  if (!log.valid() || fstat(log.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) return;
  if (info.st_size >= most) return;
  text = text.substr(0, static_cast<size_t>(most - info.st_size));
  [[maybe_unused]] const ssize_t written = write(log.get(), text.data(), text.size());
}

void SnapshotCommand::Note(const std::string& line) const {
  Append(fmt::format("holdfast: --on-snapshot {}: {}\n", command_, line), kMaxLog);
}

// Reads all available output; what exceeds the log's limit is dropped.
void SnapshotCommand::TakeOutput() const {
  char buffer[16 << 10];
  for (int i = 0; i < 64 && output_.valid(); ++i) {
    const ssize_t got = read(output_.get(), buffer, sizeof buffer);
    if (got <= 0) return;
    Append({buffer, static_cast<size_t>(got)}, kMaxLog - kRoomForNotes);
  }
}

void SnapshotCommand::Add(const std::string& file) {
  if (command_.empty()) return;
  if (waiting_.size() < kMaxWaiting) {
    waiting_.push_back(out_ + "/" + file);
    return;
  }
  if (!std::exchange(said_left_out_, true))
    Note(fmt::format("{} files already wait for it; skipping it for {} and others until it catches up", kMaxWaiting,
                     file));
}

void SnapshotCommand::Start(int64_t now_ns) {
  const std::string script = command_ + " \"$@\"";
  const char* const arguments[] = {"sh", "-c", script.c_str(), "sh", waiting_.front().c_str(), nullptr};
  int pipe[2] = {-1, -1};
  if (pipe2(pipe, O_CLOEXEC) == 0) fcntl(pipe[0], F_SETFL, O_NONBLOCK);
  output_ = FileDescriptor(pipe[0]);
  const FileDescriptor input(pipe[1]);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  const pid_t child = fork();
  if (child == 0) {
    LeaveExporter(input.get());
    if (chdir(out_.c_str()) != 0) _exit(126);
    execv("/bin/sh", const_cast<char* const*>(arguments));
    _exit(127);
  }
  waiting_.pop_front();
  started_ns_ = now_ns;
  if (child > 0) {
    pid_ = child;
  } else {
    Ended(127 << 8, false);
  }
}

void SnapshotCommand::Ended(int status, bool too_long) {
  pid_ = 0;
  TakeOutput();
  output_.Close();
  if ((status == 0 && !too_long) || std::exchange(said_failure_, true)) return;
  const std::string how = too_long              ? fmt::format("killed after {}", FormatDuration(kMaxTime))
                          : WIFSIGNALED(status) ? fmt::format("killed by signal {}", WTERMSIG(status))
                                                : fmt::format("exit status {}", WEXITSTATUS(status));
  Note(how + "; reported only once");
}

void SnapshotCommand::Poll(int64_t now_ns) {
  TakeOutput();
  siginfo_t info{};
  const bool ended = pid_ != 0 && waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                     info.si_pid == pid_;
  if (ended || (pid_ != 0 && now_ns - started_ns_ >= kMaxTime)) {
    EndAll();
    // In waitpid's format.
    Ended(info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status, !ended);
  }
  if (pid_ == 0 && !waiting_.empty()) Start(now_ns);
}

void SnapshotCommand::Finish() {
  const int64_t end_ns = NowNs() + kMaxTimeAtEnd;
  for (int64_t now_ns = NowNs(); now_ns < end_ns; now_ns = NowNs()) {
    Poll(now_ns);
    if (pid_ == 0 && waiting_.empty()) return;
    poll(nullptr, 0, 10);
  }
  if (!waiting_.empty()) Note(fmt::format("skipped for {} files at the end", waiting_.size()));
  waiting_.clear();
}

}  // namespace holdfast
