// One condition: when it becomes true. Told values and times, it looks at nothing.
//
//     value   ───╮        ╭─╮   ╭──       becomes true above `above`, and is until the value is below 95 % of that, so that one
//     above ─ ─ ─│─ ─ ─╭──╯─╰───╯ ─       that wavers does so once
//                ╰─────╯ ^ once
//
// growth and delay are of a window: how much more the value is than the least in the time that the condition names. Both are 0 when a
// process begins, so what came before the first look is in it.
#ifndef HOLDFAST_REPORT_TRIGGERS_TRIGGER_STATE_H_
#define HOLDFAST_REPORT_TRIGGERS_TRIGGER_STATE_H_

#include <cstdint>
#include <deque>
#include <string>

#include "sampler/contract/triggers.h"

namespace holdfast {

class TriggerState {
 public:
  // `text`: what the trigger was read from. `began_ns`: of the clock of Look, when the process began; 0: not known.
  TriggerState(const Trigger& trigger, const char* text, int64_t began_ns = 0);

  const Trigger& trigger() const { return trigger_; }
  // `value`: bytes; of kDelay nanoseconds, that only grow. `limit`: of memory, where the condition is a share of it; 0: there is
  // none, and it is never true. Times of one clock, that do not go back. True when it has just become true.
  bool Look(uint64_t value, uint64_t limit, int64_t now_ns);
  // "inuse>2GiB at 2.01GiB", as of the last look.
  std::string Reason() const;
  // It is not true any more.
  bool is_over() const { return !is_true_; }

 private:
  uint64_t WithinWindow(uint64_t value, int64_t now_ns);

  struct Slot {
    int64_t start_ns;
    uint64_t least;
  };
  Trigger trigger_;
  std::string text_;
  std::deque<Slot> window_;  // oldest first
  uint64_t value_ = 0, limit_ = 0;
  bool is_true_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TRIGGERS_TRIGGER_STATE_H_
