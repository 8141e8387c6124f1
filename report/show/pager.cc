#include "report/show/pager.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <utility>

#include "report/base/say.h"

namespace holdfast {
namespace {

constexpr int kNoSuchCommand = 127;  // the exit status of sh

std::function<void()> before_output;

void SetUnlessSet(const char* name, const char* value) { setenv(name, value, 0); }

// Leaves signals to the pager while it runs, and restores them afterwards.
class LeftToPager {
 public:
  LeftToPager() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &ignore, &before_[i]);
  }
  LeftToPager(const LeftToPager&) = delete;
  LeftToPager& operator=(const LeftToPager&) = delete;
  ~LeftToPager() { Restore(); }
  void Restore() const {
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGQUIT, SIGPIPE};
  struct sigaction before_[std::size(kSignals)] = {};
};

// Returns false if there is no such command, so that nobody has seen the text.
bool ShowBy(const std::string& command, std::string_view text) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const LeftToPager signals;
  const pid_t pager = fork();
  if (pager < 0) {
    close(ends[0]);
    close(ends[1]);
    return false;
  }
  if (pager == 0) {
    signals.Restore();
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    close(ends[1]);
    SetUnlessSet("LESS", "FRX");
    SetUnlessSet("LV", "-c");
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(kNoSuchCommand);
  }
  close(ends[0]);
  while (!text.empty()) {
    const ssize_t written = write(ends[1], text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;  // the user has quit
    text.remove_prefix(static_cast<size_t>(written));
  }
  close(ends[1]);
  int status = 0;
  while (waitpid(pager, &status, 0) < 0 && errno == EINTR) {
  }
  return !(WIFEXITED(status) && WEXITSTATUS(status) == kNoSuchCommand);
}

}  // namespace

std::string PagerCommand(const std::function<const char*(const char*)>& environment) {
  const char* terminal = environment("TERM");
  if (terminal == nullptr || std::string_view(terminal) == "dumb") return "";
  for (const char* name : {"HOLDFAST_PAGER", "PAGER"}) {
    const char* command = environment(name);
    if (command == nullptr) continue;
    return std::string_view(command) == "cat" ? "" : command;
  }
  return "less";
}

size_t ScreenWidth() {
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr) {
    if (const long width = std::strtol(columns, nullptr, 10); width > 0) return static_cast<size_t>(width);
  }
  winsize size{};
  const bool is_terminal = isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return is_terminal ? size.ws_col : 0;
}

size_t LinesOnScreen(std::string_view text, size_t width) {
  size_t lines = 0, columns = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\x1b') {  // a colour: ESC [ … m
      i = std::min(text.find('m', i), text.size());
    } else if (c == '\n') {
      ++lines;
      columns = 0;
    } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80 && width > 0 && columns++ == width) {
      ++lines;
      columns = 1;
    }
  }
  return lines + (columns > 0 ? 1 : 0);
}

void CallBeforeOutput(std::function<void()> before) { before_output = std::move(before); }

int Paged(bool allowed, const std::function<int(std::ostream&)>& print) {
  winsize size{};
  const std::string command = PagerCommand([](const char* name) -> const char* { return std::getenv(name); });
  if (!allowed || command.empty() || isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
      size.ws_row == 0) {
    if (!allowed || !before_output) return Finished(print(std::cout));
    std::ostringstream text;
    const int exit_code = print(text);
    before_output();
    std::cout << text.str();
    return Finished(exit_code);
  }
  std::ostringstream text;
  const int exit_code = print(text);
  // Count one line for the prompt that follows.
  if (LinesOnScreen(text.str(), size.ws_col) >= size.ws_row && ShowBy(command, text.str())) return exit_code;
  std::cout << text.str();
  return Finished(exit_code);
}

}  // namespace holdfast
