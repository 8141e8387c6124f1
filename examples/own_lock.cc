// A lock that reports its waits and releases to Holdfast. Build it in the folder above this one:
//
//     c++ -std=c++20 -pthread -Iinclude examples/own_lock.cc -o own_lock
//     holdfast run -- ./own_lock; holdfast locks holdfast.own_lock.*      slow_update held it, impatient_reader waited
#include <holdfast.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

class OwnLock {
 public:
  void lock() {
    if (!taken_.exchange(true, std::memory_order_acquire)) return;  // free: not reported
    holdfast_wait wait;
    holdfast_lock_wait(this, &wait);
    do {
      taken_.wait(true, std::memory_order_relaxed);  // waits for a futex, which is part of this wait
    } while (taken_.exchange(true, std::memory_order_acquire));
    holdfast_lock_wait_end(&wait, 1);
  }
  void unlock() {
    holdfast_lock_release(this);
    taken_.store(false, std::memory_order_release);
    taken_.notify_all();
  }

 private:
  std::atomic<bool> taken_{false};
};

OwnLock accounts;

__attribute__((noinline)) void slow_update(std::atomic<bool>* begun) {
  accounts.lock();
  begun->store(true);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  accounts.unlock();
}
__attribute__((noinline)) void impatient_reader() {
  accounts.lock();
  accounts.unlock();
}

int main() {
  for (int i = 0; i < 3; ++i) {
    std::atomic<bool> begun{false};
    std::thread writer(slow_update, &begun);
    while (!begun.load()) std::this_thread::yield();
    impatient_reader();
    writer.join();
  }
  std::puts("done");
}
