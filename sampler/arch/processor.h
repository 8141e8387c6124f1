// The processor, for the rest of sampler/ and interpose/. Only the headers in the folders below this one name a
// register, an instruction, the layout of a thread's control block or the system call convention; there is one folder
// for each processor.
//
// A second processor needs a folder beside x86_64/ with the same files, selected at the end of this header, and
// interpose/arch/<processor>/ with hand-written entry points (interpose/arch/entry_points.h). It defines:
//
//   caller               HOLDFAST_CALLER()           the registers of the caller, where a walk begins
//   system calls         SystemCall                  six words in, the kernel's answer out: −errno on failure
//                        ThreadPointerFromKernel     this thread's, where the program's memory may not be touched
//                        IsFork                      whether a number is fork(2), where the kernel has it
//                        HoldfastCloneOnStack        clone(2) with a new stack (clone_on_stack.cc)
//   the thread           ThreadPointer               of the control block, at the upper end of the block with the stack
//                        MayReadThreadPointer        whether IsThreadPointerOfLibc may be called
//                        IsThreadPointerOfLibc       false: thread-local memory is the program's own; touches none
//                        kUnusedWord                 a word of the control block that libc keeps and does not use, always 0
//                        ClearUnusedWord             makes it 0 again
//                        ChargeWord                  takes bytes (1 for 0) from a word at an offset from the pointer
//                        ChargeWordUnlessZero        the same, nothing for 0
//   single instructions  SpinPause, BorrowsFromZero, SharesNoBit, AddAsOwner, FillsAsOwner, BorrowsAsOwner, HOLDFAST_LOAD_PC_RELATIVE
//   arithmetic           FloatState, SetFloatState, kUsualFloatState   how floating-point results are rounded, which
//                                                    exceptions are signals, and which have occurred
//   words                SameWords                   whether scattered words are equal to others, four at a time
//   address space        kPageBytes: the smallest page of any kernel, and the step in which memory is probed
//                        PageBytes                   the page of this kernel, in which it maps and protects; after relocation
//                        kLargestPageBytes           the largest page of any kernel (processor_facts.h)
//                        kUserEnd; kUnmappable: an address at which no process can have a page
//                        kThreadBlockBefore          bytes before the thread pointer that may have libc's block of the thread
//   libc                 IsFreeSpinLock              of the word of a pthread_spinlock_t
//   signals              HoldfastSignalReturn        where a signal handler returns to (signal_return.cc)
//   unwinding            kDwarfFp, kDwarfSp, kDwarfPc                     DWARF's numbers of the three registers
//                        kDwarfReturn                                     the column of the return address
//                        kCallPushesReturn (processor_facts.h)            a call leaves its return address below the CFA;
//                                                                         false: in a register, which the callee saves
//                        CodeAddress                                      a return address without its signature
//                        kSignalFpOffset, kSignalSpOffset, kSignalPcOffset, kSignalReturnOffset
//                                                                         in the kernel's signal frame, from sp
//                        kSignalReturnHasNoTables, EndsSignal             whether a handler returns to code without unwind
//                                                                         tables, which is known by its instructions
//                        MayEndCall, kLongestCall                         whether a call instruction may end at an address
//
// All inline functions are forced inline: they run before the shim is relocated, without a GOT and thread-local memory
// (unless noted). A port must also check, outside of these folders: the version nodes of libc (interpose/exports.map,
// interpose/base/glibc_nodes.h); HOLDFAST_PROCESSOR in CMakeLists.txt; and what the tool accepts as an ELF file of this
// processor (report/names/elf/executable_kind.cc, elf_file.h), with pages of 4 KiB (report/names/elf/elf_symbols.cc).
#ifndef HOLDFAST_SAMPLER_ARCH_PROCESSOR_H_
#define HOLDFAST_SAMPLER_ARCH_PROCESSOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/arch/processor_facts.h"

