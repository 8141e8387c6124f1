// C++'s mutexes; the timed ones use pthread_mutex_clocklock. One known wait in each named function.
//     waits FUNCTION contentions delay_ns least_ns        least_ns: the delay since the waiter was seen to sleep
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "asleep.h"
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
  std::atomic<long> thread = 0;
  Clock::time_point before;
  std::thread waiter([&] {
    before = Clock::now();
    thread = syscall(SYS_gettid);
    got = lock();
    waited = std::chrono::nanoseconds(Clock::now() - before).count();
    if (got) mutex.unlock();
  });
  // Asleep three times in a row: in the lock, no longer on the way to it.
  for (int asleep = 0; asleep < 3; asleep = thread != 0 && Sleeps(thread) ? asleep + 1 : 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto seen = Clock::now();
  std::this_thread::sleep_for(kHold);
  if (lock == gives_up) waiter.join();
  // Who gives up waits until kHold after it began, or later.
  const auto least = (lock == gives_up ? before + kHold : Clock::now()) - seen;
  held.unlock();
  if (waiter.joinable()) waiter.join();
  printf("%s: %s\n", name, got ? "got it" : "gave up");
  printf("waits %s 1 %lld %lld\n", name, waited, static_cast<long long>(std::chrono::nanoseconds(least).count()));
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
