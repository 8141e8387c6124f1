// Starting the exporter so that the program never notices: no child that waitpid(-1) returns, no SIGCHLD, no
// descriptor, no controlling terminal, no zombie.
//
// Used by the shim (in the thread that made the table, muted) and by `holdfast run --exec`. System calls only.
#ifndef HOLDFAST_SAMPLER_SPAWN_SPAWN_EXPORTER_H_
#define HOLDFAST_SAMPLER_SPAWN_SPAWN_EXPORTER_H_

#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

// Starts `path` with `arguments` (null-terminated, at most 12 of them) and `environment` (null: one that keeps the library out). False: it
// could not be started. Returns once it runs, after about a millisecond.
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
bool SpawnExporter(const char* path, const char* const* arguments, const char* const* environment,
                   bool named_by_others = false);

// Whether children of the calling thread are born into another pid namespace than its own (unshare, setns). The first of them
// is that namespace's process 1: when it ends, no other can ever be started there. False where there is no /proc.
bool ChildrenGoElsewhere();

// Who exports this user's tables of an output folder: told by the lock file and whose it is.
enum class Service {
  kNobody,  // no exporter; one may be started
  kServed,  // an exporter holds the lock
  kByRoot,  // the file is root's mark that its exporter takes this user's tables (table_owner.h), but none is at work
  kBarred,  // another user has put a file there: no exporter of this user can come to hold the lock
};
// `id`: of the folder, as its tables' headers have it.
Service ServiceOf(const char* tables, const char* out, FolderId id);
inline bool ExporterServes(const char* tables, const char* out, FolderId id) {
  return ServiceOf(tables, out, id) == Service::kServed;
}

// Writes "<tables>/holdfast.<uid>.<hash>.lock" into `path`. The hash is of `out`, of `id` (two containers may each have a
// folder of that path) and of the layout's version: an exporter of another one cannot read our tables.
void ExporterLockPath(const char* tables, const char* out, FolderId id, uint32_t uid, char* path, uint64_t capacity,
                      uint32_t version = kLayoutVersion);
// Root's mark for another user, that lies where that user's lock would be: without the folder's id, which that user may not
// be able to see (below a home of mode 0700).
inline void MarkPath(const char* tables, const char* out, uint32_t user, char* path, uint64_t capacity) {
  ExporterLockPath(tables, out, FolderId{}, user, path, capacity);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_SPAWN_SPAWN_EXPORTER_H_
