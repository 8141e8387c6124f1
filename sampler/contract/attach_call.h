// What `holdfast attach` and `holdfast detach` pass to the library in a running process, and what it answers. A thread of
// the process calls holdfast_attach_v1 with the address of an AttachCall in the process's memory.
#ifndef HOLDFAST_SAMPLER_CONTRACT_ATTACH_CALL_H_
#define HOLDFAST_SAMPLER_CONTRACT_ATTACH_CALL_H_

#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

inline constexpr char kAttachFunction[] = "holdfast_attach_v1";

enum class AttachAction : uint32_t { kAttach = 1, kDetach = 2 };

enum class AttachResult : uint32_t {
  kNone,          // the library has not answered
  kDone,          // every entry is redirected, or restored
  kPreloaded,     // the library was loaded at the start of the program, and records
  kAlready,       // attached, or detached, before
  kDormant,       // the library records nothing in this program: a sanitizer, valgrind
  kNoTable,       // no table could be created
  kThreadIsBusy,  // this thread is inside the library: choose another one
  kPatch,         // write, or undo, the patches while all threads are stopped; then call again
  kNoEntries,     // the executable's allocator cannot be redirected: `entries` says why. Nothing has changed
  kSwitchedOff,   // the library was loaded at the start, and records nothing
  kExcluded       // a child that was forked while its parent was attached with --children no
};

// A change of the executable's code, which redirects an entry of its own allocator. The library cannot make it where other
// threads run, so the tool does, in this order, and undoes it in the opposite one: functions that free come first.
struct EntryPatch {
  uint64_t address;
  uint8_t count;  // bytes that change; all in one page
  uint8_t moved;  // bytes of the instructions that run elsewhere from then on: no thread may be between two of them
  uint8_t was[5], now[5];
  bool operator==(const EntryPatch&) const = default;
};
inline constexpr uint32_t kMaxEntryPatches = 1024;

// In TableHeader::profiles, beside the bits of kinds: the process is detached; the library came by `holdfast attach`, to
// this process or to the one that forked it.
inline constexpr uint32_t kDetachedBit = uint32_t{1} << 31, kAttachedBit = uint32_t{1} << 30;

struct AttachCall {
  AttachAction action;
  AttachResult result;
  // kAttach: the options, "HOLDFAST_OUT=/tmp/out" …, as an environment; a null pointer ends the list.
  const char* const* variables;
  uint64_t redirected;        // entries that were changed
  uint64_t refused;           // entries in memory that cannot be made writable: it is sealed (mseal)
  const EntryPatch* patches;  // kPatch
  uint32_t patch_count;
  uint32_t entries;  // kNoEntries: the EntryOutcome, as in a module's flags
  // kAttach: the output folder as the tool sees it, because the process may not see it; inode 0: the same for both.
  FolderId out_id;
  // The library's answer: code that ends the call, with a CallEnd in rbx. Null, also from older libraries: there is none.
  void (*end)();
  // The two locks that the dynamic linker holds while it calls the program, with pthread_mutex_trylock and unlock; 0: unknown.
  // A thread that waited for one might have the lock of the program for which the other thread waits there, so they are only
  // tried. Whoever takes one writes it to `held_locks`: the tool's code, where it has to load the library first, or the
  // library. The library unlocks them while forks still wait for the call: a child would get a locked copy.
  uint64_t unlock, held_locks[2];
  uint64_t trylock, linker_locks[2];
  uint64_t is_program_busy;  // kThreadIsBusy: another thread has one of them, or forks, so no thread can make the call
  uint64_t unreadable;       // kDetach: entries in memory that may not be read (PROT_NONE)
};

// On the stack of the borrowed thread. The thread unmaps the memory of the call and waits for the tool, which restores it. If
// the tool does not come, the thread restores itself, by rt_sigreturn with a frame on its stack.
struct CallEnd {
  struct Memory {
    uint64_t address, bytes;
  };
  Memory memory[2];
  uint64_t done;  // 1: the memory is unmapped
  struct {
    int64_t seconds, nanoseconds;
  } patience;
  uint64_t frame;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_ATTACH_CALL_H_
