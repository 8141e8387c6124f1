// Starting the exporter so that the program never notices: no child that waitpid(-1) returns, no SIGCHLD, no
// descriptor, no controlling terminal, no zombie.
//
// Used by the shim (in the thread that made the table, muted) and by `holdfast run --exec`. System calls only.
#ifndef HOLDFAST_SAMPLER_CONTRACT_SPAWN_EXPORTER_H_
#define HOLDFAST_SAMPLER_CONTRACT_SPAWN_EXPORTER_H_

#include <cstdint>

namespace holdfast {

// What became of a start.
enum class Spawned {
  kServes,   // the exporter serves, or another one does
  kStarted,  // as PID 1 or subreaper: the exporter runs, and serves in a moment
  kNoticed,  // a program would see the exporter as its child: none runs
  kFailed,   // the exporter could not be started, or cannot serve; trying again would not help
  kLate,     // the exporter did not answer in kAnswerWithinNs and was killed
};
inline constexpr int64_t kAnswerWithinNs = 2'000'000'000;
// The exporter's exit status if a program would see it; and the option that asks it to find out and to answer by one byte
// on standard output. `kOnlyAnswer`: the exporter ends after its answer.
inline constexpr int kNoticedStatus = 4;
inline constexpr char kAnswerOption[] = "--answer", kOnlyAnswerOption[] = "--only-answer";

// Starts `path` with `arguments` (null-terminated, at most 13 of them) and `environment` (null: one that keeps the
// library out). Returns after some milliseconds, once the exporter has answered.
//
//   usual      program ─clone(exit signal 0)→ middle ─→ exporter      the middle waits for the exporter's answer: it serves,
//                                                                     and nobody would notice an orphan (orphan_reaper.h).
//                                                                     The middle ends, is reaped here by its pid, and
//                                                                     the exporter becomes init's. On any other answer the
//                                                                     exporter has ended first.
//   as PID 1   program ─clone(exit signal 0)→ middle ─→ exporter      an orphan would come back to the program: so the
//   or sub-                                      └ stays, waits       middle stays as its parent. waitpid(-1) does not
//   reaper                                                            see it (exit signal 0, never execs). It keeps no
//                                                                     descriptor and no memory but a page of stack. It
//                                                                     takes the exporter's orphans, starts a killed
//                                                                     exporter again, and ends with it. A subreaper first
//                                                                     asks whether its own parent would notice the middle.
//
// `named_by_others`: the path comes from a variable, which may come from another user: a setuid program hands its
// environment on to what it starts as root. Then only a file of root's or of this user's own is executed, which others may
// not write.
// `variable`: "NAME=VALUE", one more of the environment where that is null; null: none.
// `orphan`: kMayComeBack where the program is about to become a subreaper; kIsKept keeps the middle without asking anybody, in
// a program that calls EndKeptMiddle before it ends.
enum class Orphan { kGoesAway, kMayComeBack, kIsKept };
Spawned SpawnExporter(const char* path, const char* const* arguments, const char* const* environment,
                      bool named_by_others = false, const char* variable = nullptr, Orphan orphan = Orphan::kGoesAway);

// Ends the exporter under the middle that stays, and waits for the middle.
void EndKeptMiddle();

// Whether children of the calling thread are born into another pid namespace than its own (unshare, setns). The first of them
// is that namespace's process 1: when it ends, no other can ever be started there. False where there is no /proc.
bool ChildrenGoElsewhere();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_SPAWN_EXPORTER_H_
