#include "report/progress.h"

#include <unistd.h>

#include <utility>

#include "fmt/format.h"
#include "report/cli.h"

namespace holdfast {
namespace {

constexpr auto kQuiet = std::chrono::milliseconds(500), kBetween = std::chrono::milliseconds(100);
constexpr char kEraseLine[] = "\r\x1b[K";

}  // namespace

Progress::Progress(std::string what)
    : what_(std::move(what)),
      on_terminal_(isatty(STDERR_FILENO) != 0),
      next_(std::chrono::steady_clock::now() + kQuiet) {}

void Progress::Show(size_t done, size_t all) {
  if (!on_terminal_ || std::chrono::steady_clock::now() < next_) return;
  next_ = std::chrono::steady_clock::now() + kBetween;
  shown_ = true;
  SayLines(fmt::format("{}{} {} of {} …", kEraseLine, what_, done, all));
}

void Progress::Clear() {
  if (std::exchange(shown_, false)) SayLines(kEraseLine);
}

}  // namespace holdfast
