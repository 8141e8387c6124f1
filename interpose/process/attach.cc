// The function that `holdfast attach` and `holdfast detach` call in a running process. The thread that runs it was stopped
// in the program's own code or in a system call, has all signals blocked, and returns there afterwards.
#include "interpose/process/attach.h"

#include <errno.h>

#include <atomic>
#include <initializer_list>

#include "interpose/base/attached_imports.h"
#include "interpose/base/readiness.h"
#include "interpose/entries/redirect.h"
#include "interpose/process/call_end.h"
#include "interpose/process/fork_handlers.h"
#include "sampler/contract/attach_call.h"
#include "sampler/contract/module_flags.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/process.h"

namespace holdfast {
namespace {

// Attaching, detaching: until the tool has written the patches and calls again.
enum class Step : uint8_t { kDetached, kAttaching, kAttached, kDetaching };
constinit Step step = Step::kDetached;
constinit bool was_attached = false;
constinit ImportChanges restored{};
constinit EntryPatches patches{};
// A tool that gave up may have left a call that still waits for the dynamic linker.
constinit std::atomic<bool> is_busy{false};

// ---- Children of fork ----
//
// A call takes the dynamic linker's lock. A child that is forked meanwhile gets a copy of the lock, taken for good, and its
// first dlopen would wait for ever. So a fork waits for the call to end, at most about 100 ms, and a call for the
// forks that have begun, 10 ms at a time. A child of a fork that waited in vain frees its copy. (For the dlopen that brings the
// library, the tool does so.)

constexpr int kSleeps = 2000;
constinit std::atomic<uint32_t> forks{0};  // threads between the handlers before and after fork

// Sequentially consistent: either the call sees the fork, or the fork the call.
bool ForkBeside() {
  forks.fetch_add(1);
  if (!is_busy.load()) return true;
  forks.fetch_sub(1);
  return false;
}
void BeforeAnyFork() {
  if (!AwaitBounded(kSleeps, ForkBeside)) forks.fetch_add(1);
}
void AfterAnyFork() {
  // A fork that began before the handlers were there was not counted.
  uint32_t now = forks.load();
  while (now != 0 && !forks.compare_exchange_weak(now, now - 1)) {
  }
}

// The start of glibc's recursive pthread_mutex_t.
struct LinkerLock {
  uint32_t lock, count, owner, users;
};
// Those that the call holds, and the thread that makes it.
constinit LinkerLock* held_locks[2] = {};
constinit uint32_t holder = 0;

void NoteHeldLocks(const AttachCall& call) {
  for (int i = 0; i < 2; ++i) {
    held_locks[i] = reinterpret_cast<LinkerLock*>(call.held_locks[i]);
    if (held_locks[i] != nullptr) holder = held_locks[i]->owner;
  }
}

void InAnyChild() {
  forks.store(0);
  for (LinkerLock*& held : held_locks) {
    // glibc frees one of them itself, and an earlier handler may have taken it again.
    if (held != nullptr && held->owner == holder) *held = {};
    held = nullptr;
  }
  is_busy.store(false);  // the thread that had it is not here
}
// Returns false if another thread forks.
bool WatchForks() {
  static constinit bool watches = false;
  watches = watches || TryRegisterForkHandlers({BeforeAnyFork, AfterAnyFork, InAnyChild});
  return watches;
}

AttachResult Begin(AttachCall* call) {
  if (!was_attached && !(WatchForks() && StartLate(call->variables))) {
    call->is_program_busy = 1;
    return AttachResult::kThreadIsBusy;
  }
  if (hot_size_limit == 0 || passes_through) return AttachResult::kDormant;
  if (!StartAgain(call->variables)) return AttachResult::kDormant;
  GiveOutFolder(call->variables, call->out_id);
  // Before a first sample makes the counters that stubs use.
  EntryOutcome outcome;
  if (!PrepareEntryPatches(&patches, &outcome)) {
    call->entries = ToModuleFlags(outcome);
    return AttachResult::kNoEntries;
  }
  return BeginAttached() ? AttachResult::kDone : AttachResult::kNoTable;
}

// Whether this child was forked while its parent was attached with --children no. Its calls have reached the library, which
// gave each thread that allocated a gap without an end: recording cannot begin any more.
bool IsExcludedChild() {
  static constinit bool is_excluded = false;
  is_excluded = is_excluded || (step == Step::kAttached && !IsRecording());
  return is_excluded;
}

AttachResult AskForPatches(AttachCall* call) {
  call->patches = patches.list;
  call->patch_count = patches.count;
  return AttachResult::kPatch;
}

// The process may have installed a filter since the first attach, which would end it at the clone that starts an exporter.
void KeepFromExporter(const char* const* variables) {
  for (; *variables != nullptr; ++variables) {
    if (TextEquals(*variables, "HOLDFAST_EXPORTER=no")) process.exporter[0] = '\0';
  }
}

AttachResult Attach(AttachCall* call) {
  if (was_attached) KeepFromExporter(call->variables);
  if (IsExcludedChild()) return AttachResult::kExcluded;
  if (step == Step::kAttached) {
    const ImportChanges since = RedirectImports(true);
    call->redirected = since.changed;
    call->refused = since.refused;
    return AttachResult::kAlready;
  }
  if (step != Step::kAttaching) {
    const AttachResult begun = Begin(call);
    if (begun != AttachResult::kDone) return begun;
    was_attached = true;
    step = Step::kAttaching;
    restored = {};
  }
  if (!AreAllWritten(patches)) return AskForPatches(call);
  NoteEntryOutcome();
  const ImportChanges imports = RedirectImports(false);
  call->redirected = imports.changed + patches.count;
  call->refused = imports.refused;
  step = Step::kAttached;
  return AttachResult::kDone;
}

using MutexFunction = int (*)(void*);

void ReleaseLinker(AttachCall* call) {
  for (uint64_t* lock : {&call->held_locks[1], &call->held_locks[0]}) {
    if (*lock == 0) continue;
    reinterpret_cast<MutexFunction>(call->unlock)(reinterpret_cast<void*>(*lock));
    *lock = 0;
  }
  NoteHeldLocks(*call);
}

bool TakeLinker(AttachCall* call) {
  if (call->trylock == 0 || call->held_locks[0] != 0) return true;
  for (int i = 0; i < 2; ++i) {
    if (reinterpret_cast<MutexFunction>(call->trylock)(reinterpret_cast<void*>(call->linker_locks[i])) != 0) {
      ReleaseLinker(call);
      return false;
    }
    call->held_locks[i] = call->linker_locks[i];
  }
  return true;
}

AttachResult Detach(AttachCall* call) {
  IsExcludedChild();  // before the step changes
  if (step == Step::kDetached) return AttachResult::kAlready;
  // kAttaching: a child that was forked while a thread redirected the entries has some of them.
  if (step != Step::kDetaching) restored = RestoreImports();
  step = Step::kDetaching;
  if (!AreAllUndone(patches)) return AskForPatches(call);
  call->redirected = restored.changed + patches.count;
  call->refused = restored.refused;
  call->unreadable = restored.unreadable;
  EndAttached();
  step = Step::kDetached;
  return AttachResult::kDone;
}

}  // namespace
}  // namespace holdfast

