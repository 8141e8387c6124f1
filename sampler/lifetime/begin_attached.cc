#include "sampler/capture/module_reading.h"
#include "sampler/capture/module_table.h"
#include "sampler/contract/attach_call.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/enter.h"
#include "sampler/process/own_table.h"
#include "sampler/process/process.h"
#include "sampler/record/exact.h"
#include "sampler/record/heap.h"
#include "sampler/record/maps.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

// A tool may switch kinds of profiles on meanwhile.
static void NoteDetached(bool is_detached) {
  SharedTable* table = CurrentTable();
  if (table == nullptr) return;
  uint32_t* profiles = &table->header()->profiles;
  if (is_detached) {
    __atomic_fetch_or(profiles, kDetachedBit, __ATOMIC_RELAXED);
  } else {
    __atomic_fetch_and(profiles, ~kDetachedBit, __ATOMIC_RELAXED);
  }
}

bool BeginAttached() {
  ThreadState& thread = thread_state;
  process.detached.store(false, std::memory_order_relaxed);
  process.options.profiles |= kAttachedBit;  // for the table, and for those of forked children
  if (CurrentTable() == nullptr) {
    if (!EnterSlow(thread)) return false;
    Mute(thread);
    SharedTable* made = FinishedTable();
    Unmute(thread);
    return made != nullptr;
  }
  if (!OwnState()) return false;
  Mute(thread);
  // Walks and modules that are remembered may be of libraries that are gone.
  BeginUnload();
  MarkModulesUnloadedUnseen();
  EndUnload();
  ForgetSamples();
  constexpr size_t kAllAddresses = size_t{1} << 62;
  if (RecordsMappings()) RecordUnmapped(0, kAllAddresses, TakeMappingTicket());
  Unmute(thread);
  NoteDetached(false);
  return true;
}

void EndAttached() {
  process.detached.store(true, std::memory_order_relaxed);
  PauseExact();
  NoteDetached(true);
}

void GiveOutFolder(const char* const* environment, FolderId id) {
  if (id.known()) UseOutFolderId(id);
  // A forked child begins anew here, without its parent's table.
  if (!OwnState() || CurrentTable() != nullptr) return;
  constexpr const char* kName = "HOLDFAST_OUT=";
  for (; *environment != nullptr; ++environment) {
    const char* path = *environment + TextLength(kName);
    if (TextStartsWith(*environment, kName) && TextLength(path) < sizeof process.options.out)
      CopyText(process.options.out, sizeof process.options.out, path);
  }
}

}  // namespace holdfast
