#include "sampler/capture/remembered_walks.h"

#include "sampler/contract/own_memory.h"
#include "sampler/contract/syscalls.h"
#include "sampler/table/name_labels.h"

namespace holdfast {

constinit std::atomic<WalkMemory*> WalkMemory::all_[kMaxOwners + 1] = {};

WalkMemory* WalkMemory::MakeSlow(ThreadState& thread) {
  if (thread.owner == 0 || no_system_calls.load(std::memory_order_relaxed)) return nullptr;
  auto* made = static_cast<WalkMemory*>(MapLazily(sizeof(WalkMemory)));
  // Only this thread has this number; a handler that jumped out of here has left an untouched mapping.
  if (made == nullptr) {
    thread.owner = 0;  // do not try again
  } else {
    made->labels_apart_ = thread_label != ThreadLabel::kNo;
    all_[thread.owner].store(made, std::memory_order_relaxed);
    NoteOwnMemory(made, sizeof(WalkMemory));
  }
  return made;
}

HOLDFAST_WARM RememberedWalk* WalkMemory::FindByWord(const CallerRegisters& caller) {
  const uint64_t start = StartOf(caller);
  const Innermost& innermost = innermost_[start >> 54];
  static_assert(kInnermost == 1 << (64 - 54));
  // Same sp: so the place is on the thread's own stack (see ForgetStarts).
  if (UNLIKELY(innermost.sp != caller.sp)) return nullptr;
  RememberedWalk* const walk = FindIn(caller, SetOf(start, *innermost.place));
  if (LIKELY(walk != nullptr)) {
    *NextAfterFound(caller) = static_cast<uint16_t>(PlaceOf(*walk) / alignof(RememberedWalk));
    Found(PlaceOf(*walk));
  }
  return walk;
}

HOLDFAST_WARM RememberedWalk* WalkMemory::FindIn(const CallerRegisters& caller, size_t set) {
  const StackBounds& bounds = thread_state.stack_bounds;
  if (UNLIKELY(caller.sp - bounds.low >= bounds.high - bounds.low)) return nullptr;
  const size_t words_above = (bounds.high - caller.sp) / sizeof(uintptr_t);
  const auto* const stack_words = reinterpret_cast<const uintptr_t*>(caller.sp);
  const Signs& signs = signs_[set];
  for (int way = 0; way < kWays; ++way) {
    // The way's walk may have begun at another sp.
    if (signs.places[way] >= words_above) continue;
    if (SignOf(stack_words[signs.places[way]]) != signs.words[way]) continue;
    if (RememberedWalk& walk = sets_[set][way]; walk.Holds(caller)) {
      was_found_[set] |= static_cast<uint8_t>(1 << way);
      return &walk;
    }
  }
  return nullptr;
}

HOLDFAST_WARM size_t WalkMemory::SetOfLast(const CallerRegisters& caller, bool* was_searched) {
  const auto words = last_.words();
  const auto [place, word] = !words.empty() ? words.back() : LastWalk::Word{};
  const uint64_t start = StartOf(caller);
  Innermost& innermost = innermost_[start >> 54];
  if (LIKELY(innermost.sp == caller.sp && reinterpret_cast<uintptr_t>(innermost.place) == place)) {
    *was_searched = true;
    return SetOf(start, word);
  }
  *was_searched = false;
  innermost.sp = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  innermost.place = reinterpret_cast<const uintptr_t*>(place);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (place != 0) innermost.sp = caller.sp;
  return SetOf(start, word);
}

HOLDFAST_WARM bool WalkMemory::Expects(size_t set, const CallerRegisters& caller, uint64_t path_hash) {
  const auto now = static_cast<uint32_t>(path_hash ^ path_hash >> 32 ^ caller.sp << 16);
  uint32_t(&missed)[kMissed] = missed_[set];
  for (const uint32_t before : missed) {
    if (before == now) return true;
  }
  for (int i = kMissed - 1; i > 0; --i) missed[i] = missed[i - 1];
  missed[0] = now;
  return false;
}

HOLDFAST_WARM RememberedWalk* WalkMemory::KeepIfExpected(const CallerRegisters& caller, uint64_t path_hash,
                                                         Offset stack, uintptr_t label_word) {
  bool was_searched;
  const size_t set = SetOfLast(caller, &was_searched);
  // It was not found because another start uses its place in innermost_.
  if (!was_searched) {
    if (RememberedWalk* walk = FindIn(caller, set)) return walk;
  }
  return Expects(set, caller, path_hash) ? Keep(caller, set, stack, label_word) : nullptr;
}

HOLDFAST_WARM RememberedWalk* WalkMemory::Keep(const CallerRegisters& caller, size_t set, Offset stack,
                                               uintptr_t label_word) {
  const bool labels_apart = labels_apart_;
  if (last_.top() - caller.sp > RememberedWalk::kMaxBytes || caller.sp % sizeof(uintptr_t) != 0) return nullptr;
  const auto words = last_.words();
  if (words.empty() || words.size() > RememberedWalk::kMax) return nullptr;
  int way = next_victim_[set];
  for (; (was_found_[set] >> way & 1) != 0; way = (way + 1) % kWays)
    was_found_[set] &= static_cast<uint8_t>(~(1 << way));
  RememberedWalk& walk = sets_[set][way];
  next_victim_[set] = static_cast<uint8_t>((way + 1) % kWays);
  walk.pc = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const uintptr_t sp = caller.sp;
  const auto place_in_walk = [sp](const LastWalk::Word& word) {
    return static_cast<uint16_t>((word.place - sp) / sizeof(uintptr_t));
  };
  // From the outermost on: they end with the end of a PlacedWords.
  static_assert(RememberedWalk::kMax % PlacedWords::kCount == 0);
  constexpr size_t kTogether = RememberedWalk::kTogether, kEach = PlacedWords::kCount;
  walk.count = static_cast<uint8_t>((words.size() + kTogether - 1) / kTogether * kTogether);
  PlacedWords* to = &walk.words[(walk.count + kEach - 1) / kEach];
  size_t at = 0;
  const auto add = [&](uint16_t place, uintptr_t word) {
    if (at == 0) at = kEach, --to;
    --at;
    to->places[at] = place;
    to->words[at] = word;
  };
  for (size_t missing = walk.count - words.size(); missing != 0; --missing)
    add(place_in_walk(words.front()), words.front().word);
  for (const LastWalk::Word& word : words) add(place_in_walk(word), word.word);
  const LastWalk::Word& sign = words[words.size() > kSign ? words.size() - 1 - kSign : words.size() - 1];
  signs_[set].words[way] = SignOf(sign.word);
  signs_[set].places[way] = place_in_walk(sign);
  walk.number = ++kept_;
  walk.sp = caller.sp;
  walk.fp = caller.fp;
  walk.label_word = label_word;
  walk.uses_fp = last_.uses_fp();
  walk.has_labels = labels_apart;
  walk.generation = last_.generation() | (walk.uses_fp || walk.has_labels ? RememberedWalk::kMore : 0);
  walk.stack = stack;
  __builtin_memset(walk.rows, 0, sizeof walk.rows);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  walk.pc = caller.pc;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  // A handler may have set labels meanwhile.
  if (UNLIKELY(labels_apart_ != labels_apart)) walk.pc = 0;
  return &walk;
}

void WalkMemory::ForgetStarts() {
  found_ = history_ = 0;
  for (uint16_t& next : none_.nexts) next = 0;
  for (Innermost& innermost : innermost_) {
    if (innermost.sp != 0) innermost.sp = 0;
  }
}

void WalkMemory::KeepLabelsApart() {
  if (labels_apart_) return;
  labels_apart_ = true;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  for (auto& set : sets_) {
    for (RememberedWalk& walk : set) {
      if (walk.pc != 0) walk.pc = 0;
    }
  }
}

HOLDFAST_WARM void WalkMemory::RememberRow(uint64_t path_hash, uint16_t size_class, Offset row, Offset stack) {
  const uint64_t key = KeyOf(path_hash, size_class);
  KnownRow& known = known_rows_[key >> 52];
  known.key = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  known.row = row;
  known.stack = stack;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  known.key = key;
}

}  // namespace holdfast
