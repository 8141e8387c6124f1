// Waits in a function that is named like one of oneTBB.
#include <pthread.h>

namespace tbb {

__attribute__((noinline)) void wait_for_other(pthread_barrier_t* both) { pthread_barrier_wait(both); }

}  // namespace tbb

int main() {
  static pthread_barrier_t both;
  pthread_barrier_init(&both, nullptr, 2);
  pthread_t other;
  pthread_create(
      &other, nullptr,
      [](void*) -> void* {
        tbb::wait_for_other(&both);
        return nullptr;
      },
      nullptr);
  tbb::wait_for_other(&both);
  return pthread_join(other, nullptr);
}
