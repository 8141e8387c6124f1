// Compiled in several ways: the seeds of fuzz_dwarf. Inlined calls, a lambda, a type with functions, two line sequences.
volatile int sink;
struct Sum {
  int value;
  int Add(int x) const { return value + x + sink; }
};
template <int kDepth>
static inline int Nest(int x) {
  const auto twice = [](int y) { return y * 2 + sink; };
  return Nest<kDepth - 1>(Sum{twice(x)}.Add(kDepth));
}
template <>
inline int Nest<0>(int x) {
  return x;
}
__attribute__((noinline)) int Called(int x) {
  if (sink > x) return Nest<2>(x);
  return Sum{x}.Add(3);
}
extern "C" void _start() { sink = Called(Nest<3>(sink)); }
