// Starting the exporter so that the program never notices: no child that waitpid(-1) returns, no SIGCHLD, no
// descriptor, no controlling terminal, no zombie.
//
// Used by the shim (in the thread that made the table, muted) and by `holdfast run --exec`. System calls only.
#ifndef HOLDFAST_SAMPLER_SPAWN_SPAWN_EXPORTER_H_
#define HOLDFAST_SAMPLER_SPAWN_SPAWN_EXPORTER_H_

#include <cstdint>

namespace holdfast {

// Starts `path` with `arguments` (null-terminated, at most 12 of them) and `environment` (null: one that keeps the
// library out). False: it could not be started. Returns once it runs, after about a millisecond.
//
//   usual      program ─clone(exit signal 0)→ middle ─→ exporter      the middle ends at once, is reaped here by its
//                                                                     pid, and the exporter becomes init's
//   as PID 1   program ─clone(exit signal 0)→ middle ─→ exporter      an orphan would come back to the program: so the
//   or sub-                                      └ stays, waits       middle stays as its parent. waitpid(-1) does not
//   reaper                                                            see it (exit signal 0, never execs), it keeps no
//                                                                     descriptor and no memory but a page of stack, and
//                                                                     it ends with the exporter.
//
// `named_by_others`: the path comes from a variable, which may come from another user: a setuid program hands its
// environment on to what it starts as root. Then only a file of root's or of this user's own is executed, which others may
// not write.
// `variable`: "NAME=VALUE", one more of the environment where that is null; null: none.
bool SpawnExporter(const char* path, const char* const* arguments, const char* const* environment,
                   bool named_by_others = false, const char* variable = nullptr);

// Whether children of the calling thread are born into another pid namespace than its own (unshare, setns). The first of them
// is that namespace's process 1: when it ends, no other can ever be started there. False where there is no /proc.
bool ChildrenGoElsewhere();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_SPAWN_SPAWN_EXPORTER_H_
