// Where the time of each thread goes: on a CPU, waiting for a CPU, for a lock, for input or output, asleep, in another
// system call. Looks at all threads from outside, 20 times a second. Nothing is stopped, and the process does nothing.
//
//     schedstat   ns on a CPU, ns waiting for a CPU: exact                      cpu, runnable
//     syscall     the call in which the thread sleeps, and its stack pointer    io, sleep, syscall:NAME
//     the table   the thread's ongoing wait                                     lock
//     the lock    its holder, and what the holder does at this moment           what locks are held for
//
// The time that schedstat leaves is the time blocked, exact as a whole. The looks divide it: each look gives its state the time
// since the last look at this thread, and the sum is scaled to the time blocked. Not half of the time before and half of the
// time after: what follows depends on what this look finds, as a quiet thread is looked at more rarely, so short waits after a
// long one would get too little. Time between looks is random (50 ms on average; with more than 40 active threads up to
// 125 ms, so that 100 of them take less than 1 % of a core), so that no rhythm of the program hides a state. If schedstat has
// not changed, the thread has not run: the state and the stack are the last ones, and nothing more is read. A wait for a CPU
// is in schedstat only when it ends; until then it is not taken for time blocked.
//
//     looks                  100 ms     150 ms      200 ms
//     thread       ──read──────┼─lock──────┼─on CPU────┼──      lock: 50 ms, scaled
//
// Sums only grow: a snapshot closes the periods of all threads, and the scale of a closed period does not change. The period
// of a thread that is rarely blocked goes on until 16 looks found it blocked, or until the process ends or is detached from.
// Until then its parts lack that time, 0.8 s at the usual rate of looks. At most 2 % of a core.
#ifndef HOLDFAST_REPORT_OBSERVE_OUTSIDE_THREAD_LOOKS_H_
#define HOLDFAST_REPORT_OBSERVE_OUTSIDE_THREAD_LOOKS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/base/file_descriptor.h"
#include "report/observe/outside/look_at_waits.h"
#include "report/observe/table/table_folder.h"
#include "report/observe/table/thread_status.h"
#include "sampler/contract/records.h"

namespace holdfast {

enum class ThreadDoes : uint8_t {
  kCpu,       // runs
  kRunnable,  // waits for a CPU
  kLock,      // waits for a lock: a mutex, a reader-writer lock or a custom lock
  kIo,        // reads, writes or sends, or waits for a page of a file
  kSleep,     // nanosleep, pause
  kCall,      // another system call
  kStopped,   // by a signal or a debugger, or frozen with its cgroup
  kUnknown,   // before the first look, or the kernel does not say
};
inline constexpr int kThreadDoes = 8;
// The values of the label `state`. Another system call has `syscall:NAME`.
inline constexpr const char* kThreadDoesNames[kThreadDoes] = {"cpu",   "runnable", "lock",    "io",
                                                              "sleep", "syscall",  "stopped", "unknown"};

// The time of all threads of one name in one state at one stack.
struct ThreadTimeRow {
  uint32_t name = 0;  // index into ThreadTimes::names
  ThreadDoes does = ThreadDoes::kUnknown;
  WaitKind wait = WaitKind::kNone;  // of an ongoing wait
  int64_t call = -1;                // the number of the system call; -1: in none
  uint64_t lock = 0;                // address
  uint32_t stack = kNoStack;        // of the state
  double ns = 0;
  // What the lock's holder did meanwhile; kUnknown: not known. `is_free`: nobody held it.
  ThreadDoes holder_does = ThreadDoes::kUnknown;
  int64_t holder_call = -1;
  bool is_free = false;
};

// One live thread, or the sum of ended threads of one name.
struct ThreadTime {
  uint32_t name = 0;
  uint32_t id = 0;  // as the process sees it; 0: a sum
  uint32_t threads = 1;
  int64_t began_wall_ns = 0;  // of the first one
  double lived_ns = 0;
  double ns[kThreadDoes] = {};  // add up to lived_ns
  // What the thread did in each part of the process's time, `ThreadTimes::lane_step_ns` long: one more than ThreadDoes; 0:
  // it did not exist.
  std::vector<uint32_t> lane = {};

  // Adds the threads of another one to this sum, which has no lane.
  void Add(const ThreadTime& one);
};

struct ThreadTimes {
  std::vector<std::string> names;  // of threads
  std::vector<ThreadTimeRow> rows;
  std::vector<ThreadTime> threads;
  uint64_t looks = 0;
  uint64_t most_unlisted = 0;  // threads at one time that lack of descriptors kept from being listed
  // CPU time since the first look: of threads between their last look and their end, and of threads never seen.
  double unseen_cpu_ns = 0;
  int64_t lane_start_wall_ns = 0, lane_step_ns = 0;
  std::string unknown;  // why system calls cannot be read; "": they can
};

// What the looks read of a process. Tests make their own.
struct LookedAtProcess {
  pid_t pid = 0;
  bool other_namespace = false;
  FileDescriptor tasks;                 // the folder /proc/PID/task
  std::optional<ProcessMemory> memory;  // nothing: do not read it
  // Only while the threads are this user's: for root, if the program is another user.
  std::optional<uid_t> of_user = {};
  std::function<int64_t()> now_ns;                 // CLOCK_MONOTONIC
  std::function<std::optional<int64_t>()> cpu_ns;  // of all threads, also of those that have ended
  std::function<bool()> is_frozen = {};            // with its cgroup; empty: cannot be asked

  // A process, as we see it. With `of_user` its memory is not read: states and locks are known, and the stacks of waits that
  // the table records. Other stacks and what a lock's holder does are not.
  static LookedAtProcess Of(pid_t pid, bool other_namespace, std::optional<uid_t> of_user = {});
};

class ThreadLooks {
 public:
  explicit ThreadLooks(LookedAtProcess process);
  ~ThreadLooks();

  // Looks if it is time.
  void Look(const TableFile& table);
  // When the next look is due: CLOCK_MONOTONIC.
  int64_t next_ns() const;
  // From now on as with LookedAtProcess::of_user: the program has become another user.
  void ReadNoMoreMemory(uid_t of_user);
  // Looks no more until Resume, and closes the last period. What threads did meanwhile is `kUnknown`, but for CPU times.
  void Pause(const TableFile& table);
  void Resume();
  // Looks, and closes a period.
  void ClosePeriod(const TableFile& table);
  // Returns what is known up to the end of the last period. `rows`: of a snapshot that was taken after that, or a new wait has
  // no stack. Adds stacks to its `state`, so that ThreadTimeRow::stack is an index there. `with_open`: also divides periods that
  // go on, so that all parts add up to the lifetime, but a part may shrink later.
  std::shared_ptr<const ThreadTimes> Times(const std::vector<RowInfo>& rows, WaitGraph* state, bool with_open = false);

 private:
  class Looker;
  std::unique_ptr<Looker> looker_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_OUTSIDE_THREAD_LOOKS_H_
