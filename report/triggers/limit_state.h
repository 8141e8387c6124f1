// A control group that comes near its memory limit: when snapshots are due, and when to look again. Told what is left and when, it
// looks at nothing.
//
//     limit ─────────────────────────────────      the killer comes here
//                                    ╭─ 3
//                               ╭─ 2 ╯             again when half of what was left is gone: the later one holds more
//                     ╭─── 1 ───╯                  a tenth of the limit is left, or as little as an export takes, and what
//     used ───────────╯                            the program takes meanwhile, as fast as it grows now
//
// A group that stays near its limit has one for its way there; one that goes away and comes back has the next, half a minute
// later at the earliest, or when less is left than half of what was.
#ifndef HOLDFAST_REPORT_TRIGGERS_LIMIT_STATE_H_
#define HOLDFAST_REPORT_TRIGGERS_LIMIT_STATE_H_

#include <cstdint>

namespace holdfast {

class LimitState {
 public:
  // Bytes. `takes`: the least that an export takes, which must fit into what is left. True: snapshots are due now.
  bool Look(int64_t limit, int64_t left, int64_t takes, int64_t now_ns);
  // No earlier than this much later: a program of usual speed cannot have come near before.
  int64_t LookAgainIn() const { return again_in_ns_; }

 private:
  int64_t last_left_ = -1, last_ns_ = 0;
  double speed_ = 0;           // bytes a second that the group takes
  int64_t left_at_last_ = -1;  // when snapshots were last due; -1: never
  int64_t due_ns_ = 0;
  bool went_away_ = false;  // since then
  int64_t again_in_ns_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TRIGGERS_LIMIT_STATE_H_
