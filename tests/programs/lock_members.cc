// Locks that are members of global and static objects, each contended once: a holder keeps it until its waiter sleeps.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace bank {

struct Account {
  std::string owner;
  int64_t balance = 0;
  std::mutex mutex;
};

class Named {
 public:
  std::string name;
  std::timed_mutex name_mutex_;  // in the base of a server
};

class Server : public Named {
 public:
  std::mutex accounts_mutex_;
  Account accounts_[4];
  Account grid_[2][3];
  struct Audit {
    int64_t entries = 0;
    pthread_mutex_t log = PTHREAD_MUTEX_INITIALIZER;
  } audit_;
  static Account defaults_;
};

Account Server::defaults_;
Server server;
std::mutex lone_mutex;

Account* Fallback() {
  static Account fallback;
  return &fallback;
}

}  // namespace bank

namespace {

void Contend(const auto& lock, const auto& unlock) {
  lock();
  std::atomic<bool> begun{false};
  std::thread waiter([&] {
    begun = true;
    lock();
    unlock();
  });
  while (!begun) usleep(100);
  usleep(30'000);
  unlock();
  waiter.join();
}

template <typename Mutex>
void Contend(Mutex* mutex) {
  Contend([mutex] { mutex->lock(); }, [mutex] { mutex->unlock(); });
}

}  // namespace

int main() {
  using bank::server;
  Contend(&bank::lone_mutex);
  Contend(&server.name_mutex_);
  Contend(&server.accounts_mutex_);
  Contend(&server.accounts_[3].mutex);
  Contend(&server.grid_[1][2].mutex);
  Contend([] { pthread_mutex_lock(&server.audit_.log); }, [] { pthread_mutex_unlock(&server.audit_.log); });
  Contend(&bank::Server::defaults_.mutex);
  Contend(&bank::Fallback()->mutex);
}
