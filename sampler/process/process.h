// Which process this is, and what it was told: options, where its table lies, what its threads draw their random numbers
// from. Only data: own_table.h makes the table, enter.h finds out that it is another process by now.
#ifndef HOLDFAST_SAMPLER_PROCESS_PROCESS_H_
#define HOLDFAST_SAMPLER_PROCESS_PROCESS_H_

#include <atomic>
#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/contract/options.h"
#include "sampler/tables/table_file.h"

namespace holdfast {

// What was counted while there was no table; it goes into the table as soon as there is one.
struct BeforeTable {
  std::atomic<uint64_t> alloc_bytes{0};
  std::atomic<uint64_t> lost_samples{0};
};

struct Process {
  Options options;
  std::atomic<bool> recording{false};  // false: nothing is sampled, everything passes through
  std::atomic<uint32_t> epoch{1};      // +1 in each forked child: its threads seed anew
  std::atomic<uint32_t> threads{0};    // ordinal of the next thread to be introduced
  std::atomic<uint64_t> forks{0};      // how many children this process has begun to fork
  BeforeTable before_table;
  uint64_t seed = 0;
  int pid = 0;  // of the process that this state belongs to; a vfork child has another
  bool forked = false;
  // PR_SET_CHILD_SUBREAPER is set in this process; it was in the parent that forked this one, or in a parent of that one.
  std::atomic<bool> subreaper{false};
  bool child_of_subreaper = false;
  TableLocation location{};
  FolderId out_id{};               // of the output folder, as the table's header has it
  char exporter[640] = {};         // path of the `holdfast` tool; empty = none is to be started
  bool exporter_is_named = false;  // by a variable, and another than the one beside the library
};

extern HOLDFAST_HIDDEN Process process;

// The seed that the options give, or a random one.
void DrawSeed();

// Whether the caller runs in a child that shares this memory (vfork, CLONE_VM).
bool InBorrowedMemory();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_PROCESS_H_
