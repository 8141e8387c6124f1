#include "report/base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "fmt/format.h"
#include "report/base/say.h"

namespace holdfast {
namespace {

constexpr auto kShowAfter = std::chrono::milliseconds(500), kBetween = std::chrono::milliseconds(100);
constexpr char kEraseLine[] = "\r\x1b[K";

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (isatty(STDERR_FILENO) != 0) writer_ = std::thread(&Progress::Write, this);
}

void Progress::Write() {
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return ended_; };
  if (ended_changed_.wait_for(lock, kShowAfter, ended)) return;
  do {
    const std::string counted = all_ > 1 ? fmt::format(" {} of {}", std::min(done_ + 1, all_), all_) : "";
    SayLines(fmt::format("{}{}{} …", kEraseLine, what_, counted));
  } while (!ended_changed_.wait_for(lock, kBetween, ended));
  SayLines(kEraseLine);
}

void Progress::Show(size_t done, size_t all) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  all_ = all;
}

void Progress::Clear() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
  writer_.join();
}

}  // namespace holdfast
