// arm64 Linux. Included at the end of sampler/arch/processor.h, which describes each of these.
//
// A signal handler of the same thread must not come between the load and the store of a word that both change. x86-64 has one
// instruction for that; here it is a pair of exclusive accesses, and the return from a handler makes the store fail, so that
// the pair runs again. Every arm64 has them. The single instructions of ARMv8.1 (LSE) are not used: a program would need a
// test for them in each place.
#ifndef HOLDFAST_SAMPLER_ARCH_AARCH64_PROCESSOR_INLINE_H_
#define HOLDFAST_SAMPLER_ARCH_AARCH64_PROCESSOR_INLINE_H_

#include <sys/auxv.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>

// x29 points to the caller's x29 and the return address, which the library's own functions do not sign.
#define HOLDFAST_CALLER()                                                                \
  (::holdfast::CallerRegisters{reinterpret_cast<uintptr_t>(__builtin_return_address(0)), \
                               reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa()),       \
                               *static_cast<const uintptr_t*>(__builtin_frame_address(0))})

namespace holdfast {

// ---- System calls ----

HOLDFAST_ARCH long SystemCall(long number, const long (&values)[6]) {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = values[0];
  register long x1 asm("x1") = values[1];
  register long x2 asm("x2") = values[2];
  register long x3 asm("x3") = values[3];
  register long x4 asm("x4") = values[4];
  register long x5 asm("x5") = values[5];
  asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory", "cc");
  return x0;
}

// The kernel has no fork(2), only clone(2).
HOLDFAST_ARCH bool IsFork(long) { return false; }

// ---- The thread's control block: tpidr_el0 points to its two words. libc's own block of the thread is before it ----

HOLDFAST_ARCH uintptr_t ThreadPointer() {
  uintptr_t value;
  asm("mrs %0, tpidr_el0" : "=r"(value));
  return value;
}

HOLDFAST_ARCH uintptr_t ThreadPointerFromKernel() { return ThreadPointer(); }

// The control block has nothing that tells libc's from the program's own.
HOLDFAST_ARCH bool MayReadThreadPointer() { return false; }
HOLDFAST_ARCH bool IsThreadPointerOfLibc() { return true; }

// tcbhead_t::private of glibc (2.17 to 2.43) and the second word of the gap above musl's thread pointer: the ABI keeps two
// words, and libc uses one. It is zero in every thread, and exists before the first library is relocated.
inline constexpr intptr_t kUnusedWord = 8;
HOLDFAST_ARCH void ClearUnusedWord() { *reinterpret_cast<volatile uint64_t*>(ThreadPointer() + kUnusedWord) = 0; }

HOLDFAST_ARCH bool TakeFromWord(uint64_t bytes, intptr_t at) {
  auto* const word = reinterpret_cast<uint64_t*>(ThreadPointer() + static_cast<uintptr_t>(at));
  uint64_t left;
  uint32_t failed;
  bool ran_out;
  asm volatile(
      "1: ldxr %[left], %[word]\n\t"
      "subs %[left], %[left], %[bytes]\n\t"
      "stxr %w[failed], %[left], %[word]\n\t"
      "cbnz %w[failed], 1b"
      : "=@ccls"(ran_out), [left] "=&r"(left), [failed] "=&r"(failed), [word] "+Q"(*word)
      : [bytes] "r"(bytes)
      : "memory");
  return ran_out;
}
HOLDFAST_ARCH bool ChargeWord(size_t bytes, intptr_t at) { return TakeFromWord(bytes + (bytes == 0), at); }
HOLDFAST_ARCH bool ChargeWordUnlessZero(size_t bytes, intptr_t at) { return TakeFromWord(bytes, at); }

// ---- Single steps ----

HOLDFAST_ARCH void SpinPause() { asm volatile("yield"); }

HOLDFAST_ARCH bool BorrowsFromZero(uint16_t& word) { return __atomic_fetch_sub(&word, 1, __ATOMIC_RELAXED) == 0; }

// Relaxed: only this thread writes the word, and readers see a whole number at any time.
HOLDFAST_ARCH void AddAsOwner(std::atomic<uint64_t>* word, uint64_t by) {
  word->fetch_add(by, std::memory_order_relaxed);
}
HOLDFAST_ARCH bool FillsAsOwner(std::atomic<uint64_t>* word, uint64_t by) {
  return (word->fetch_add(by, std::memory_order_relaxed) + by) >> 63 != 0;
}
HOLDFAST_ARCH bool BorrowsAsOwner(std::atomic<uint64_t>* word, uint64_t by) {
  return word->fetch_sub(by, std::memory_order_relaxed) < by;
}

// FPCR in the upper half, FPSR in the lower one.
inline constexpr uint64_t kUsualFloatState = 0;
HOLDFAST_ARCH uint64_t FloatState() {
  uint64_t control, status;
  asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(status));
  return control << 32 | (status & 0xffffffff);
}
HOLDFAST_ARCH void SetFloatState(uint64_t state) {
  asm volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(state >> 32), "r"(state & 0xffffffff) : "memory");
}

