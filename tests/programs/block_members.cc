// Locks that are members of heap objects, each contended once: a holder keeps it until its waiter sleeps. The objects stay.
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace bank {

struct Account {
  std::string owner;
  long balance = 0;
  std::mutex mutex;
};

class Session {
 public:
  __attribute__((noinline)) void Use();

 private:
  char id_[40] = {};
  std::mutex state_mutex_;
};
// As large, with a lock at the same place: no function names it.
struct Unrelated {
  char text[40];
  std::mutex other_mutex;
} unrelated;

class Vault {
 public:
  __attribute__((noinline)) void Open();

 private:
  Account safes_[3];
};

}  // namespace bank

namespace {

void Contend(std::mutex* mutex) {
  mutex->lock();
  std::atomic<bool> begun{false};
  std::thread waiter([&] {
    begun = true;
    mutex->lock();
    mutex->unlock();
  });
  while (!begun) usleep(100);
  usleep(30'000);
  mutex->unlock();
  waiter.join();
}

}  // namespace

void bank::Session::Use() { Contend(&state_mutex_); }
void bank::Vault::Open() { Contend(&safes_[2].mutex); }

int main() {
  const auto* shared = new auto(std::make_shared<bank::Session>());
  (*shared)->Use();
  std::make_unique<bank::Session>().release()->Use();
  std::make_unique<bank::Vault>().release()->Open();
}
