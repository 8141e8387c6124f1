// A C++ server that keeps strings by their keys, for scripts/bench: linked to a static tcmalloc. Understands what
// memcached_load sends. Ends at SIGTERM, through exit, so that gperftools' profiler writes its last file.
//     store_server SOCKET
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

namespace {

constexpr size_t kShards = 16;

struct Shard {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const std::string>> values;
};
std::array<Shard, kShards> shards;

Shard& ShardOf(const std::string& key) { return shards[std::hash<std::string>()(key) % kShards]; }

std::string_view NextWord(std::string_view* line) {
  const size_t end = line->find(' ');
  const std::string_view word = line->substr(0, end);
  line->remove_prefix(end == line->npos ? line->size() : end + 1);
  return word;
}

// Answers the requests at the start of `input`, and removes them.
void Answer(std::string* input, std::string* output) {
  size_t done = 0;
  for (size_t end; (end = input->find("\r\n", done)) != std::string::npos;) {
    std::string_view line(input->data() + done, end - done);
    const std::string_view verb = NextWord(&line);
    if (verb == "set") {
      std::string key(NextWord(&line));
      NextWord(&line);
      NextWord(&line);
      const auto bytes = static_cast<size_t>(atoi(std::string(NextWord(&line)).c_str()));
      if (input->size() < end + 2 + bytes + 2) break;
      auto value = std::make_shared<const std::string>(*input, end + 2, bytes);
      Shard& shard = ShardOf(key);
      {
        const std::lock_guard lock(shard.mutex);
        shard.values[std::move(key)] = std::move(value);
      }
      *output += "STORED\r\n";
      done = end + 2 + bytes + 2;
      continue;
    }
    if (verb == "get") {
      const std::string key(NextWord(&line));
      std::shared_ptr<const std::string> value;
      Shard& shard = ShardOf(key);
      {
        const std::lock_guard lock(shard.mutex);
        if (const auto found = shard.values.find(key); found != shard.values.end()) value = found->second;
      }
      if (value != nullptr)
        *output += "VALUE " + key + " 0 " + std::to_string(value->size()) + "\r\n" + *value + "\r\n";
      *output += "END\r\n";
    } else if (verb == "version") {
      *output += "VERSION 1\r\n";
    }
    done = end + 2;
  }
  input->erase(0, done);
}

void Serve(int connection) {
  std::string input, output;
  char bytes[16384];
  for (ssize_t got; (got = read(connection, bytes, sizeof bytes)) > 0;) {
    input.append(bytes, static_cast<size_t>(got));
    output.clear();
    Answer(&input, &output);
    for (size_t sent = 0; sent < output.size();) {
      const ssize_t wrote = write(connection, output.data() + sent, output.size() - sent);
      if (wrote <= 0) break;
      sent += static_cast<size_t>(wrote);
    }
  }
  close(connection);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &end, nullptr);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, arguments[1], sizeof address.sun_path - 1);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(listener, 64) != 0)
    return 3;
  std::thread([listener] {
    for (int connection; (connection = accept(listener, nullptr, nullptr)) >= 0;)
      std::thread(Serve, connection).detach();
  }).detach();
  int signal;
  sigwait(&end, &signal);
  return 0;
}
