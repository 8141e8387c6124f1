// Finds threads that can never be woken: nothing that is still alive leads to the futex for which they wait. The same
// idea as a garbage collector, for threads:
//
//   alive: variables, mappings, and the stacks of threads that do not wait in futex(2) without a timeout
//   a waiting thread is alive if something alive leads to the block, or to the stack, that contains its futex; then all
//   that its own stack leads to is alive, too. Repeated until nothing changes
//
//     queue (a variable) ──► block with a condition ◄── T2 waits: alive
//     block with a condition ◄── T3 waits, and only T3's stack leads to the block: never woken
//     T5 waits for a word that only T6's stack leads to, and T6 for one that only T5's stack leads to: never woken
//
//   the futex is in             the thread is alive if something alive leads to
//     a block of the heap       the block, or a freed block that a dangling pointer may still find
//     a thread's stack          that stack, at or above its stack pointer; or the owner of the stack is alive
//     a control block (join)    nothing: it is alive if the joined thread is
//     a variable, a mapping     nothing: it is always alive
//
// Memory that is not understood counts as a root, so a thread may be missed and is never named by mistake; except for a
// pointer that is only in a register of a sleeping thread, or in the kernel.
#ifndef HOLDFAST_REPORT_HOLDERS_NEVER_WOKEN_H_
#define HOLDFAST_REPORT_HOLDERS_NEVER_WOKEN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "report/holders/address_space.h"
#include "report/holders/heap_blocks.h"

namespace holdfast {

// A thread that sleeps in futex(2) without a timeout, for a futex that only this process can wake.
struct FutexWait {
  uint32_t thread = 0;   // index into AddressSpace::threads
  uint64_t address = 0;  // of the futex
};

struct WakeChance {
  enum Kind : uint8_t {
    kCanBeWoken,
    kUnknown,  // the memory around the futex, or the thread's stack, is not understood
    kNever,
  };
  Kind kind = kCanBeWoken;
  enum Place : uint8_t { kElsewhere, kBlock, kFreedBlock, kStack, kEndOfThread };
  Place place = kElsewhere;
  MemoryRange block;   // kBlock, kFreedBlock
  uint32_t owner = 0;  // kStack, kEndOfThread: index into AddressSpace::threads
};

struct WakeChances {
  std::vector<WakeChance> of_waits;  // as `waits`
  // Threads with registers that are unknown, and which may still run. A pointer may be only there.
  uint32_t hidden_threads = 0;
};

// One scan of a running process may miss a pointer that moves. An error says that memory ran out.
absl::StatusOr<WakeChances> FindWakeChances(AddressSpace* space, const HeapBlocksInput& input,
                                            const std::vector<FutexWait>& waits);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_NEVER_WOKEN_H_
