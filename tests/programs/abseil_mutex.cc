// Waits for abseil's Mutex: for the lock, for a shared lock, and for a condition.
//     waits FUNCTION label contentions delay_ns        (contentions: lower bound)
#include <absl/synchronization/mutex.h>

#include <chrono>
#include <thread>

#include "known.h"

namespace {
using Clock = std::chrono::steady_clock;
constexpr auto kHold = std::chrono::milliseconds(60);
absl::Mutex mutex;
bool ready = false;
}  // namespace

extern "C" {
KNOWN void waits_to_write() { mutex.Lock(); }
KNOWN void waits_to_read() { mutex.ReaderLock(); }
KNOWN void waits_for_condition() { mutex.LockWhen(absl::Condition(&ready)); }
KNOWN void culprit_lets_go() { mutex.Unlock(); }
}

static void Wait(const char* name, void (*wait)(), void (*unlock)()) {
  mutex.Lock();
  long long waited = 0;
  std::thread waiter([&] {
    const auto before = Clock::now();
    wait();
    waited = std::chrono::nanoseconds(Clock::now() - before).count();
    unlock();
  });
  std::this_thread::sleep_for(kHold);
  ready = true;
  culprit_lets_go();
  waiter.join();
  printf("waits %s futex 1 %lld\n", name, waited);
}

int main() {
  std::thread([] { std::this_thread::sleep_for(kHold); }).join();  // the first wait of a process makes its table
  Wait("waits_to_write", waits_to_write, [] { mutex.Unlock(); });
  Wait("waits_to_read", waits_to_read, [] { mutex.ReaderUnlock(); });
  ready = false;
  Wait("waits_for_condition", waits_for_condition, [] { mutex.Unlock(); });
  return 0;
}
