#include "report/http/connections.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace holdfast {

HttpServer::Connections::Connections()
    : stop_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), watcher_([this] { Watch(); }) {}

HttpServer::Connections::~Connections() {
  Stop();
  watcher_.join();
}

void HttpServer::Connections::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_event_.get(), &one, sizeof one);
  changed_.notify_all();
}

HttpServer::Connections::Connection* HttpServer::Connections::Add(int socket) {
  const std::lock_guard lock(mutex_);
  open_.push_front({.socket = socket, .until = Clock::now() + kRequestTime, .place = {}});
  open_.front().place = open_.begin();
  changed_.notify_all();
  return &open_.front();
}

void HttpServer::Connections::Remove(Connection* connection) {
  const std::lock_guard lock(mutex_);
  open_.erase(connection->place);
}

void HttpServer::Connections::Allow(Connection* connection, Clock::duration time) {
  const std::lock_guard lock(mutex_);
  connection->until = time == Clock::duration::zero() ? Clock::time_point::max() : Clock::now() + time;
  changed_.notify_all();
}

WaitEnd HttpServer::Connections::Wait(const Connection& connection, std::chrono::seconds time) {
  // The longest time that one poll can wait, and therefore the longest wait of a handler.
  constexpr int64_t kLongestMs = 24 * 3600 * 1000;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_ >= kMaxWaiting) return WaitEnd::kTooMany;
    ++waiting_;
  }
  const WaitEnd end = WaitUntil(connection.socket, Clock::now() + std::min<std::chrono::milliseconds>(
                                                                      time, std::chrono::milliseconds(kLongestMs)));
  const std::lock_guard lock(mutex_);
  --waiting_;
  return end;
}

WaitEnd HttpServer::Connections::WaitUntil(int socket, Clock::time_point until) const {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return WaitEnd::kOver;
    pollfd events[2] = {{socket, POLLRDHUP, 0}, {stop_event_.get(), POLLIN, 0}};
    const int ready = poll(events, 2, static_cast<int>(left));
    if (ready > 0) return WaitEnd::kBrokenOff;
    if (ready < 0 && errno != EINTR) return WaitEnd::kBrokenOff;
  }
}

void HttpServer::Connections::Watch() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    auto next = Clock::time_point::max();
    for (Connection& connection : open_) {
      if (connection.until <= Clock::now()) {
        shutdown(connection.socket, SHUT_RDWR);
        connection.until = Clock::time_point::max();
      }
      next = std::min(next, connection.until);
    }
    if (next == Clock::time_point::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, next);
    }
  }
}

}  // namespace holdfast
