// Stacks of some frames, for tests of walks.
#ifndef HOLDFAST_TESTS_UNIT_FRAMES_H_
#define HOLDFAST_TESTS_UNIT_FRAMES_H_

#include <cstddef>

namespace holdfast {

// Keeps a call from becoming a jump, so that its frame stays.
inline void StayInFrame() { asm volatile("" ::: "memory"); }

template <typename Inner>
[[gnu::noinline]] void Recurse(int depth, const Inner& inner) {
  volatile char of_its_own[24];
  of_its_own[depth % 24] = 1;
  depth == 0 ? inner() : Recurse(depth - 1, inner);
  StayInFrame();
  static_cast<void>(of_its_own[0]);
}

// With a frame pointer, which outer frames are found by.
template <typename Inner>
[[gnu::noinline]] void WithFramePointer(int bytes, const Inner& inner) {
  auto* of_unknown_size = static_cast<volatile char*>(__builtin_alloca(static_cast<size_t>(bytes) + 1));
  of_unknown_size[0] = 1;
  inner();
  StayInFrame();
}

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_UNIT_FRAMES_H_
