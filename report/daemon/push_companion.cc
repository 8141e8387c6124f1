#include "report/daemon/push_companion.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "report/base/split.h"
#include "report/base/time_budget.h"

namespace holdfast {
namespace {

constexpr int64_t kRestart = 60 * kSecond;
constexpr int kMaxLooks = 64;  // one exporter may serve a build's thousands of programs

// Removes variables that are for the program and not for the tool.
bool IsForPusher(std::string_view variable) {
  return !variable.empty() && !variable.starts_with("LD_") &&
         (!variable.starts_with("HOLDFAST_") || variable.starts_with("HOLDFAST_PUSH_"));
}

}  // namespace

bool PushCompanion::MayLook() const { return url_.empty() && looks_ < kMaxLooks; }

void PushCompanion::Look(const TableFile& table, std::string_view environment) {
  constexpr std::string_view kVariable = "HOLDFAST_PUSH=";
  if (!MayLook() || table.user() != geteuid()) return;
  ++looks_;
  for (const std::string_view variable : Split(environment, std::string_view("\0", 1))) {
    if (variable.starts_with(kVariable)) url_ = std::string(variable.substr(kVariable.size()));
    if (!IsForPusher(variable)) continue;
    environment_ += variable;
    environment_ += '\0';
  }
  if (url_.empty()) {
    environment_.clear();
  } else {
    Start(NowNs());
  }
}

void PushCompanion::Poll(int64_t now) {
  if (url_.empty()) return;
  if (pid_ != 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
  if (pid_ == 0 && now >= next_start_) Start(now);
}

void PushCompanion::Start(int64_t now) {
  next_start_ = now + kRestart;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  FileDescriptor its_end(ends[0]);
  our_end_ = FileDescriptor(ends[1]);
  const char* const arguments[] = {
      "holdfast", "push", url_.c_str(), options_.out.c_str(), "--tables", options_.tables.c_str(), "--follow", nullptr};
  std::vector<const char*> environment = {"HOLDFAST_ENABLE=0"};  // in case /etc/ld.so.preload lists the library
  for (size_t at = 0; at < environment_.size(); at = environment_.find('\0', at) + 1) {
    environment.push_back(environment_.c_str() + at);
  }
  environment.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(its_end.get(), STDIN_FILENO);
    execve("/proc/self/exe", const_cast<char* const*>(arguments), const_cast<char* const*>(environment.data()));
    _exit(127);
  }
  pid_ = child > 0 ? child : 0;
}

PushCompanion::~PushCompanion() {
  our_end_.Close();
  if (pid_ != 0) waitpid(pid_, nullptr, 0);
}

}  // namespace holdfast