HOLDFAST_ARCH bool SharesNoBit(const uint32_t& mask, uint32_t value) {
  return (*const_cast<const volatile uint32_t*>(&mask) & value) == 0;
}

HOLDFAST_ARCH uintptr_t DifferenceOfFour(const uintptr_t* from, const PlacedWords& placed, int at) {
  return ((from[placed.places[at]] ^ placed.words[at]) | (from[placed.places[at + 1]] ^ placed.words[at + 1])) |
         ((from[placed.places[at + 2]] ^ placed.words[at + 2]) | (from[placed.places[at + 3]] ^ placed.words[at + 3]));
}
HOLDFAST_ARCH bool SameWords(const uintptr_t* from, const PlacedWords* placed, size_t count) {
  uintptr_t difference = DifferenceOfFour(from, *placed, 4);
  if (count % 8 == 0) difference |= DifferenceOfFour(from, *placed, 0);
  // Different stacks usually differ in their first words.
  if (difference != 0) return false;
  for (size_t left = (count - 1) / 8; left != 0; --left) {
    ++placed;
    difference |= DifferenceOfFour(from, *placed, 0) | DifferenceOfFour(from, *placed, 4);
  }
  return difference == 0;
}

// Loads the word of a symbol relative to the program counter: never through the GOT, never as a constant.
#define HOLDFAST_LOAD_PC_RELATIVE(symbol, value) \
  asm volatile("adrp %0, " #symbol "\n\tldr %0, [%0, :lo12:" #symbol "]" : "=r"(value))

// ---- The address space ----

inline constexpr uintptr_t kPageBytes = 4096;
HOLDFAST_ARCH uintptr_t PageBytes() { return getauxval(AT_PAGESZ); }
// 48 bits: a process has addresses above only where it asks for one. The kernel may have been built for fewer.
inline constexpr uintptr_t kUserEnd = uintptr_t{1} << 48;
inline constexpr uintptr_t kUnmappable = uintptr_t{1} << 55;  // this bit is set in the kernel's addresses alone
// glibc's struct pthread (1.8 KiB in 2.36, with the rseq area) and musl's.
inline constexpr uintptr_t kThreadBlockBefore = 4096;

// ---- libc ----

// 0 while it is free, in glibc and musl.
HOLDFAST_ARCH bool IsFreeSpinLock(int word) { return word == 0; }

// ---- Unwinding (AAPCS64, "DWARF for the Arm 64-bit Architecture") ----

inline constexpr uint64_t kDwarfFp = 29, kDwarfSp = 31, kDwarfPc = 32, kDwarfReturn = 30;

HOLDFAST_ARCH uintptr_t CodeAddress(uintptr_t return_address) { return WithoutSignature(return_address); }

// sp at the return from the handler points at siginfo_t (128 bytes), then the ucontext: 176 bytes before its sigcontext,
// which begins with the fault's address and x0.
inline constexpr int64_t kSignalRegisters = 128 + 176 + 8;
inline constexpr int64_t kSignalFpOffset = kSignalRegisters + 29 * 8;
inline constexpr int64_t kSignalReturnOffset = kSignalRegisters + 30 * 8;
inline constexpr int64_t kSignalSpOffset = kSignalRegisters + 31 * 8;
inline constexpr int64_t kSignalPcOffset = kSignalRegisters + 32 * 8;

// The vDSO's code, without unwind tables since Linux 5.8: `mov x8, #139` (rt_sigreturn), `svc #0`.
inline constexpr bool kSignalReturnHasNoTables = true;
inline constexpr int kSignalReturnBytes = 8;
HOLDFAST_ARCH bool EndsSignal(const uint8_t* code) {
  uint32_t words[2];
  __builtin_memcpy(words, code, sizeof words);
  return words[0] == 0xd2801168 && words[1] == 0xd4000001;
}

// bl, or blr (with a signed pointer: blraa, blrab, blraaz, blrabz).
inline constexpr int kLongestCall = 4;
HOLDFAST_ARCH bool MayEndCall(const uint8_t* code) {
  uint32_t word;
  __builtin_memcpy(&word, code - 4, sizeof word);
  return word >> 26 == 0x25 || (word & 0xfffffc1f) == 0xd63f0000 || (word & 0xfefff800) == 0xd63f0800;
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_ARCH_AARCH64_PROCESSOR_INLINE_H_
