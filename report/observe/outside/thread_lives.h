// The names, lifetimes and CPU times of a process's threads, without looks at what they do (thread_looks.h). Reads two small
// files in /proc for each thread.
//
//     snapshot 1   worker-1 lived 20 s, worker-2 lived 20 s
//     snapshot 2   worker-1 lived 80 s                        worker-2 has ended: it lived at least 20 s
#ifndef HOLDFAST_REPORT_OBSERVE_OUTSIDE_THREAD_LIVES_H_
#define HOLDFAST_REPORT_OBSERVE_OUTSIDE_THREAD_LIVES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "report/observe/outside/thread_looks.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {

class ThreadLives {
 public:
  // Reads a file of a thread, and says when a thread began. Tests have their own.
  using ReadFile = std::function<std::string(pid_t pid, pid_t thread, const char* name)>;
  using Began = std::function<std::optional<int64_t>(std::string_view stat)>;
  explicit ThreadLives(ReadFile read = ReadOfThread, Began began = BeganOf)
      : read_(std::move(read)), began_(std::move(began)) {}

  // Reads the threads of a live process. Threads that an earlier call has seen, and that have ended since, are sums by name.
  // Everything but CPU times is `kUnknown`.
  void Read(pid_t pid, bool other_namespace);
  // The result of the last call; null: the process had ended before the first one.
  std::shared_ptr<const ThreadTimes> times() const { return times_; }

  struct Life {
    std::string name;
    uint64_t start_ticks = 0;  // as the kernel counts them: the same number as long as the thread lives
    ThreadTime time;
    int64_t began_ns = 0;  // CLOCK_MONOTONIC
  };
  // The threads that the last call found, by their ids as we see them. Null: there were too many to read all.
  const std::map<pid_t, Life>* alive() const { return alive_.size() < kMost ? &alive_ : nullptr; }

 private:
  static constexpr size_t kMost = 4096;  // threads that are read
  ReadFile read_;
  Began began_;
  std::map<pid_t, Life> alive_;
  std::map<std::string, ThreadTime> ended_;  // by name
  std::shared_ptr<const ThreadTimes> times_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_OUTSIDE_THREAD_LIVES_H_
