// Waits of C++20's library that use no pthread lock, one in each named function. All of them are futexes.
//     waits FUNCTION label contentions delay_ns        (contentions: lower bound)
#include <atomic>
#include <barrier>
#include <chrono>
#include <latch>
#include <semaphore>
#include <thread>

#include "known.h"

namespace {
using Clock = std::chrono::steady_clock;
constexpr auto kHold = std::chrono::milliseconds(150);  // the library spins and yields for some of it first
std::atomic<int> word{0};
std::counting_semaphore<8> semaphore{0};
std::latch latch{1};
std::barrier barrier{2};

int TakesAWhile() {
  std::this_thread::sleep_for(kHold);
  return 1;
}
KNOWN int Guarded() {
  static const int value = TakesAWhile();
  return value;
}
}  // namespace

extern "C" {
KNOWN void waits_for_atomic() { word.wait(0); }
KNOWN void waits_for_counting_semaphore() { semaphore.acquire(); }
KNOWN void waits_for_counting_semaphore_for_a_time() { semaphore.try_acquire_for(std::chrono::seconds(20)); }
KNOWN void waits_for_latch() { latch.wait(); }
KNOWN void waits_for_barrier() { barrier.arrive_and_wait(); }
KNOWN void waits_for_static_guard() { Guarded(); }
}

template <typename Release>
static void Wait(const char* name, const char* label, void (*wait)(), Release release,
                 std::chrono::milliseconds later = {}) {
  long long waited = 0;
  std::thread waiter([&] {
    std::this_thread::sleep_for(later);
    const auto before = Clock::now();
    wait();
    waited = std::chrono::nanoseconds(Clock::now() - before).count();
  });
  std::this_thread::sleep_for(kHold);
  release();
  waiter.join();
  printf("waits %s %s 1 %lld\n", name, label, waited);
}

int main() {
  std::thread([] { std::this_thread::sleep_for(kHold); }).join();  // the first wait of a process makes its table
  Wait("waits_for_atomic", "futex", waits_for_atomic, [] {
    word = 1;
    word.notify_all();
  });
  Wait("waits_for_counting_semaphore", "futex", waits_for_counting_semaphore, [] { semaphore.release(); });
  Wait("waits_for_counting_semaphore_for_a_time", "futex", waits_for_counting_semaphore_for_a_time,
       [] { semaphore.release(); });
  Wait("waits_for_latch", "futex", waits_for_latch, [] { latch.count_down(); });
  Wait("waits_for_barrier", "futex", waits_for_barrier, [] { barrier.arrive_and_wait(); });
  std::thread first([] { Guarded(); });
  Wait(
      "waits_for_static_guard", "futex", waits_for_static_guard, [] {}, std::chrono::milliseconds(20));
  first.join();
  return 0;
}
