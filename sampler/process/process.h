// This process's state: options, the place of its table, the seed of its threads' random numbers. Only data:
// own_table.h makes the table, enter.h notices that the process is another one by now.
#ifndef HOLDFAST_SAMPLER_PROCESS_PROCESS_H_
#define HOLDFAST_SAMPLER_PROCESS_PROCESS_H_

#include <atomic>
#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/attributes.h"
#include "sampler/contract/options.h"
#include "sampler/table/table_file.h"

namespace holdfast {

// Counted while there is no table; moved into the table as soon as there is one.
struct BeforeTable {
  std::atomic<uint64_t> alloc_bytes{0};
  std::atomic<uint64_t> lost_samples{0};
};

enum class Libc : uint8_t { kGlibc, kMusl, kOther };

struct Process {
  Options options;
  std::atomic<bool> recording{false};  // false: nothing is sampled, every call is forwarded
  std::atomic<uint32_t> epoch{1};      // +1 in each forked child: its threads seed anew
  std::atomic<uint32_t> threads{0};    // ordinal of the next thread to be introduced
  std::atomic<uint64_t> forks{0};      // children that this process has begun to fork
  BeforeTable before_table;
  uint64_t seed = 0;
  int pid = 0;  // of the process that owns this state; a vfork child has another
  bool forked = false;
  // PR_SET_CHILD_SUBREAPER is set in this process; or was in the parent that forked this one, or in a parent of that
  // one.
  std::atomic<bool> subreaper{false};
  bool child_of_subreaper = false;
  // Functions that are redirected at their entry know samples by their counters alone (interpose/entries).
  bool samples_need_counters = false;
  // The meaning of locks' words. kOther: unknown, so waits for locks and conditions are not recorded.
  Libc libc = Libc::kGlibc;
  TableLocation location{};
  FolderId out_id{};               // of the output folder, as the table's header has it
  char exporter[640] = {};         // path of the `holdfast` tool; empty = start none
  bool exporter_is_named = false;  // by a variable that names another one than beside the library
  bool reads_thread_pointer = false;
  // Nothing new is recorded, though pointers that the program took while attached still lead here.
  std::atomic<bool> detached{false};
};

extern HOLDFAST_HIDDEN Process process;

// Sets the seed from the options, or a random one.
void DrawSeed();

// Whether the caller runs in a child that shares this memory (vfork, CLONE_VM). After a seccomp filter: false, because it
// cannot be asked.
bool InBorrowedMemory();

// Whether this is a thread of the program's own clone with a thread pointer that is not libc's: thread-local memory is
// anybody's. False also if the kernel lets nobody read the register (before Linux 5.9).
inline bool HasForeignThreadPointer() { return process.reads_thread_pointer && !IsThreadPointerOfLibc(); }

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_PROCESS_H_
