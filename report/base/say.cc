#include "report/base/say.h"

#include <unistd.h>

#include <cerrno>

#include "report/base/printable.h"

namespace holdfast {

void SayLines(std::string_view lines) {
  while (!lines.empty()) {
    const ssize_t written = write(STDERR_FILENO, lines.data(), lines.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody listens
    lines.remove_prefix(static_cast<size_t>(written));
  }
}

void Say(std::string_view text) { SayLines("holdfast: " + Printable(text) + "\n"); }

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
