// A slow path of rare events that must all be recorded: mappings, throws, new threads. Like EnterSlow, but also records
// events inside an operator new of the program that our wrapper has called (MuteForOperator), and in a signal handler
// that has interrupted a sample of its thread.
//
//     const Entered entered(thread_state);
//     if (entered.way() == Way::kClosed) return;
//
// No real function may be called while the object lives.
#ifndef HOLDFAST_SAMPLER_PROCESS_ENTERED_H_
#define HOLDFAST_SAMPLER_PROCESS_ENTERED_H_

#include <cstdint>

#include "sampler/hot_path/thread_state.h"
#include "sampler/process/enter.h"
#include "sampler/process/process.h"

namespace holdfast {

// How much of a stack may be captured now.
enum class Way : uint8_t {
  kClosed,  // nothing is to be recorded
  kNested,  // in a handler that has interrupted a sample of this thread: without its stack
  kOpen,
};

// While the object lives, the thread is in our own code; in an operator it stays muted afterwards.
class Entered {
 public:
  explicit Entered(ThreadState& thread) : thread_(thread), in_operator_(thread.in_operator) {
    if (in_operator_) Unmute(thread);
    if (EnterSlow(thread)) {
      Mute(thread);
      way_ = Way::kOpen;
    } else if (in_operator_) {
      Mute(thread);
    } else if (thread.muted && process.recording.load(std::memory_order_relaxed) && OwnState()) {
      way_ = Way::kNested;
    }
  }
  ~Entered() {
    if (way_ == Way::kOpen && !in_operator_) Unmute(thread_);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  Way way() const { return way_; }

 private:
  ThreadState& thread_;
  const bool in_operator_;
  Way way_ = Way::kClosed;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_ENTERED_H_
