#include "sampler/table/name_labels.h"

#include <sys/prctl.h>

#include <atomic>

#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/table/label_sets.h"

namespace holdfast {

constinit ThreadLabel thread_label = ThreadLabel::kNo;

namespace {

// All zeros at first. A place that a handler left by a jump while filling it stays unused.
struct KnownName {
  std::atomic<bool> filled;
  char text[kThreadNameBytes];
};
constexpr uint32_t kMaxNames = 2 * kMaxThreadNames;  // folded ones included
constinit KnownName known_names[kMaxNames] = {};
constinit std::atomic<uint32_t> names_taken{0};

bool IsKnown(const char* name) {
  const uint32_t taken = names_taken.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < taken && i < kMaxNames; ++i) {
    // Acquire: makes its text visible.
    if (known_names[i].filled.load(std::memory_order_acquire) && TextEquals(known_names[i].text, name)) return true;
  }
  return false;
}

// Two threads may each take a place for the same name: one place is then wasted.
bool MakeKnown(const char* name, uint32_t most) {
  if (IsKnown(name)) return true;
  uint32_t place = names_taken.load(std::memory_order_relaxed);
  do {
    if (place >= most) return false;
  } while (!names_taken.compare_exchange_weak(place, place + 1, std::memory_order_relaxed));
  CopyText(known_names[place].text, kThreadNameBytes, name);
  known_names[place].filled.store(true, std::memory_order_release);
  return true;
}

// "io-31" becomes io-*; a name without a trailing number is unchanged.
void Fold(const char* name, char (&folded)[kThreadNameBytes]) {
  size_t end = TextLength(name);
  const size_t whole = end;
  while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') --end;
  CopyText(folded, kThreadNameBytes, name);
  if (end == whole) return;
  folded[end] = '*';
  folded[end + 1] = '\0';
}

}  // namespace

const char* LabelOfName(const char* name, char (&folded)[kThreadNameBytes]) {
  if (thread_label == ThreadLabel::kYes && MakeKnown(name, kMaxThreadNames)) return name;
  Fold(name, folded);
  return MakeKnown(folded, kMaxNames) ? folded : kLabelOverflow;
}

uint16_t WithThreadName(uint16_t set) {
  char name[kThreadNameBytes] = {}, folded[kThreadNameBytes];
  if (no_system_calls.load(std::memory_order_relaxed) || SyscallFailed(RawSyscall(SYS_prctl, PR_GET_NAME, name)))
    return set;
  name[kThreadNameBytes - 1] = '\0';
  const char* before = LabelIn(set, kThreadNameKey);
  if (name[0] == '\0') return before == nullptr ? set : WithLabel(set, kThreadNameKey, nullptr);
  if (before != nullptr && TextEquals(before, name)) return set;
  const char* label = LabelOfName(name, folded);
  if (before != nullptr && TextEquals(before, label)) return set;
  // Once for each thread that gets it.
  if (label == kLabelOverflow) CountLabelLost();
  return WithLabel(set, kThreadNameKey, label);
}

}  // namespace holdfast
