// Functions that are always inlined, so without symbol and linkage name: lambdas in four functions, a method, and a function of an
// anonymous namespace. A template that returns a std:: type, and a namespace named like a crate of Rust. Allocates once in each.
#include <cstdlib>
#include <vector>

#define NOINLINE __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))

static void Keep(void* p) { asm volatile("" : : "g"(p) : "memory"); }

namespace core {
struct Engine {
  NOINLINE void* Load(int n) {
    void* p = malloc(n);
    Keep(p);
    return p;
  }
};
}  // namespace core

namespace app {
namespace {
INLINE void Hidden() { Keep(malloc(1000)); }
}  // namespace

struct Cache {
  template <class F>
  INLINE void Each(F f) {
    f(1);
  }
};

NOINLINE void LoadUsers() {
  Cache().Each([](int) __attribute__((always_inline)) { Keep(malloc(2000)); });
}
NOINLINE void LoadOrders() {
  Cache().Each([](int) __attribute__((always_inline)) { Keep(malloc(3000)); });
}
template <class T>
NOINLINE std::vector<T> MakeRows(int n) {
  std::vector<T> rows(n);
  Keep(rows.data());
  return rows;
}
NOINLINE void LoadItems() {
  Cache().Each([](auto) __attribute__((always_inline)) { Keep(malloc(6000)); });
}
NOINLINE void LoadPrices() {
  Cache().Each([](auto) __attribute__((always_inline)) { Keep(malloc(7000)); });
}
}  // namespace app

int main() {
  app::Hidden();
  app::LoadUsers();
  app::LoadOrders();
  app::LoadItems();
  app::LoadPrices();
  auto rows = app::MakeRows<int>(1000);
  Keep(rows.data());
  Keep(core::Engine().Load(5000));
  return 0;
}
