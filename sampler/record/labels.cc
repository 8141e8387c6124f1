#include "sampler/record/labels.h"

#include "sampler/capture/little_stack.h"
#include "sampler/capture/remembered_walks.h"
#include "sampler/capture/sample_stack.h"
#include "sampler/contract/text.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/table/label_sets.h"

namespace holdfast {
namespace {

// False: a handler of this thread has changed them meanwhile.
bool Replace(ThreadState& thread, uint16_t before, uint16_t after) {
  // Call before the labels change: walks were remembered for the old ones only. A child of fork may take another
  // thread's memory for its own here; that thread's walks are forgotten anyway.
  if (WalkMemory* memory = WalkMemory::Of(thread)) memory->KeepLabelsApart();
  return __atomic_compare_exchange_n(&thread.labels, &before, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

}  // namespace

LabelsNumber SetLabel(const char* key, const char* value) {
  ThreadState& thread = thread_state;
  if (key != nullptr && TextEquals(key, kThreadNameKey)) key = nullptr;
  while (true) {
    const uint16_t before = __atomic_load_n(&thread.labels, __ATOMIC_RELAXED);
    if (LittleStackLeft(kStackForRecord)) return before;
    const uint16_t after = WithLabel(before, key, value);
    if (after == before || Replace(thread, before, after)) return before;
  }
}

LabelsNumber SetLabels(LabelsNumber labels) {
  ThreadState& thread = thread_state;
  while (true) {
    const uint16_t before = __atomic_load_n(&thread.labels, __ATOMIC_RELAXED);
    if (!IsLabelSet(labels) || labels == before || Replace(thread, before, static_cast<uint16_t>(labels)))
      return before;
  }
}

void NamedThisThread() { SeeThreadNameIfWanted(thread_state); }

}  // namespace holdfast
