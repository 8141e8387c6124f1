// Sessions with a mutex each, for which a thread waits once. None is hotter than the others.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "asleep.h"

namespace {

struct Session {
  int number = 0;
  std::mutex mutex;
};
Session sessions[4];
std::atomic<int> waiter{0};

__attribute__((noinline)) void Disconnect(Session* session) {
  std::lock_guard<std::mutex> guard(session->mutex);
  ++session->number;
}

}  // namespace

int main() {
  for (Session& session : sessions) {
    waiter = 0;
    std::unique_lock<std::mutex> held(session.mutex);
    std::thread thread([&] {
      waiter = gettid();
      Disconnect(&session);
    });
    while (waiter == 0 || !Sleeps(waiter)) usleep(100);
    held.unlock();
    thread.join();
  }
}
