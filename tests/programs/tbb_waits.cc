// Waits for the mutexes of oneTBB. Two kinds spin for a moment and then sleep, two spin until they have the lock.
//     sleeps FUNCTION least_ns most_ns     how long its sleep took: from when it was seen until the lock was free, and in all
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

#include "asleep.h"
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

static long long NsSince(Clock::time_point before) { return std::chrono::nanoseconds(Clock::now() - before).count(); }

template <typename Wait, typename Let, typename Unlock>
static void Waits(const char* function, bool sleeps, Wait wait, Let let_go, Unlock unlock, bool stops) {
  long long waited = 0;
  std::atomic<int> begins{0};
  std::thread waiter([&] {
    begins = gettid();
    const auto before = Clock::now();
    wait();
    waited = NsSince(before);
    unlock();
  });
  while (begins == 0 || (sleeps && !Sleeps(begins))) std::this_thread::yield();
  const auto seen = Clock::now();
  std::this_thread::sleep_for(kHold);
  if (stops) {
    puts("stops");
    fflush(stdout);
    char end;
    while (read(0, &end, 1) > 0) continue;
  }
  const long long least = NsSince(seen);
  let_go();
  waiter.join();
  if (sleeps) {
    printf("sleeps %s %lld %lld\n", function, least, waited);
  } else {
    printf("spins %s %lld\n", function, waited);
  }
}

int main(int count, char**) {
  const bool stops = count > 1;
  std::thread([] { std::this_thread::sleep_for(kHold); }).join();  // the first wait of a process makes its table
  sleeping.lock();
  Waits(
      "waits_for_mutex", true, waits_for_mutex, [] { sleeping.unlock(); }, [] { sleeping.unlock(); }, stops);
  sleeping_shared.lock();
  Waits(
      "waits_to_write", true, waits_to_write, [] { sleeping_shared.unlock(); }, [] { sleeping_shared.unlock(); },
      false);
  spinning.lock();
  Waits(
      "spins_for_spin_mutex", false, spins_for_spin_mutex, [] { spinning.unlock(); }, [] { spinning.unlock(); }, false);
  tbb::queuing_mutex::scoped_lock held(queuing);
  Waits(
      "spins_for_queuing_mutex", false, spins_for_queuing_mutex, [&held] { held.release(); }, [] {}, false);
  return 0;
}
