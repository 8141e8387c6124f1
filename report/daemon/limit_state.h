// Decides when a control group is near its memory limit: when snapshots are due, and when to look again. The caller
// passes what is left and when; this class reads nothing.
//
//    limit ─────────────────────────────────      the kernel kills here
//                                   ╭─ 3
//                              ╭─ 2 ╯             again when half of the remaining memory is gone: a later snapshot has more
//                    ╭─── 1 ───╯                  a tenth of the limit is left, or only what an export needs plus what the
//    used ───────────╯                            program allocates meanwhile at its current rate
//
// A group that stays near its limit gets one series for its approach. A group that moves away and comes back gets
// another, at the earliest half a minute later, or when less than half of the earlier remainder is left.
#ifndef HOLDFAST_REPORT_DAEMON_LIMIT_STATE_H_
#define HOLDFAST_REPORT_DAEMON_LIMIT_STATE_H_

#include <cstdint>

namespace holdfast {

class LimitState {
 public:
  // In bytes. `takes`: the minimum that an export needs, which must fit into `left`. Returns true if snapshots are due
  // now.
  bool Look(int64_t limit, int64_t left, int64_t takes, int64_t now_ns);
  // Returns how long not to look again: a program of usual speed cannot come near earlier.
  int64_t LookAgainIn() const { return again_in_ns_; }

 private:
  int64_t last_left_ = -1, last_ns_ = 0;
  double speed_ = 0;           // bytes a second that the group allocates
  int64_t left_at_last_ = -1;  // when snapshots were last due; -1: never
  int64_t due_ns_ = 0;
  bool went_away_ = false;  // since then
  int64_t again_in_ns_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_LIMIT_STATE_H_
