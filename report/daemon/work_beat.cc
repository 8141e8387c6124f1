#include "report/daemon/work_beat.h"

#include <signal.h>
#include <time.h>

#include "sampler/contract/exporter_progress.h"

namespace holdfast {
namespace {

constexpr size_t kBeatStackBytes = 64 << 10;

}  // namespace

WorkBeat::WorkBeat() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  pthread_attr_setstacksize(&attributes, kBeatStackBytes);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  has_thread_ = pthread_create(&thread_, &attributes, Run, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

WorkBeat::~WorkBeat() {
  if (!has_thread_) return;
  ends_.store(true);
  Begin();
  pthread_join(thread_, nullptr);
}

void WorkBeat::CountIn(std::atomic<uint64_t>* word) {
  // 0: nobody counts.
  if (word != nullptr && has_thread_) word->store(1, std::memory_order_relaxed);
  word_.store(word, std::memory_order_release);
}

void WorkBeat::Begin() {
  if (working_.exchange(1, std::memory_order_release) == 0) working_.notify_one();
}

void* WorkBeat::Run(void* beat) {
  auto& of_all = *static_cast<WorkBeat*>(beat);
  while (true) {
    of_all.working_.wait(0);
    if (of_all.ends_.load()) return nullptr;
    if (std::atomic<uint64_t>* word = of_all.word_.load(std::memory_order_acquire); word != nullptr)
      word->fetch_add(1, std::memory_order_relaxed);
    const timespec pause = {0, kWorkBeatNs};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace holdfast
