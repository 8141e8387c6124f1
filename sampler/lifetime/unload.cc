#include "sampler/capture/module_reading.h"
#include "sampler/capture/module_table.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/enter.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

void BeforeUnload() {
  // OwnState: in a child of fork, threads that read a module in the parent do not exist.
  if (OwnState() && CurrentTable() != nullptr && EnterSlow(thread_state)) {
    // The plugin may have called free for the first time since the last look.
    Mute(thread_state);
    LookAtFreeCallsAgain(true);
    Unmute(thread_state);
  }
  BeginUnload();
}

void AfterUnload() {
  ThreadState& thread = thread_state;
  if (CurrentTable() != nullptr && EnterSlow(thread)) {
    Mute(thread);
    MarkUnloadedModules();
    Unmute(thread);
  }
  EndUnload();
}

}  // namespace holdfast
