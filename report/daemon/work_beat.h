// A counter that increases while the exporter works. A process that cannot see the exporter in /proc uses it to tell
// whether the exporter can answer (sampler/contract/exporter_progress.h).
//
// A thread counts, because one step of the work may take seconds. The thread sleeps while there is no work.
#ifndef HOLDFAST_REPORT_DAEMON_WORK_BEAT_H_
#define HOLDFAST_REPORT_DAEMON_WORK_BEAT_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace holdfast {

class WorkBeat {
 public:
  WorkBeat();
  WorkBeat(const WorkBeat&) = delete;
  WorkBeat& operator=(const WorkBeat&) = delete;
  ~WorkBeat();

  // Counts in `*word` from now on; null: nowhere. The word must stay mapped.
  void CountIn(std::atomic<uint64_t>* word);
  void Begin();
  void End() { working_.store(0, std::memory_order_relaxed); }

 private:
  static void* Run(void* beat);

  std::atomic<std::atomic<uint64_t>*> word_{nullptr};
  std::atomic<int> working_{0};
  std::atomic<bool> ends_{false};
  pthread_t thread_{};
  bool has_thread_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_WORK_BEAT_H_
