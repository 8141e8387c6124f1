#include "report/base/say.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "report/base/printable.h"

namespace holdfast {

void SayLines(std::string_view lines) {
  while (!lines.empty()) {
    const ssize_t written = write(STDERR_FILENO, lines.data(), lines.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the reader is gone
    lines.remove_prefix(static_cast<size_t>(written));
  }
}

void Say(std::string_view text) { SayLines("holdfast: " + Printable(text) + "\n"); }

void SayTo(std::ostream& err, std::string_view text) { err << "holdfast: " + Printable(text) + "\n"; }

int Failed(const absl::Status& status, std::ostream& err) {
  SayTo(err, std::string(status.message()));
  return absl::IsInvalidArgument(status) ? kWrongUsage : kCouldNot;
}

int Finished(int exit_code) {
  errno = 0;
  std::cout.flush();
  if (std::cout) return exit_code;
  const int error = errno != 0 ? errno : EIO;
  SayTo(std::cerr, std::string("standard output: could not write (") + std::strerror(error) +
                       "). Check the file or pipe that it is redirected to.");
  return kCouldNot;
}

std::string ShellQuoted(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace holdfast