using namespace holdfast;

// Not inlined: nothing of it may be done before holdfast_attach_v1 knows that the library is relocated.
__attribute__((noinline)) static void Answer(AttachCall* call) {
  const int kept = errno;
  call->end = CallEndCode();
  if (!loaded_late) {
    call->result = IsRecording() ? AttachResult::kPreloaded : AttachResult::kSwitchedOff;
  } else if (thread_state.muted || is_busy.exchange(true)) {
    call->result = AttachResult::kThreadIsBusy;
  } else {
    // The thread is on a borrowed stack. Nothing that it learns about its stack here may stay.
    const ThreadState before = thread_state;
    if (AwaitFork([] { return forks.load() == 0; }) && TakeLinker(call)) {
      NoteHeldLocks(*call);
      call->result = call->action == AttachAction::kAttach ? Attach(call) : Detach(call);
    } else {
      call->result = AttachResult::kThreadIsBusy;
      call->is_program_busy = 1;
    }
    thread_state = before;
    ReleaseLinker(call);
    is_busy.store(false, std::memory_order_release);
  }
  errno = kept;
}

extern "C" HOLDFAST_EXPORT void holdfast_attach_v1(AttachCall* call) {
  // A child that was forked while a call loaded the library has a part of it, and pointers that are not relocated.
  if (is_constructed) Answer(call);
}
