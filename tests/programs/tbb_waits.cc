// Waits for the mutexes of oneTBB. Two kinds spin for a moment and then sleep, two spin until they have the lock.
//     waits FUNCTION label contentions delay_ns        (contentions: lower bound)
//     spins FUNCTION delay_ns
//
// With an argument it stops while one thread waits for each, and says so; it goes on at the end of input.
#include <oneapi/tbb/mutex.h>
#include <oneapi/tbb/queuing_mutex.h>
#include <oneapi/tbb/rw_mutex.h>
#include <oneapi/tbb/spin_mutex.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "known.h"

namespace {
using Clock = std::chrono::steady_clock;
constexpr auto kHold = std::chrono::milliseconds(100);
tbb::mutex sleeping;
tbb::rw_mutex sleeping_shared;
tbb::spin_mutex spinning;
tbb::queuing_mutex queuing;
}  // namespace

extern "C" {
KNOWN void waits_for_mutex() { sleeping.lock(); }
KNOWN void waits_to_write() { sleeping_shared.lock(); }
KNOWN void spins_for_spin_mutex() { spinning.lock(); }
KNOWN void spins_for_queuing_mutex() { tbb::queuing_mutex::scoped_lock lock(queuing); }
}

template <typename Wait, typename Let, typename Unlock>
static void Waits(const char* format, Wait wait, Let let_go, Unlock unlock, bool stops) {
  long long waited = 0;
  std::atomic<bool> begins{false};
  std::thread waiter([&] {
    begins = true;
    const auto before = Clock::now();
    wait();
    waited = std::chrono::nanoseconds(Clock::now() - before).count();
    unlock();
  });
  while (!begins) std::this_thread::yield();
  std::this_thread::sleep_for(kHold);
  if (stops) {
    puts("stops");
    fflush(stdout);
    char end;
    while (read(0, &end, 1) > 0) continue;
  }
  let_go();
  waiter.join();
  printf(format, waited);
}

int main(int count, char**) {
  const bool stops = count > 1;
  std::thread([] { std::this_thread::sleep_for(kHold); }).join();  // the first wait of a process makes its table
  sleeping.lock();
  Waits(
      "waits waits_for_mutex futex 1 %lld\n", waits_for_mutex, [] { sleeping.unlock(); }, [] { sleeping.unlock(); },
      stops);
  sleeping_shared.lock();
  Waits(
      "waits waits_to_write futex 1 %lld\n", waits_to_write, [] { sleeping_shared.unlock(); },
      [] { sleeping_shared.unlock(); }, false);
  spinning.lock();
  Waits(
      "spins spins_for_spin_mutex %lld\n", spins_for_spin_mutex, [] { spinning.unlock(); }, [] { spinning.unlock(); },
      false);
  tbb::queuing_mutex::scoped_lock held(queuing);
  Waits(
      "spins spins_for_queuing_mutex %lld\n", spins_for_queuing_mutex, [&held] { held.release(); }, [] {}, false);
  return 0;
}
