// Which process gets an orphan: whether a program would see a helper of ours after the helper's parent has ended.
//
//     PID 1 of the pid namespace ◄── … ◄── ancestor ◄── ancestor ◄── process ◄── middle ◄── exporter
//
// When the middle ends, the kernel gives the exporter to the nearest ancestor that is a subreaper, else to PID 1 of the
// pid namespace; when that parent ends, to the next one. So every ancestor counts. The new parent gets SIGCHLD and sees the
// exporter in wait(). That is harmless only if the parent reaps strangers silently. The kernel shows nobody which
// process is a subreaper, so an ancestor is judged by its program.
//
// System calls only. One thread at a time.
#ifndef HOLDFAST_SAMPLER_CONTRACT_ORPHAN_REAPER_H_
#define HOLDFAST_SAMPLER_CONTRACT_ORPHAN_REAPER_H_

namespace holdfast {

enum class Orphans {
  kUnnoticed,  // no ancestor would notice an orphan
  kNoticed,    // one would, or one cannot be seen
};

struct Ancestor {
  int pid = 0;            // in /proc
  int own_pid = 0;        // in its own pid namespace
  char name[64] = {};     // of its executable if that can be read, else of the process
  bool is_first = false;  // PID 1 of the namespace
};

// Asked about an ancestor that is not on the lists of this file: whether it may take orphans. `in_container`: the processes
// are not in the machine's own pid namespace.
using MayTakeOrphans = bool (*)(const Ancestor& ancestor, bool in_container, void* context);

// Where an orphan of `process` ("self" or a pid) goes. kNoticed fills `who`; pid 0: the ancestor cannot be seen. Without
// `may_take` only PID 1 of the namespace is judged, which costs a few system calls for each ancestor.
Orphans WhereOrphansGo(const char* process, Ancestor* who, MayTakeOrphans may_take = nullptr, void* context = nullptr);

// Calls `look` for each ancestor of `process` in its pid namespace, from its parent to PID 1.
void ForEachAncestor(const char* process, void (*look)(const Ancestor& ancestor, void* context), void* context);

// Whether this is the executable of a reaper that ends, and its container with it, once its own child has ended.
bool EndsWithItsChild(const char* name);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_ORPHAN_REAPER_H_
