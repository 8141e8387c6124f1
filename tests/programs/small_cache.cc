// A server that implements set, get and version of memcached's protocol, with one thread per connection. One lock protects
// the table, so that connections wait for each other; another protects the messages to a thread that counts keys.
//     small_cache SOCKET       until SIGTERM
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr size_t kMaxKeys = 20'000;

class Table {
 public:
  __attribute__((noinline)) void Set(const std::string& key, std::string_view value) {
    const std::lock_guard lock(mutex_);
    if (values_.size() >= kMaxKeys) values_.erase(values_.begin());
    values_[key] = std::string(value);
  }
  __attribute__((noinline)) std::string Get(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::string() : found->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::string> values_;
};

class Counts {
 public:
  __attribute__((noinline)) void Tell(std::vector<std::string> keys) {
    {
      const std::lock_guard lock(mutex_);
      invalidated_.push_back(std::move(keys));
    }
    changed_.notify_one();
  }
  [[noreturn]] void Count() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !invalidated_.empty(); });
      CountInvalidated();
    }
  }

 private:
  __attribute__((noinline)) void CountInvalidated() {  // with the lock: who tells waits
    for (const auto& keys : invalidated_) {
      for (const std::string& key : keys) ++counts_[key.substr(0, 5)];
    }
    invalidated_.clear();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::string>> invalidated_;
  std::map<std::string, long> counts_;
};

// Never destroyed: threads use them until the end.
Table& table = *new Table;
Counts& counts = *new Counts;

// The answers to what is whole of `request`, which loses it.
std::string Answer(std::string* request) {
  std::string answer;
  std::vector<std::string> keys;
  size_t at = 0;
  while (true) {
    const size_t end = request->find("\r\n", at);
    if (end == std::string::npos) break;
    const std::string line = request->substr(at, end - at);
    char key[256] = "";
    size_t bytes = 0;
    size_t next = end + 2;
    if (sscanf(line.c_str(), "set %255s %*d %*d %zu", key, &bytes) == 2) {
      if (request->size() < next + bytes + 2) break;
      table.Set(key, std::string_view(*request).substr(next, bytes));
      next += bytes + 2;
      answer += "STORED\r\n";
    } else if (sscanf(line.c_str(), "get %255s", key) == 1) {
      answer += table.Get(key) + "\r\nEND\r\n";
    } else {
      answer += "VERSION 1\r\n";
    }
    if (*key != '\0') keys.push_back(key);
    at = next;
  }
  request->erase(0, at);
  counts.Tell(std::move(keys));
  return answer;
}

void Serve(int connection) {
  std::string request;
  std::vector<char> buffer(64 << 10);
  while (true) {
    const ssize_t bytes = read(connection, buffer.data(), buffer.size());
    if (bytes <= 0) break;
    request.append(buffer.data(), static_cast<size_t>(bytes));
    const std::string answer = Answer(&request);
    for (size_t sent = 0; sent < answer.size();) {
      const ssize_t wrote = send(connection, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
      if (wrote <= 0) break;
      sent += static_cast<size_t>(wrote);
    }
  }
  close(connection);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &end, nullptr);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(listener, 16) != 0) {
    perror(argv[1]);
    return 3;
  }
  std::thread([] { counts.Count(); }).detach();
  std::thread([listener] {
    while (true) {
      const int connection = accept(listener, nullptr, nullptr);
      if (connection >= 0) std::thread(Serve, connection).detach();
    }
  }).detach();
  int signal = 0;
  sigwait(&end, &signal);
  exit(0);
}
