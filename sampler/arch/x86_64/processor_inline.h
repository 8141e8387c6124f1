// x86-64 Linux. Included at the end of sampler/arch/processor.h, which describes each of these.
#ifndef HOLDFAST_SAMPLER_ARCH_X86_64_PROCESSOR_INLINE_H_
#define HOLDFAST_SAMPLER_ARCH_X86_64_PROCESSOR_INLINE_H_

#include <emmintrin.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>

// The prologue has pushed the caller's frame pointer first, where our own points.
#define HOLDFAST_CALLER()                                                                \
  (::holdfast::CallerRegisters{reinterpret_cast<uintptr_t>(__builtin_return_address(0)), \
                               reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa()),       \
                               *static_cast<const uintptr_t*>(__builtin_frame_address(0))})

namespace holdfast {

// ---- System calls ----

HOLDFAST_ARCH long SystemCall(long number, const long (&values)[6]) {
  register long r10 asm("r10") = values[3];
  register long r8 asm("r8") = values[4];
  register long r9 asm("r9") = values[5];
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "0"(number), "D"(values[0]), "S"(values[1]), "d"(values[2]), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

HOLDFAST_ARCH bool IsFork(long number) { return number == SYS_fork; }

// ---- The thread's control block: fs points to it, and its first word is that pointer ----

HOLDFAST_ARCH uintptr_t ThreadPointer() {
  uintptr_t value;
  asm("movq %%fs:0, %0" : "=r"(value));
  return value;
}

HOLDFAST_ARCH uintptr_t ThreadPointerFromKernel() {
  uintptr_t value = 0;
  SystemCall(SYS_arch_prctl, {0x1003 /*ARCH_GET_FS*/, reinterpret_cast<long>(&value)});
  return value;
}

// AT_HWCAP2: the kernel permits to read the register (Linux 5.9).
HOLDFAST_ARCH bool MayReadThreadPointer() { return (getauxval(AT_HWCAP2) & 2) != 0; }
HOLDFAST_ARCH bool IsThreadPointerOfLibc() {
  uintptr_t pointer;
  asm volatile("rdfsbase %0" : "=r"(pointer));
  return pointer >= 4096 /*a page, which none may have*/ && *reinterpret_cast<const uintptr_t*>(pointer) == pointer;
}

// tcbhead_t::sysinfo of glibc (2.2.5 to 2.43) and struct pthread's sysinfo of musl: only 32-bit programs use it, so it is
// zero in every thread. It exists before the first library is relocated, because stack protectors need the control block.
inline constexpr intptr_t kUnusedWord = 0x20;
HOLDFAST_ARCH void ClearUnusedWord() { asm volatile("movq $0, %%fs:%c0" : : "i"(kUnusedWord) : "memory"); }

// `cmp` sets the carry only for 0 bytes, and `sbb` subtracts it as well.
HOLDFAST_ARCH bool ChargeWord(size_t bytes, intptr_t at) {
  bool ran_out;
  asm volatile("cmpq $1, %[bytes]\n\tsbbq %[bytes], %%fs:(%[at])"
               : "=@ccbe"(ran_out)
               : [bytes] "r"(bytes), [at] "r"(at)
               : "memory");
  return ran_out;
}

HOLDFAST_ARCH bool ChargeWordUnlessZero(size_t bytes, intptr_t at) {
  bool ran_out;
  asm volatile("subq %[bytes], %%fs:(%[at])" : "=@ccbe"(ran_out) : [bytes] "r"(bytes), [at] "r"(at) : "memory");
  return ran_out;
}

// ---- Single instructions ----

HOLDFAST_ARCH void SpinPause() { __builtin_ia32_pause(); }

// The carry flag: the word was 0.
HOLDFAST_ARCH bool BorrowsFromZero(uint16_t& word) {
  bool was_zero;
  asm volatile("subw $1, %[word]" : "=@ccc"(was_zero), [word] "+m"(word));
  return was_zero;
}

HOLDFAST_ARCH void AddAsOwner(std::atomic<uint64_t>* word, uint64_t by) {
  asm volatile("addq %[by], %[word]" : [word] "+m"(*reinterpret_cast<uint64_t*>(word)) : [by] "er"(by));
}
// A jump: with two results in registers gcc makes three more instructions.
HOLDFAST_ARCH bool FillsAsOwner(std::atomic<uint64_t>* word, uint64_t by) {
  asm goto("addq %[by], %[word]\n\tjs %l[full]"
           :
           : [word] "m"(*reinterpret_cast<uint64_t*>(word)), [by] "er"(by)
           : "memory", "cc"
           : full);
  return false;
full:
  return true;
}

HOLDFAST_ARCH bool BorrowsAsOwner(std::atomic<uint64_t>* word, uint64_t by) {
  asm goto("subq %[by], %[word]\n\tjb %l[borrowed]"
           :
           : [word] "m"(*reinterpret_cast<uint64_t*>(word)), [by] "er"(by)
           : "memory", "cc"
           : borrowed);
  return false;
borrowed:
  return true;
}

// MXCSR. The x87 unit has its own, which no code of ours uses.
inline constexpr uint64_t kUsualFloatState = 0x1f80;
HOLDFAST_ARCH uint64_t FloatState() { return _mm_getcsr(); }
HOLDFAST_ARCH void SetFloatState(uint64_t state) {
  const auto control = static_cast<uint32_t>(state);
  asm volatile("ldmxcsr %0" : : "m"(control) : "memory");
}

HOLDFAST_ARCH bool SharesNoBit(const uint32_t& mask, uint32_t value) {
  bool none;
  asm volatile("testl %[value], %[mask]" : "=@ccz"(none) : [mask] "m"(mask), [value] "r"(value));
  return none;
}

// SSE2, which every x86-64 has. Loads are the bottleneck, so two distances are one load, split afterwards: half an
// instruction more a word, but faster. One turn of the loop compares eight words, because the loop costs as much as a
// word.
HOLDFAST_ARCH __m128i SameOfTwo(const uintptr_t* from, const PlacedWords& placed, int at) {
  uint32_t both_places;
  __builtin_memcpy(&both_places, &placed.places[at], sizeof both_places);
  const __m128d low = _mm_load_sd(reinterpret_cast<const double*>(&from[both_places & 0xffff]));
  const __m128d both = _mm_loadh_pd(low, reinterpret_cast<const double*>(&from[both_places >> 16]));
  return _mm_cmpeq_epi32(_mm_castpd_si128(both), *reinterpret_cast<const __m128i*>(&placed.words[at]));
}
HOLDFAST_ARCH __m128i SameOfFour(const uintptr_t* from, const PlacedWords& placed, int at) {
  return _mm_and_si128(SameOfTwo(from, placed, at), SameOfTwo(from, placed, at + 2));
}
HOLDFAST_ARCH bool AllSame(__m128i same) { return _mm_movemask_epi8(same) == 0xffff; }
HOLDFAST_ARCH bool SameWords(const uintptr_t* from, const PlacedWords* placed, size_t count) {
  __m128i same = SameOfFour(from, *placed, 4);
  if (count % 8 == 0) same = _mm_and_si128(same, SameOfFour(from, *placed, 0));
  // Different stacks usually differ in their first words.
  if (!AllSame(same)) return false;
  for (size_t left = (count - 1) / 8; left != 0; --left) {
    ++placed;
    same = _mm_and_si128(same, _mm_and_si128(SameOfFour(from, *placed, 0), SameOfFour(from, *placed, 4)));
  }
  return AllSame(same);
}

// Loads the word of a symbol relative to the program counter: never through the GOT, never as a constant.
#define HOLDFAST_LOAD_PC_RELATIVE(symbol, value) asm volatile("movq " #symbol "(%%rip), %0" : "=r"(value))

// ---- The address space ----

inline constexpr uintptr_t kPageBytes = 4096;
HOLDFAST_ARCH uintptr_t PageBytes() { return kPageBytes; }
inline constexpr uintptr_t kUserEnd = uintptr_t{1} << 47;
inline constexpr uintptr_t kUnmappable = kUserEnd - kPageBytes;  // the kernel leaves the last page out (TASK_SIZE_MAX)
inline constexpr uintptr_t kThreadBlockBefore = 0;

// ---- libc ----

// 1 while it is free, and 0 or less while it is taken.
HOLDFAST_ARCH bool IsFreeSpinLock(int word) { return word > 0; }

// ---- Unwinding (System V ABI) ----

inline constexpr uint64_t kDwarfFp = 6, kDwarfSp = 7, kDwarfPc = 16, kDwarfReturn = 16;
HOLDFAST_ARCH uintptr_t CodeAddress(uintptr_t return_address) { return return_address; }

// Offsets of the interrupted registers in the kernel's signal frame, from rsp at the return from the handler. rsp
// points at the ucontext: 40 bytes before the general registers, with REG_RBP = 10, REG_RSP = 15, REG_RIP = 16.
inline constexpr int64_t kSignalFpOffset = 40 + 10 * 8;
inline constexpr int64_t kSignalSpOffset = 40 + 15 * 8;
inline constexpr int64_t kSignalPcOffset = 40 + 16 * 8;
inline constexpr int64_t kSignalReturnOffset = 0;  // unused: no register has a return address

// libc's own code, which has unwind tables.
inline constexpr bool kSignalReturnHasNoTables = false;
inline constexpr int kSignalReturnBytes = 0;
HOLDFAST_ARCH bool EndsSignal(const uint8_t*) { return false; }

// call rel32, or call through a register or memory (ff /2, 2 to 7 bytes).
inline constexpr int kLongestCall = 7;
HOLDFAST_ARCH bool MayEndCall(const uint8_t* code) {
  if (code[-5] == 0xe8) return true;
  for (int length = 2; length <= kLongestCall; ++length) {
    if (code[-length] == 0xff && (code[1 - length] >> 3 & 7) == 2) return true;
  }
  return false;
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_ARCH_X86_64_PROCESSOR_INLINE_H_
