// A load for memcached: connections that each send batches of sets and gets and read every answer.
//     memcached_load SOCKET CONNECTIONS BATCHES       prints "OPERATIONS-PER-SECOND OPERATIONS"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kBatch = 64;  // of each: sets, gets
constexpr int kKeys = 100'000;

const char* path;
bool failed = false;

double Now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void Client(unsigned seed, int batches) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    failed = true;
    return;
  }
  std::string request, answer(1 << 20, '\0');
  for (int i = 0; i < batches; ++i) {
    request.clear();
    for (int j = 0; j < kBatch; ++j) {
      seed = seed * 1664525 + 1013904223;
      const std::string key = "key" + std::to_string(seed % kKeys);
      const size_t bytes = 32 + seed % 200;
      request +=
          "set " + key + " 0 0 " + std::to_string(bytes) + "\r\n" + std::string(bytes, 'x') + "\r\nget " + key + "\r\n";
    }
    request += "version\r\n";
    for (size_t sent = 0; sent < request.size();) {
      const ssize_t wrote = write(fd, request.data() + sent, request.size() - sent);
      if (wrote <= 0) {
        failed = true;
        close(fd);
        return;
      }
      sent += static_cast<size_t>(wrote);
    }
    size_t got = 0;
    do {
      const ssize_t bytes = read(fd, answer.data() + got, answer.size() - got);
      if (bytes <= 0) {
        failed = true;
        close(fd);
        return;
      }
      got += static_cast<size_t>(bytes);
    } while (memmem(answer.data(), got, "VERSION ", 8) == nullptr);
  }
  close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  path = argv[1];
  const int connections = atoi(argv[2]), batches = atoi(argv[3]);
  const double begin = Now();
  std::vector<std::thread> clients;
  for (int i = 0; i < connections; ++i) clients.emplace_back(Client, static_cast<unsigned>(i) * 7919 + 1, batches);
  for (std::thread& client : clients) client.join();
  if (failed) {
    fprintf(stderr, "memcached_load: the server at %s does not answer\n", path);
    return 3;
  }
  const double operations = 2.0 * kBatch * connections * batches;
  printf("%.0f %.0f\n", operations / (Now() - begin), operations);
  return 0;
}
