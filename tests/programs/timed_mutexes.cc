// C++'s mutexes, the timed ones by pthread_mutex_clocklock: one known wait in each named function.
//     waits FUNCTION contentions delay_ns
#include <chrono>
#include <mutex>
#include <thread>

#include "known.h"

namespace {
using Clock = std::chrono::steady_clock;
std::timed_mutex timed;
std::recursive_timed_mutex recursive_timed;
std::mutex plain;
constexpr auto kLong = std::chrono::seconds(20);
constexpr auto kHold = std::chrono::milliseconds(150);
}  // namespace

extern "C" {
KNOWN bool warms_up() { return timed.try_lock_for(kLong); }
KNOWN bool waits_for_timed() { return timed.try_lock_for(kLong); }
KNOWN bool waits_until_timed() { return timed.try_lock_until(std::chrono::system_clock::now() + kLong); }
KNOWN bool waits_for_recursive_timed() { return recursive_timed.try_lock_for(kLong); }
KNOWN bool waits_for_plain() {
  plain.lock();
  return true;
}
KNOWN bool gives_up() { return timed.try_lock_for(kHold); }
}

template <typename Mutex>
static void Wait(const char* name, Mutex& mutex, bool (*lock)()) {
  std::unique_lock<Mutex> held(mutex);
  long long waited = 0;
  bool got = false;
  std::thread waiter([&] {
    const auto before = Clock::now();
    got = lock();
    waited = std::chrono::nanoseconds(Clock::now() - before).count();
    if (got) mutex.unlock();
  });
  std::this_thread::sleep_for(kHold * (lock == gives_up ? 3 : 1));
  held.unlock();
  waiter.join();
  printf("%s: %s\n", name, got ? "got it" : "gave up");
  printf("waits %s 1 %lld\n", name, waited);
}

int main() {
  Wait("warms_up", timed, warms_up);  // the first sample of a process costs milliseconds of its wait, once
  Wait("waits_for_timed", timed, waits_for_timed);
  Wait("waits_until_timed", timed, waits_until_timed);
  Wait("waits_for_recursive_timed", recursive_timed, waits_for_recursive_timed);
  Wait("waits_for_plain", plain, waits_for_plain);
  Wait("gives_up", timed, gives_up);
  return 0;
}
