// Spends CPU time in twelve functions of different kinds, in two threads. tests/bench/cpu_shares.py compares what CPU profilers
// say of it.
//     cpu_mix ROUNDS
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, noclone)) void

enum { kWords = 1 << 15 };
struct State {
  uint64_t words[kWords];
  double reals[64 * 64], product[64 * 64];
  uint64_t random, sink;
  double real;
};

FUNCTION Multiply(struct State* s) {
  for (int i = 0; i < 250000; ++i) s->random = s->random * 6364136223846793005ULL + 1442695040888963407ULL;
}
FUNCTION Divide(struct State* s) {
  uint64_t x = s->random | 1;
  for (int i = 1; i < 40000; ++i) x = (x ^ (UINT64_MAX / (x | (uint64_t)i))) + (uint64_t)i;
  s->sink += x;
}
FUNCTION SquareRoots(struct State* s) {
  double x = 1e9;
  for (int i = 0; i < 22000; ++i) x = sqrt(x + i) * 1.0001;
  s->real += x;
}
FUNCTION MultiplyMatrices(struct State* s) {
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 64; ++j) {
      double sum = 0;
      for (int k = 0; k < 64; ++k) sum += s->reals[i * 64 + k] * s->reals[k * 64 + j];
      s->product[i * 64 + j] = sum;
    }
  }
  s->real += s->product[17];
}
FUNCTION JumpInMemory(struct State* s) {
  uint64_t at = s->random % kWords;
  for (int i = 0; i < 35000; ++i) at = (at * 5 + s->words[at]) % kWords;
  s->sink += at;
}
FUNCTION CountBits(struct State* s) {
  uint64_t bits = 0;
  for (int i = 0; i < kWords; ++i) {
    for (uint64_t word = s->words[i]; word != 0; word &= word - 1) ++bits;
    if (i == 9000) break;
  }
  s->sink += bits;
}
FUNCTION Branch(struct State* s) {
  uint64_t x = s->random, sum = 0;
  for (int i = 0; i < 50000; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    if ((x & 1) != 0) sum += x;
    if ((x & 6) == 4) sum ^= x << 1;
  }
  s->sink += sum;
}
FUNCTION Fill(struct State* s) {
  for (int i = 0; i < kWords; ++i) s->words[i] = s->words[i] * 31 + s->random;
}
FUNCTION Checksum(struct State* s) {
  uint32_t crc = ~0u;
  const unsigned char* bytes = (const unsigned char*)s->words;
  for (int i = 0; i < 9000; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320u & -(crc & 1));
  }
  s->sink += crc;
}
FUNCTION SortSome(struct State* s) {
  uint64_t* some = s->words;
  for (int i = 1; i < 600; ++i) {
    const uint64_t one = some[i];
    int j = i;
    for (; j > 0 && some[j - 1] > one; --j) some[j] = some[j - 1];
    some[j] = one;
  }
}
FUNCTION SumUp(struct State* s) {
  double sum = 0;
  for (int i = 0; i < kWords; ++i) sum += (double)s->words[i];
  s->real += sum;
}
// In the kernel: its time belongs to the function with the system call.
FUNCTION AskTheKernel(struct State* s) {
  static __thread unsigned char bytes[40000];
  register long number __asm__("rax") = SYS_getrandom;
  register long a __asm__("rdi") = (long)bytes, b __asm__("rsi") = sizeof bytes, c __asm__("rdx") = 0;
  __asm__ volatile("syscall" : "+r"(number) : "r"(a), "r"(b), "r"(c) : "rcx", "r11", "memory");
  s->sink += bytes[1];
}

static int rounds;
static void* Work(void* argument) {
  struct State* s = calloc(1, sizeof *s);
  s->random = (uint64_t)(size_t)argument;
  for (int i = 0; i < 64 * 64; ++i) s->reals[i] = i % 7;
  Fill(s);
  for (int i = 0; i < rounds; ++i) {
    Multiply(s), Divide(s), SquareRoots(s), MultiplyMatrices(s), JumpInMemory(s), CountBits(s);
    Branch(s), Fill(s), Checksum(s), SortSome(s), SumUp(s), AskTheKernel(s);
  }
  return s;
}

int main(int count, char** arguments) {
  rounds = count > 1 ? atoi(arguments[1]) : 1000;
  pthread_t other;
  if (pthread_create(&other, NULL, Work, (void*)2) != 0) abort();
  Work((void*)1);
  pthread_join(other, NULL);
  return 0;
}
