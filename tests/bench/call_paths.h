// Deep stacks through many functions, for benchmarks: Frame<Leaf, 0>(leaf, path, depth) calls `leaf()` at the top of `depth`
// frames; `path` chooses who calls whom among 256 functions.
#ifndef HOLDFAST_TESTS_BENCH_CALL_PATHS_H_
#define HOLDFAST_TESTS_BENCH_CALL_PATHS_H_

#include <cstdint>
#include <utility>

namespace holdfast {

// A function of its own for each I; `path` chooses who calls whom, two bits a frame.
template <typename Capture, int I>
[[gnu::noinline]] void Frame(Capture& capture, uint64_t path, int depth);

template <typename Capture, int... I>
void Next(Capture& capture, uint64_t path, int depth, int which, std::integer_sequence<int, I...>) {
  using Function = void (*)(Capture&, uint64_t, int);
  static constexpr Function functions[] = {&Frame<Capture, I>...};
  functions[which % sizeof...(I)](capture, path, depth);
}

inline constexpr int kFunctions = 256;
// Google Benchmark, main and the start of the program are frames as well.
inline constexpr int kOtherFrames = 12;
template <typename Capture, int I>
void Frame(Capture& capture, uint64_t path, int depth) {
  [[maybe_unused]] volatile int of_its_own[I % 16 + 1];
  of_its_own[I % 16] = depth;
  if (depth == 0) {
    capture();
  } else {
    Next(capture, path * 6364136223846793005 + 1442695040888963407, depth - 1, static_cast<int>(path >> 40),
         std::make_integer_sequence<int, kFunctions>());
  }
  of_its_own[0] = I;  // no tail call
}

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_BENCH_CALL_PATHS_H_
