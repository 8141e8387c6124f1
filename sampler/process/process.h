// The sampler's state of this process: options, its table, which process it is (fork makes another), and its end.
// Inside the sampler only; wrappers see recorder.h.
#ifndef HOLDFAST_SAMPLER_PROCESS_PROCESS_H_
#define HOLDFAST_SAMPLER_PROCESS_PROCESS_H_

#include <atomic>
#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/contract/options.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/tables/shared_table.h"
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
  TableLocation location{};
  FolderId out_id{};               // of the output folder, as the table's header has it
  char exporter[640] = {};         // path of the `holdfast` tool; empty = none is to be started
  bool exporter_is_named = false;  // by a variable, and another than the one beside the library
};

extern HOLDFAST_HIDDEN Process process;

// First thing on every slow path. False: do not record (muted, switched off, or a state that belongs to someone else).
// In a forked child the first call here begins its own, empty profile.
bool EnterSlow(ThreadState& thread);

// The table, made now if there is none yet. Null: none can be had.
Table* GetTable();
// The same, for a thread that is not muted yet.
Table* GetTableMuted(ThreadState& thread);

// Looks whether somebody serves our output folder, and starts an exporter if not. False: nobody does.
bool StartExporter();
// A table of its own has been made, whose exporter is to be watched from now on.
void BeginBeat();
// With HOLDFAST_VERBOSE: one line where profiles cannot be written.
void TellUnwritable();
// After a sample, by every thread: looks (a load, at times the clock) whether the exporter's beat stands still, and starts
// another exporter where there is none any more. It may have been killed long before this process ends, and if that is by
// SIGKILL nobody would write what is in the table.
void TendExporter(Table* recorded);

// Adds to what is counted while there is no table. Also right when another thread publishes the table meanwhile: nothing
// is left behind, nothing is counted twice.
void CountBeforeTable(std::atomic<uint64_t> BeforeTable::*counter, uint64_t amount);

// Whether the tables are this process's own: a forked child finds out, and begins anew, here. False: do not touch them.
bool OwnState();

// Whether the caller runs in a child that shares this memory (vfork, CLONE_VM).
bool InBorrowedMemory();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_PROCESS_H_
