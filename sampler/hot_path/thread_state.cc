#include "sampler/hot_path/thread_state.h"

#include "sampler/contract/syscalls.h"

namespace holdfast {

__thread ThreadState thread_state __attribute__((tls_model("initial-exec"))) = {};

int ThreadId() {
  ThreadState& thread = thread_state;
  if (thread.thread_id == 0 && !no_system_calls.load(std::memory_order_relaxed)) {
    thread.thread_id = static_cast<int>(RawSyscall(SYS_gettid));
  }
  return thread.thread_id;
}

}  // namespace holdfast
