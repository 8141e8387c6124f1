// One condition: decides when it becomes true. The caller passes values and times; this class reads nothing.
//
//    value   ───╮        ╭─╮   ╭──       becomes true above `above`, and stays true until the value is below 95 % of `above`,
//    above ─ ─ ─│─ ─ ─╭──╯─╰───╯ ─       so that a value that oscillates triggers once
//                ╰─────╯ ^ once
//
// growth and delay have a window: the value is compared with its minimum during the condition's time. Both are 0 when a
// process begins, so the window includes what happened before the first look.
#ifndef HOLDFAST_REPORT_DAEMON_TRIGGER_STATE_H_
#define HOLDFAST_REPORT_DAEMON_TRIGGER_STATE_H_

#include <cstdint>
#include <deque>
#include <string>

#include "sampler/contract/triggers.h"

namespace holdfast {

class TriggerState {
 public:
  // `text`: the source text of the trigger. `began_ns`: when the process began, by the clock of Look; 0: unknown.
  TriggerState(const Trigger& trigger, const char* text, int64_t began_ns = 0);

  const Trigger& trigger() const { return trigger_; }
  // `value`: bytes; for kDelay nanoseconds, which only increase. `limit`: the memory limit, for a condition with a
  // share of it; 0: no limit, and the condition is never true. Times must be of one clock and not decrease. Returns
  // true if the condition has just become true.
  bool Look(uint64_t value, uint64_t limit, int64_t now_ns);
  // "inuse>2GiB at 2.01GiB", as of the last look.
  std::string Reason() const;
  // Whether the condition is no longer true.
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

#endif  // HOLDFAST_REPORT_DAEMON_TRIGGER_STATE_H_