namespace holdfast {

// Where a walk begins: the registers as they will be in the caller once the current function has returned.
// HOLDFAST_CALLER() gives the caller of the function that contains it. That function must not be inlined, and keeps a
// frame pointer.
struct CallerRegisters {
  uintptr_t pc;
  uintptr_t sp;
  uintptr_t fp;  // the frame pointer, if the code has one
};

#define HOLDFAST_ARCH inline __attribute__((always_inline))
// Copies the registers for a function that takes them by reference on a cold path. The compiler makes the copy only
// there, so the hot path keeps the three in registers.
HOLDFAST_ARCH CallerRegisters InMemory(CallerRegisters caller) {
  asm("" : "+r"(caller.pc), "+r"(caller.sp), "+r"(caller.fp));
  return caller;
}
// The kernel's answer: −errno on failure.
HOLDFAST_ARCH long SystemCall(long number, const long (&values)[6]);
HOLDFAST_ARCH bool IsFork(long number);
HOLDFAST_ARCH uintptr_t ThreadPointer();
HOLDFAST_ARCH uintptr_t ThreadPointerFromKernel();
HOLDFAST_ARCH bool MayReadThreadPointer();
HOLDFAST_ARCH bool IsThreadPointerOfLibc();
HOLDFAST_ARCH void ClearUnusedWord();
// Returns true when the word has run out: it was less than `bytes`, or became 0. `at`: from the thread pointer.
HOLDFAST_ARCH bool ChargeWord(size_t bytes, intptr_t at);
HOLDFAST_ARCH bool ChargeWordUnlessZero(size_t bytes, intptr_t at);
// Call between two reads of a word that another thread is about to change.
HOLDFAST_ARCH void SpinPause();
// Subtracts 1 from the word, in one instruction; true if it was 0.
HOLDFAST_ARCH bool BorrowsFromZero(uint16_t& word);
// Adds to a word that only this thread writes, in one instruction: atomic for a signal handler and for readers.
HOLDFAST_ARCH void AddAsOwner(std::atomic<uint64_t>* word, uint64_t by);
// The same; true if the highest bit is set afterwards.
HOLDFAST_ARCH bool FillsAsOwner(std::atomic<uint64_t>* word, uint64_t by);
// Subtracts from such a word, in one instruction; true if it had less.
HOLDFAST_ARCH bool BorrowsAsOwner(std::atomic<uint64_t>* word, uint64_t by);
// Words, and the distance of each from a start address, in words: together, so that comparing all of them reads few
// cache lines.
struct alignas(16) PlacedWords {
  static constexpr size_t kCount = 8;
  uint16_t places[kCount];
  uintptr_t words[kCount];
};
// Whether `count` words, a multiple of 4 and not 0, have their recorded values at their distances from `from`. They end
// with the end of a PlacedWords. If `count` is no multiple of 8, the first four are the second half of the first one.
HOLDFAST_ARCH bool SameWords(const uintptr_t* from, const PlacedWords* placed, size_t count);
// Whether `mask` and `value` have no bit in common, with one load from the mask's memory.
HOLDFAST_ARCH bool SharesNoBit(const uint32_t& mask, uint32_t value);
// The processor's control and status of floating-point arithmetic. kUsualFloatState: rounds to nearest, no exception is
// a signal, and none has occurred.
HOLDFAST_ARCH uint64_t FloatState();
HOLDFAST_ARCH void SetFloatState(uint64_t state);
// Whether a pthread_spinlock_t with this word is free.
HOLDFAST_ARCH bool IsFreeSpinLock(int word);
// Whether a call instruction may end at `code`. The kLongestCall bytes before it must be readable.
HOLDFAST_ARCH bool MayEndCall(const uint8_t* code);
HOLDFAST_ARCH uintptr_t CodeAddress(uintptr_t return_address);
// Whether the instructions at `code` return from a signal handler to the kernel. kSignalReturnBytes must be readable.
HOLDFAST_ARCH bool EndsSignal(const uint8_t* code);
// Only where the program can be relocated already.
HOLDFAST_ARCH uintptr_t PageBytes();

}  // namespace holdfast

// The child calls function(argument) on the new stack, which must not return. The parent gets its id, or −errno.
extern "C" __attribute__((visibility("hidden"))) long HoldfastCloneOnStack(unsigned long flags, void* stack_top,
                                                                           void (*function)(void*), void* argument);

// Returns from a signal handler: for sigaction's sa_restorer. Never called.
extern "C" __attribute__((visibility("hidden"))) void HoldfastSignalReturn();

#if defined(__x86_64__)
#include "sampler/arch/x86_64/processor_inline.h"
#elif defined(__aarch64__)
#include "sampler/arch/aarch64/processor_inline.h"
#else
#error "Holdfast has no folder in sampler/arch for this processor."
#endif

#endif  // HOLDFAST_SAMPLER_ARCH_PROCESSOR_H_
