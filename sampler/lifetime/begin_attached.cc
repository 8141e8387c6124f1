#include "sampler/contract/syscalls.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/enter.h"
#include "sampler/process/own_table.h"
#include "sampler/process/process.h"
#include "sampler/record/heap.h"
#include "sampler/record/maps.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

bool BeginAttached() {
  ThreadState& thread = thread_state;
  if (CurrentTable() == nullptr) {
    if (!EnterSlow(thread)) return false;
    Mute(thread);
    SharedTable* made = GetTable();
    AwaitTableMade();
    Unmute(thread);
    return made != nullptr;
  }
  if (!OwnState()) return false;
  Mute(thread);
  ForgetSamples();
  if (RecordsMappings()) RecordUnmapped(0, size_t{1} << 47, TakeMappingTicket());
  Unmute(thread);
  return true;
}

}  // namespace holdfast
