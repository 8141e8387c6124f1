// `holdfast memory PID --pinned`: which owner's blocks keep otherwise free pages of the heap from being returned.
//
//   server (pid 4242): freeing what Session::Log holds (0.2MiB) would return 19MiB
//     would return   it holds    blocks  owner
//          19.0MiB     0.2MiB      4800  Session::Log
//
// A page is pinned by an owner if all blocks on it are the owner's. Freed blocks and free chunks beside them merge, and
// malloc_trim(0) returns the whole pages of a free chunk, except for its first 48 bytes, which link it into a list. So a
// block also occupies the 48 bytes after it, unless the next block is of the same owner. Chunks in the caches of threads
// do not merge, and the cache of the thread that frees keeps up to seven more of each size.
//
// The owner is the function that allocated a block if every block is recorded (--exact), and otherwise the variable,
// stack or mapping that holds it. Only for glibc's heap. Exit codes: 0, 2 (wrong usage), 3 (the process cannot be read,
// or its heap is not understood).
#ifndef HOLDFAST_REPORT_SHOW_PINNED_VIEW_H_
#define HOLDFAST_REPORT_SHOW_PINNED_VIEW_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace holdfast {

struct PinnedOptions {
  std::string of_process;  // a PID
  std::vector<std::string> tables;
  std::string scan_memory;  // a size; "" = half of the free memory
  bool json = false;
  size_t rows = 15;  // 0: all
};

int RunPinned(const PinnedOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_PINNED_VIEW_H_
