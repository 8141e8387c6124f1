// A function that realigns its stack and then moves it: its frame can only be found through a saved pointer (the
// "dynamic realign argument pointer"; its CFA is *(rbp − n)).
#include <alloca.h>

#include <cstddef>

void CallRealigned(void (*inner)(void*), void* argument, size_t bytes) {
  alignas(64) volatile char aligned[64];
  aligned[bytes % 64] = 1;
  auto* moved = static_cast<volatile char*>(alloca(bytes));
  moved[0] = aligned[0];
  inner(argument);
  moved[bytes - 1] = aligned[1];
}
