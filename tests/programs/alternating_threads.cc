// Pairs of threads that wake each other all the time: at every moment one of each pair runs or has been woken. Only their
// stacks lead to the words that they wait for. Prints "ready", and then waits for the end of its input.
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace {

constexpr int kPairs = 6;

using Turn = std::atomic<int>;
std::atomic<int> began;

void take_turns(Turn* volatile turn, int own) {
  began.fetch_add(1);
  for (;;) {
    while (turn->load() != own) syscall(SYS_futex, turn, FUTEX_WAIT_PRIVATE, 1 - own, nullptr, nullptr, 0);
    turn->store(1 - own);
    syscall(SYS_futex, turn, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
}
void* run_first(void* turn) {
  take_turns(static_cast<Turn*>(turn), 0);
  return nullptr;
}
void* run_second(void* turn) {
  take_turns(static_cast<Turn*>(turn), 1);
  return nullptr;
}

__attribute__((noinline)) void start_pair() {
  pthread_t thread;
  Turn* turn = new Turn(0);
  pthread_create(&thread, nullptr, run_first, turn);
  pthread_create(&thread, nullptr, run_second, turn);
}
// Overwrites what calls have left on the stack.
__attribute__((noinline)) void clear_stack() {
  volatile char bytes[32 << 10];
  for (volatile char& byte : bytes) byte = 0;
}

}  // namespace

int main() {
  for (int i = 0; i < kPairs; ++i) start_pair();
  while (began.load() < 2 * kPairs) usleep(1000);
  clear_stack();
  write(1, "ready\n", 6);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  _exit(0);
}
