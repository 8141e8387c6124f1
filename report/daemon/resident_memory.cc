#include "report/daemon/resident_memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

// Functions of mimalloc, which the tool uses for operator new; missing in unit tests.
extern "C" {
__attribute__((weak)) void mi_collect(bool force);
__attribute__((weak)) void mi_option_set(int option, long value);
}

namespace holdfast {
namespace {

int OwnBadness() {
  std::ifstream file("/proc/self/oom_score_adj");
  int badness = 0;
  file >> badness;
  return badness;
}

using PageRange = std::pair<uintptr_t, uintptr_t>;

// Returns read-only mappings of files without modified pages, so without those that the linker relocated.
std::vector<PageRange> UnchangedFilePages() {
  std::vector<PageRange> ranges;
  std::ifstream file("/proc/self/smaps");
  PageRange range;
  bool candidate = false;
  for (std::string line; std::getline(file, line);) {
    unsigned long start, end, offset, inode;
    char rights[5];
    unsigned major, minor;
    if (sscanf(line.c_str(), "%lx-%lx %4s %lx %x:%x %lu", &start, &end, rights, &offset, &major, &minor, &inode) == 7) {
      range = {start, end};
      candidate = inode != 0 && rights[1] == '-' && rights[3] == 'p';
    } else if (candidate && line.starts_with("Anonymous:")) {
      uint64_t kib = 1;
      if (sscanf(line.c_str(), "Anonymous: %lu", &kib) == 1 && kib == 0) ranges.push_back(range);
      candidate = false;
    }
  }
  return ranges;
}

}  // namespace

void GiveBackFreedPagesAtOnce() {
  // mi_option_decommit_delay in mimalloc 2.0, mi_option_purge_delay in later versions.
  constexpr int kDelayOfPurge = 15;
  if (mi_option_set != nullptr) mi_option_set(kDelayOfPurge, 0);
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

void AllowHugePages() { prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); }

void GiveBackMemory() {
  if (mi_collect != nullptr) mi_collect(true);
  malloc_trim(0);  // for the libraries written in C
  for (const auto& [start, end] : UnchangedFilePages())
    madvise(reinterpret_cast<void*>(start), end - start, MADV_DONTNEED);
}

void SetBadness(int badness) {
  static const int at_start = OwnBadness();
  std::ofstream("/proc/self/oom_score_adj") << std::max(badness, at_start);
}

}  // namespace holdfast
