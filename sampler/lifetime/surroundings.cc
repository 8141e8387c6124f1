// The program goes elsewhere: into another namespace, to another user, below another root.
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/syscalls.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/enter.h"
#include "sampler/process/exporter_watch.h"
#include "sampler/process/own_table.h"
#include "sampler/process/process.h"
#include "sampler/process/small_process.h"
#include "sampler/table/table_owner.h"

namespace holdfast {

namespace {

constinit std::atomic<bool> gave_up_root{false};

}  // namespace

void BeforeNewNamespace() {
  ThreadState& thread = thread_state;
  if ((CurrentTable() == nullptr || TableIsHidden()) && EnterSlow(thread)) {
    Mute(thread);
    FinishedTable();
    Unmute(thread);
  }
}

void BeforeUserChange(uint32_t real, uint32_t effective, uint32_t saved) {
  gave_up_root.store(false, std::memory_order_relaxed);
  if (no_system_calls.load(std::memory_order_relaxed) || !process.recording.load(std::memory_order_relaxed)) return;
  if (RawSyscall(SYS_geteuid) != 0) return;
  uint32_t now_real = 0, now_effective = 0, now_saved = 0;
  RawSyscall(SYS_getresuid, &now_real, &now_effective, &now_saved);
  if (real == kSameUser) real = now_real;
  if (effective == kSameUser) effective = now_effective;
  if (saved == kSameUser) saved = now_saved;
  if (effective == 0) return;
  const bool for_good = real != 0 && saved != 0;
  OwnState();  // a forked child finds out that it is one
  if (InBorrowedMemory()) {
    // A vfork child: it is about to execute what will have a table of its own.
    if (for_good && process.location.folder[0] != '\0') {
      MarkUser(process.location.folder, process.options.out, process.out_id, effective);
      AnnounceTable(process.location.folder, process.options.out, process.out_id);
    }
    return;
  }
  ThreadState& thread = thread_state;
  if (!EnterSlow(thread)) return;
  Mute(thread);
  SharedTable* made = FinishedTable();
  if (made != nullptr && for_good && made->header()->uid == 0) {
    const SignalsBlocked blocked;
    // Set the marks first: the exporter sees the new name at once, and must find which user's tables it may take.
    MarkUser(process.location.folder, process.options.out, process.out_id, effective);
    GiveTableTo(effective, made, &process.location);
    AnnounceTable(process.location.folder, process.options.out, process.out_id);
    gave_up_root.store(true, std::memory_order_relaxed);
  }
  Unmute(thread);
}

// If the folder is the user's own, root's exporter leaves it to the user's exporter.
void AfterUserChange() {
  if (!gave_up_root.exchange(false, std::memory_order_relaxed)) return;
  ThreadState& thread = thread_state;
  if (!EnterSlow(thread)) return;
  Mute(thread);
  {
    const SignalsBlocked blocked;
    StartExporter();
  }
  Unmute(thread);
}

void SetSubreaper(bool takes_orphans) {
  if (no_system_calls.load(std::memory_order_relaxed) || !process.recording.load(std::memory_order_relaxed)) return;
  OwnState();
  ThreadState& thread = thread_state;
  if (InBorrowedMemory() || !EnterSlow(thread)) return;
  Mute(thread);
  SharedTable* made = takes_orphans ? FinishedTable() : CurrentTable();
  if (takes_orphans) {
    const SignalsBlocked blocked;
    StartExporter();  // also where an earlier one was killed
  }
  // Whoever starts an exporter after this keeps its middle; a middle of before must end while its orphan goes elsewhere.
  process.subreaper.store(takes_orphans);
  AwaitNoStart();
  if (made != nullptr) made->header()->takes_orphans.store(takes_orphans ? 1 : 0, std::memory_order_relaxed);
  Unmute(thread);
}

void BeforeNewRoot() {
  if (no_system_calls.load(std::memory_order_relaxed) || !process.recording.load(std::memory_order_relaxed)) return;
  OwnState();
  ThreadState& thread = thread_state;
  if (InBorrowedMemory() || RawSyscall(SYS_geteuid) != 0 || !EnterSlow(thread)) return;
  Mute(thread);
  SharedTable* made = FinishedTable();
  if (made != nullptr && made->header()->uid == 0) MarkOutOfReach(made, process.location);
  Unmute(thread);
}

}  // namespace holdfast
