// An executable with an allocator of its own, with one property of `free` in each build (CASE): what may, and what may
// not, be redirected at its entry. Allocates a known amount and maps some memory, so that there is a profile.
//
//     entry_cases_NAME          as it is
//     entry_cases_NAME child    the same in a forked child and after an exec
//     entry_cases_NAME again    the same once more for each line of input, after which it says so
//     entry_cases_plain within  stops within malloc's first instructions until a line comes: in a handler on a stack of its own,
//                               which has interrupted another handler
//     entry_cases_NAME plugin F the same, and by a plugin F that is closed before its blocks are freed
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "known.h"

#define PLAIN 1         // nothing in the way
#define SHORT 2         // the next function begins within the jump
#define CALLS 3         // as compiled with -pg
#define LOOPS 4         // jrcxz among the first instructions
#define RESOLVER 5      // an ifunc
#define TWO_KINDS 6     // shares its address with calloc
#define OWN_BRANCH 7    // a loop of its own begins in the moved bytes
#define NEIGHBOUR 8     // a short branch from the function before it
#define FAR_BRANCH 9    // a near branch from far away
#define RESTARTABLE 10  // a restartable sequence
#define THUNK 11        // a short jump to another entry
#define ENDBR 12        // endbr64 first
#define FLAGS 13        // the first instruction's flags are used by a moved one
#define KEEPS 14        // the callers keep values in registers that only this free leaves alone
#define INLINED 15      // another free is inlined
#define ADDS 16         // the first instruction changes an argument that the hook does not read
#define COLD 17         // its rarely run part, beyond the text that is searched, jumps back into the moved bytes
#define FAR_LOOP 18     // the same back to its start
#define LOOP 19         // malloc has a loop that begins after endbr64
#define SIZED 20        // its blocks are freed by names that it lacks
#define LITTLE 21       // malloc needs 3 KiB of stack, and a thread has little more
#define COPIED 22       // the program calls a copy of free
#define OWN_COPY 23     // only free itself calls its copy
#define HIDDEN 24       // not exported
#define FAMILY 25       // another family of functions allocates and does not free
#define HEAPS 26        // a function frees all blocks of a heap
#define CONTROLS 27     // jemalloc's function that can do so, with other names
#define RESETS 28       // the same, called with the name that frees
#define RESETS_MIB 29   // the same by numbers
#define SHARED 30       // realloc allocates by a function that the program calls too
#define MOVED_CALL 32   // a call among its first instructions; the function called sees that it returns there
#define UNNAMED 31      // free only jumps to a function with another name
#define TWO_RESULTS 33  // a function returns the block's size in a second register
#define CRATE 34        // no malloc: only google/tcmalloc's names, and those of a Rust crate
#define CROSSES 35      // the jump in it would cross the end of a page
#define UNCALLED 36     // malloc and free are inlined wherever the program calls them: it calls the slow part
#define SHORT_JUMPS 37  // jumps of 2 bytes to other entries, as BOLT makes them
#define SHORT_INTO 38   // the same, with a branch to the instruction before one
#define SHORT_FAR 39    // with that branch in another function
#define SHORT_TABLE 40  // with a jump that may lead there
#define FOLDED 41       // shares its address with cfree (identical code folding)
#define BRK 42          // its memory is from sbrk
#define COPIES 44       // strdup, strndup and realpath are its own
#define TINY 43         // functions that are a jump of 2 bytes, or change their arguments first, or only lead on
#define TWO_PAGES 45    // free is in another page, 0x800 bytes after its start
#define ORDINARY 46     // as UNCALLED has the slow part, but the program calls malloc and free
#define HAS_SHORT_JUMPS (CASE >= SHORT_JUMPS && CASE <= SHORT_TABLE)

// ---- The allocator: blocks of 1,024 bytes, the one freed last is given out first; larger ones for the dynamic linker ----
enum { kRoom = 4 << 20 };
#if CASE == BRK
static char* room;
#else
static char room[kRoom];
#endif
static size_t used;
static void* freed;
typedef void* __attribute__((may_alias)) Link;  // in a free block; without memcpy, which may use any register
volatile int gate;                              // 1: free runs its rare part

__attribute__((noinline, used)) void* toy_malloc(size_t bytes) {
#if CASE == LITTLE
  volatile char deep[3000];
  deep[0] = 1;
#endif
#if CASE == BRK
  if (room == NULL) room = sbrk(kRoom);
#endif
  const size_t whole = (bytes + 16 + 1023) & ~(size_t)1023;
  if (bytes > kRoom || used + whole > kRoom) return NULL;
  if (freed != NULL && whole == 1024) {
    void* block = freed;
    freed = *(Link*)block;
    return block;
  }
  used += whole;
  return room + used - whole + 16;
}
__attribute__((noinline, used)) void toy_free(void* block) {
  if (block == NULL) return;
  *(Link*)block = freed;
  freed = block;
}
__attribute__((noinline, used)) void* toy_calloc(size_t count, size_t each) {
  void* block = toy_malloc(count * each);
  return block != NULL ? memset(block, 0, count * each) : NULL;
}
#if CASE == SHARED
KNOWN void* shared_helper(size_t bytes) { return malloc(bytes); }
__attribute__((noinline, used)) void* toy_realloc(void* block, size_t bytes) {
  void* grown = shared_helper(bytes);
  if (block == NULL) return grown;
  memcpy(grown, block, 100);
  free(block);
  return grown;
}
#else
__attribute__((noinline, used)) void* toy_realloc(void* block, size_t bytes) {
  if (block == NULL) return toy_malloc(bytes);
  return bytes <= 1008 ? block : NULL;
}
#endif
#if CASE == COPIES
__attribute__((noinline, used)) char* toy_strndup(const char* text, size_t most) {
  const size_t length = strnlen(text, most);
  char* copy = toy_malloc(length + 1);
  copy[length] = 0;
  return memcpy(copy, text, length);
}
__attribute__((noinline, used)) char* toy_strdup(const char* text) { return toy_strndup(text, 1000); }
// Takes its block from malloc, which counts it: nobody can tell that this call is the allocator's own.
KNOWN char* toy_realpath(const char* path, char* buffer) {
  static void* (*volatile take)(size_t) = malloc;
  if (path[0] != '/') return NULL;
  return strcpy(buffer != NULL ? buffer : take(300), path);
}
#endif
#if CASE == CONTROLS || CASE == RESETS || CASE == RESETS_MIB
__attribute__((noinline, used)) int toy_mallctl(const char* name, void* old, size_t* old_bytes, void* now,
                                                size_t now_bytes) {
  __asm__ volatile("" : : "r"(name), "r"(old), "r"(old_bytes), "r"(now), "r"(now_bytes));
  return name == NULL;
}
__attribute__((noinline, used)) int toy_mallctlnametomib(const char* name, size_t* numbers, size_t* count) {
  const int frees = strstr(name, ".reset") != NULL;
  numbers[0] = 3;
  numbers[1] = 0;
  numbers[2] = frees ? 7 : 8;
  *count = 3;
  return 0;
}
__attribute__((noinline, used)) int toy_mallctlbymib(const size_t* numbers, size_t count, void* old, size_t* old_bytes,
                                                     void* now, size_t now_bytes) {
  __asm__ volatile("" : : "r"(old), "r"(old_bytes), "r"(now), "r"(now_bytes));
  return numbers[0] + count == 0;
}
#endif

#define NAMED(name, body)                                                                                              \
  ".globl " name "\n.type " name ",@function\n" name ":\n.cfi_startproc\n" body ".cfi_endproc\n.size " name ",.-" name \
  "\n"
#define FUNCTION(name, body) NAMED(#name, body)
#define HIDE(name) ".hidden " #name "\n"
#define USUAL(target) "push %rbx\nmov %rdi,%rbx\nmov %rbx,%rdi\npop %rbx\njmp " #target "\n"

#if CASE == CRATE
__asm__(".text\n.p2align 4\n" FUNCTION(TCMallocInternalMalloc, USUAL(toy_malloc)) ".p2align 4\n" FUNCTION(TCMallocInternalNewAlignedNothrow, USUAL(toy_malloc)) ".p2align 4\n" FUNCTION(
    BridgeTCMallocInternalNewAlignedNothrow,
    "jmp TCMallocInternalNewAlignedNothrow\n") ".p2align 4\n" FUNCTION(BridgePrepareReallocAligned,
                                                                       "push %rbx\nmov %rsi,%rdi\nmov %rdi,%rbx\npop %rbx\njmp toy_malloc\n") ".p2align 4\n" FUNCTION(TCMallocInternalDeleteSizedAligned,
                                                                                                                                                                      USUAL(
                                                                                                                                                                          toy_free)));
void* BridgeTCMallocInternalNewAlignedNothrow(size_t bytes, size_t alignment);
void* BridgePrepareReallocAligned(void* old, size_t bytes, size_t alignment, size_t* old_bytes);
void TCMallocInternalDeleteSizedAligned(void* block, size_t bytes, size_t alignment);
#define ALLOCATE(bytes) BridgeTCMallocInternalNewAlignedNothrow(bytes, 16)
#define RELEASE(block) TCMallocInternalDeleteSizedAligned(block, 200, 16)
#else
#if CASE == UNCALLED || CASE == ORDINARY
__asm__(".globl _mi_malloc_generic\n.type _mi_malloc_generic,@function\n.set _mi_malloc_generic,toy_malloc\n");
#endif
#if CASE == UNCALLED
#define ALLOCATE(bytes) toy_malloc(bytes)
#define RELEASE(block) toy_free(block)
#else
#define ALLOCATE(bytes) malloc(bytes)
#define RELEASE(block) free(block)
#endif
__asm__(
    ".text\n.p2align 4\n"
#if CASE == TWO_PAGES
    ".p2align 12\n"
#endif
#if CASE == LOOP
    FUNCTION(malloc, "endbr64\n1: mov %rdi,%rax\nshr %ecx\njne 1b\nnop\njmp toy_malloc\n") ".p2align 4\n"
#else
    FUNCTION(malloc, USUAL(toy_malloc)) ".p2align 4\n"
#endif
#if HAS_SHORT_JUMPS
    FUNCTION(page_bytes, "mov $4096,%eax\nret\n")
        FUNCTION(memalign, "2: push %rbx\nmov %rsi,%rdi\nmov %rdi,%rbx\npop %rbx\njmp toy_malloc\n")
            FUNCTION(valloc,
                     "push %rbx\nmov %rdi,%rbx\ncall page_bytes\n"
#if CASE == SHORT_INTO
                     "test %rbx,%rbx\nje 4f\nmov %rbx,%rdi\n"
#elif CASE == SHORT_TABLE
                     "lea 4f(%rip),%rdx\njmp *%rdx\nnop\n"
#endif
#if CASE == SHORT_JUMPS
                     "lea 12(%rbx),%rsi\npop %rbx\ntest %rsi,%rsi\nje 5f\nnop\n5: mov %rax,%rdi\njmp 2b\n"
#else
                     "mov %rbx,%rsi\npop %rbx\nmov %rax,%rdi\n4: jmp 2b\n"
#endif
                     ) FUNCTION(aligned_alloc,
                                "push %rbx\nlea 12(%rsi),%rbx\nmov %rdi,%rdx\nmov %rbx,%rsi\npop %rbx\ntest %rdi,%rdi\n"
                                "je 2b\njmp 2b\n")
#if CASE == SHORT_FAR
                ".skip 4096,0x90\n" FUNCTION(far, "push %rbx\njmp 4b\n")
#endif
                    ".p2align 4\n"
#endif
#if CASE != TWO_KINDS
    FUNCTION(calloc, USUAL(toy_calloc)) ".p2align 4\n"
#endif
#if HAS_SHORT_JUMPS
    FUNCTION(realloc, "3: " USUAL(toy_realloc))
        FUNCTION(reallocarray,
                 "mov %rsi,%rax\nmov %rdx,%rsi\ncmp $1,%rax\nje 3b\nmul %rsi\nmov %rax,%rsi\njno 3b\n"
                 "xor %eax,%eax\nret\n") ".p2align 8\n"
#else
    FUNCTION(realloc, USUAL(toy_realloc)) ".p2align 8\n"
#endif
#if CASE == SHORT
    FUNCTION(free, "push %rbx\njmp 1f\n") FUNCTION(rest, "1: pop %rbx\njmp toy_free\n")
#elif CASE == CALLS
    FUNCTION(free, "push %rbp\nmov %rsp,%rbp\ncall times@plt\npop %rbp\njmp toy_free\n")
#elif CASE == MOVED_CALL
    FUNCTION(leaf, "mov (%rsp),%rax\nlea returns(%rip),%rcx\ncmp %rax,%rcx\njne 1f\nret\n1: ud2\n") ".p2align 4\n" FUNCTION(
        free, "push %rbx\ncall leaf\nreturns: pop %rbx\njmp toy_free\n")
#elif CASE == CROSSES
    ".p2align 12\n.skip 4096-3,0x90\n" FUNCTION(free, USUAL(toy_free))
#elif CASE == TWO_PAGES
    ".p2align 12\n.skip 4096+2048,0x90\n" FUNCTION(free, USUAL(toy_free))
#elif CASE == LOOPS
    FUNCTION(free, "push %rbx\njrcxz 1f\n1: mov %rdi,%rbx\npop %rbx\njmp toy_free\n")
#elif CASE == RESOLVER
    ".globl free\n.type free,@gnu_indirect_function\n.set free,resolve_free\n"
#elif CASE == TWO_KINDS
    ".globl calloc\n.type calloc,@function\ncalloc:\n" FUNCTION(free, USUAL(toy_free))
#elif CASE == OWN_BRANCH
    FUNCTION(free, "push %rbx\n1: mov %rdi,%rbx\nmov $1,%eax\ndec %eax\njne 1b\npop %rbx\njmp toy_free\n")
#elif CASE == NEIGHBOUR
    FUNCTION(before, "push %rbx\njmp 1f\n")
        FUNCTION(free, "push %rbx\nnop\n1: mov %rdi,%rbx\nmov %rbx,%rdi\npop %rbx\njmp toy_free\n")
#elif CASE == FAR_BRANCH
    FUNCTION(free, "push %rbx\nnop\n1: mov %rdi,%rbx\nmov %rbx,%rdi\npop %rbx\njmp toy_free\n") ".skip 4096,0x90\n" FUNCTION(
        far, "push %rbx\njmp 1b\n")
#elif CASE == RESTARTABLE
    FUNCTION(
        free,
        "push %rbx\n2: mov %rdi,%rbx\nmov %rbx,%rdi\n3: pop %rbx\njmp toy_free\n4: ud2\n") ".pushsection __rseq_cs,\"aw\"\n.balign 32\n.long 0,0\n.quad 2b,3b-2b,4b\n.popsection\n"
#elif CASE == COLD
    FUNCTION(free,
             "push %rbx\nmov %rdi,%rbx\n1: mov gate(%rip),%eax\ntest %eax,%eax\njne free.cold\n"
             "mov %rbx,%rdi\npop %rbx\njmp toy_free\n") ".skip 6000000,0x90\n" FUNCTION(free.cold,
                                                                                        "movl $0,gate(%rip)\njmp 1b\n")
#elif CASE == FAR_LOOP
    FUNCTION(free, "1: mov gate(%rip),%eax\ntest %eax,%eax\njne free.cold\njmp toy_free\n") ".skip 6000000,0x90\n" FUNCTION(
        free.cold, "movl $0,gate(%rip)\njmp 1b\n")
#elif CASE == THUNK
    ".globl cfree\n.type cfree,@function\ncfree: jmp free\n.size cfree,.-cfree\n.p2align 4\n" FUNCTION(free,
                                                                                                       USUAL(toy_free))
#elif CASE == FOLDED
    ".globl cfree\n.type cfree,@function\ncfree:\n" FUNCTION(free, USUAL(toy_free)) ".size cfree,.-cfree\n"
#elif CASE == ENDBR
    FUNCTION(free, "endbr64\n" USUAL(toy_free))
#elif CASE == ADDS
    FUNCTION(free, "sub $1,%rsi\nnop\nmov %rdi,%rax\nnop\njmp toy_free\n")
#elif CASE == FLAGS
    FUNCTION(free, "test %rdi,%rdi\nmov %rdi,%rax\nje 1f\njmp toy_free\n1: ret\n")
#elif CASE == COPIED || CASE == OWN_COPY
    FUNCTION(free, "test %rdi,%rdi\nmov %rdi,%rax\nnop\nje 1f\njmp free.part.0\n1: ret\n")
        NAMED("free.part.0", USUAL(toy_free))
#elif CASE == HEAPS
    FUNCTION(free, USUAL(toy_free)) ".p2align 4\n" FUNCTION(mi_malloc, USUAL(toy_malloc)) ".p2align 4\n" FUNCTION(
        mi_heap_destroy,
        "push %rbx\nmov %rdi,%rbx\nmov %rbx,%rdi\npop %rbx\nret\n") ".p2align 4\n" FUNCTION(mi_free, USUAL(toy_free))
#elif CASE == CONTROLS || CASE == RESETS || CASE == RESETS_MIB
    FUNCTION(free, USUAL(toy_free)) ".p2align 4\n" FUNCTION(mallctl, USUAL(toy_mallctl)) ".p2align 4\n" FUNCTION(
        mallctlnametomib, USUAL(toy_mallctlnametomib)) ".p2align 4\n" FUNCTION(mallctlbymib, USUAL(toy_mallctlbymib))
#elif CASE == UNNAMED
    FUNCTION(free, ".byte 0xe9\n.long inner_free-.-4\n") ".p2align 4\n" FUNCTION(inner_free, USUAL(toy_free))
#elif CASE == COPIES
    FUNCTION(free, USUAL(toy_free)) ".p2align 4\n" FUNCTION(strdup, USUAL(toy_strdup)) ".p2align 4\n" FUNCTION(
        strndup, USUAL(toy_strndup)) ".p2align 4\n" FUNCTION(realpath, USUAL(toy_realpath))
#elif CASE == KEEPS
    FUNCTION(free, USUAL(toy_free)) ".p2align 4\n" FUNCTION(
        strdup, "push %rbx\nmov %rdi,%rbx\nmov $16,%edi\npop %rbx\njmp toy_malloc\n")
#elif CASE == FAMILY
    FUNCTION(free, USUAL(toy_free)) ".p2align 4\n" FUNCTION(sn_rust_alloc, USUAL(toy_malloc))
#elif CASE == TWO_RESULTS
    FUNCTION(free, USUAL(toy_free)) ".p2align 4\n" FUNCTION(
        __size_returning_new,
        "push %rbx\nmov %rdi,%rbx\nmov %rbx,%rdi\ncall toy_malloc\nmov $1008,%edx\npop %rbx\nret\n")
#else
    FUNCTION(free, USUAL(toy_free))
#endif
#if CASE == HIDDEN
        HIDE(malloc) HIDE(calloc) HIDE(realloc) HIDE(free)
#endif
);
#endif
#if CASE == TINY
// A pool, and operators before it: new and delete fit in 2 bytes, and delete[] does nothing. The size is memalign's second
// argument, then its first; pvalloc's is wrong, then right; valloc leads on to malloc with another size.
__asm__(
    ".text\n.p2align 4\n" FUNCTION(_Znwm, ".byte 0xeb,pool_new-.-1\n") ".p2align 4\n"  //
    FUNCTION(_Znam, "endbr64\n.byte 0xeb,pool_new-.-1\n") ".p2align 4\n"               //
    FUNCTION(_ZdlPv, ".byte 0xeb,pool_delete-.-1\n") ".p2align 4\n"                    //
    FUNCTION(_ZdaPv, "ret\n") ".p2align 4\n"                                           //
    FUNCTION(pool_new, USUAL(toy_malloc))
        FUNCTION(pool_delete, USUAL(toy_free)) ".p2align 4\n" FUNCTION(memalign, "xchg %rdi,%rsi\nmov %rdi,%rax\njmp toy_malloc\n") ".p2align 4\n" FUNCTION(
            pvalloc,
            "lea 0x1000(%rdi),%rdi\nsub $0x1000,%rdi\njmp toy_malloc\n") ".p2align 4\n" FUNCTION(valloc,
                                                                                                 "mov $300,%edi\njmp malloc\n"));
#endif
#if CASE == TWO_RESULTS
struct Sized {
  void* block;
  size_t bytes;
};
struct Sized __size_returning_new(size_t bytes);
#endif

#if CASE == COPIED
void free_part(void*) __asm__("free.part.0");
#endif
#if CASE == HEAPS
void mi_heap_destroy(void*);
#endif
#if CASE == CONTROLS || CASE == RESETS || CASE == RESETS_MIB
int mallctl(const char* name, void* old, size_t* old_bytes, void* now, size_t now_bytes);
int mallctlnametomib(const char* name, size_t* numbers, size_t* count);
int mallctlbymib(const size_t* numbers, size_t count, void* old, size_t* old_bytes, void* now, size_t now_bytes);
#endif

#if CASE == RESOLVER
void (*resolve_free(void))(void*) { return toy_free; }
#endif
#if CASE == TWO_KINDS
void* calloc(size_t count, size_t each);
#endif
#if CASE == THUNK || CASE == FOLDED
void cfree(void*);
#endif
#if HAS_SHORT_JUMPS
void* memalign(size_t alignment, size_t bytes);
#endif

// ---- The callers ----
KNOWN void* kept(size_t bytes) {
#if CASE == LOOP
  __asm__ volatile("" : : "c"(255));
#endif
  return ALLOCATE(bytes);
}
KNOWN void* passing(size_t bytes) { return ALLOCATE(bytes); }
#if CASE == SHORT_JUMPS
KNOWN void* by_valloc(size_t bytes) { return valloc(bytes); }
KNOWN void* by_aligned_alloc(size_t bytes) { return aligned_alloc(16, bytes); }
KNOWN void* by_memalign(size_t bytes) { return memalign(16, bytes); }
KNOWN void* by_reallocarray(size_t count, size_t each) { return reallocarray(NULL, count, each); }
#endif
#if CASE == TINY
void* _Znwm(size_t);
void* _Znam(size_t);
void _ZdlPv(void*);
void _ZdaPv(void*);
void* memalign(size_t, size_t);
void* pvalloc(size_t);
KNOWN void* by_new(size_t bytes) { return _Znwm(bytes); }
KNOWN void* by_array_new(size_t bytes) { return _Znam(bytes); }
KNOWN void* by_memalign(size_t bytes) { return memalign(64, bytes); }
KNOWN void* by_pvalloc(size_t bytes) { return pvalloc(bytes); }
KNOWN void* by_valloc(size_t bytes) { return valloc(bytes); }
// What the kernel does when a uprobe goes.
static int RestoreFirstByte(void* function, unsigned char was) {
  FILE* memory = fopen("/proc/self/mem", "r+");
  if (memory == NULL) return 1;
  const int failed = fseek(memory, (long)(uintptr_t)function, SEEK_SET) != 0 || fwrite(&was, 1, 1, memory) != 1;
  return fclose(memory) != 0 || failed;
}
#endif
#if CASE == COPIES
KNOWN char* by_strdup(const char* text) { return strdup(text); }
KNOWN char* by_strndup(const char* text, size_t most) { return strndup(text, most); }
KNOWN char* by_realpath(const char* path, char* buffer) { return realpath(path, buffer); }
#endif
#if CASE == TWO_RESULTS
KNOWN struct Sized sized(size_t bytes) { return __size_returning_new(bytes); }
#endif
#if CASE == CRATE
// As the crate does it: the caller frees the old block.
KNOWN void* grown(void* old, size_t bytes) {
  size_t old_bytes = 200;
  void* block = BridgePrepareReallocAligned(old, bytes, 16, &old_bytes);
  if (block != old) {
    memcpy(block, old, old_bytes);
    TCMallocInternalDeleteSizedAligned(old, old_bytes, 16);
  }
  return block;
}
#endif

#if CASE == KEEPS
// As gcc's -fipa-ra does it: registers that a call may overwrite, but this malloc and free do not. Returns how many have
// changed. (toy_malloc and toy_free are compiled code, and may use some: rax, rcx, rdx, rsi, rdi and r8 are not checked.)
KNOWN long changed_registers(size_t bytes) {
  long wrong;
  __asm__ volatile(
      "push %%rbx\npush %%r12\nmov %%rsp,%%r12\nand $-16,%%rsp\n"
      "mov $9,%%r9\nmov $10,%%r10\nmov $11,%%r11\nmov $77,%%eax\nmovq %%rax,%%xmm5\nmovq %%rax,%%xmm15\n"
      "call malloc\n"
      "mov %%rax,%%rdi\ncall free\n"
      "xor %%ebx,%%ebx\n"
      "cmp $9,%%r9\nje 1f\ninc %%rbx\n1: cmp $10,%%r10\nje 1f\ninc %%rbx\n1: cmp $11,%%r11\nje 1f\ninc %%rbx\n"
      "1: movq %%xmm5,%%rax\ncmp $77,%%rax\nje 1f\ninc %%rbx\n1: movq %%xmm15,%%rax\ncmp $77,%%rax\nje 1f\ninc %%rbx\n1:\n"
      "mov %%rbx,%%rax\nmov %%r12,%%rsp\npop %%r12\npop %%rbx\n"
      : "=a"(wrong), "+D"(bytes)
      :
      : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm5", "xmm15", "memory", "cc");
  return wrong;
}
// The same with what the processor has more of, the upper parts of vector registers and masks, and with strdup, because the
// library calls libc's strlen for it.
KNOWN long changed_wide_registers(void) {
  long wrong = 0;
#define BOTH \
  "mov %%rsp,%%r12\nsub $128,%%rsp\nand $-16,%%rsp\ncall strdup\nmov %%rax,%%rdi\ncall free\nmov %%r12,%%rsp\n"
#define CHECK(read) read "\ncmp $77,%%rax\nje 1f\ninc %[wrong]\n1:\n"
#define LIKE_A_CALL \
  "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "xmm0", "xmm5", "xmm15", "memory", "cc"
  if (__builtin_cpu_supports("avx"))
    __asm__ volatile(
        "mov $77,%%eax\nvmovq %%rax,%%xmm0\n"
        "vinsertf128 $1,%%xmm0,%%ymm0,%%ymm5\nvinsertf128 $1,%%xmm0,%%ymm0,%%ymm15\n" BOTH CHECK(
            "vextractf128 $1,%%ymm5,%%xmm0\nvmovq %%xmm0,%%rax")
            CHECK("vextractf128 $1,%%ymm15,%%xmm0\nvmovq %%xmm0,%%rax") "vzeroupper\n"
        : [wrong] "+b"(wrong)
        :
        : LIKE_A_CALL);
  if (__builtin_cpu_supports("avx512f"))
    __asm__ volatile(
        "mov $77,%%eax\nvpbroadcastq %%rax,%%zmm5\nvpbroadcastq %%rax,%%zmm31\nkmovw %%eax,%%k5\n" BOTH CHECK(
            "vextracti64x4 $1,%%zmm5,%%ymm0\nvmovq %%xmm0,%%rax")
            CHECK("vextracti64x4 $1,%%zmm31,%%ymm0\nvmovq %%xmm0,%%rax") CHECK("kmovw %%k5,%%eax") "vzeroupper\n"
        : [wrong] "+b"(wrong)
        :
        : LIKE_A_CALL);
  return wrong;
}
#endif

#if CASE == SIZED
__attribute__((weak)) void free_sized(void*, size_t);
__attribute__((weak)) void free_aligned_sized(void*, size_t, size_t);
__attribute__((weak)) void cfree(void*);
#endif

#if CASE == LITTLE
static char* lowest;
static void* OnLittleStack(void* unused) {
  char here;
  volatile char* taken = alloca((size_t)(&here - lowest) - 5120);
  taken[0] = 1;
  for (int i = 0; i < 10; ++i) free(passing(200));
  return unused;
}
static int RunsOnLittleStack(void) {
  const size_t bytes = 128 << 10, guard = 4096;
  lowest = (char*)mmap(NULL, guard + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + guard;
  mprotect(lowest, bytes, PROT_READ | PROT_WRITE);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, lowest, bytes);
  pthread_t thread;
  return pthread_create(&thread, &attributes, OnLittleStack, NULL) == 0 && pthread_join(thread, NULL) == 0;
}
#endif

static int Work(void) {
  long wrong = 0;
  for (int i = 0; i < 100; ++i) {
    char* block = kept(100);
    memset(block, i, 100);
    char* other = passing(200);
    wrong += other == block;
    gate = 1;
    RELEASE(other);
    RELEASE(NULL);
  }
#if CASE == TWO_RESULTS
  for (int i = 0; i < 100; ++i) {
    const struct Sized one = sized(300);
    wrong += one.bytes != 1008;
    if (i % 2 == 0) free(one.block);
  }
#endif
#if CASE == COPIES
  for (int i = 0; i < 100; ++i) {
    char text[] = "/a/path", buffer[300];
    char* copies[] = {by_strdup(text), by_strndup(text, 3), by_realpath(text, NULL)};
    wrong += strcmp(copies[0], text) != 0 || strcmp(copies[1], "/a/") != 0 || strcmp(copies[2], text) != 0;
    wrong += by_realpath(text, buffer) != buffer || by_realpath("none", NULL) != NULL;
    for (int k = 0; k < 3 && i % 4 != 0; ++k) free(copies[k]);
  }
#endif
#if CASE == CRATE
  for (int i = 0; i < 10; ++i) RELEASE(grown(passing(200), 400));
#endif
#if CASE == THUNK || CASE == FOLDED
  for (int i = 0; i < 10; ++i) cfree(passing(200));
#endif
#if CASE == SIZED
  for (int i = 0; i < 10; ++i) free_sized != NULL ? free_sized(passing(200), 200) : free(passing(200));
  for (int i = 0; i < 10; ++i)
    free_aligned_sized != NULL ? free_aligned_sized(passing(200), 16, 200) : free(passing(200));
  for (int i = 0; i < 10; ++i) cfree != NULL ? cfree(passing(200)) : free(passing(200));
#endif
#if CASE == SHORT_JUMPS
  for (int i = 0; i < 20000; ++i) {
    char* block = i % 10 == 0   ? by_memalign(500)
                  : i % 2 == 0  ? by_valloc(500)
                  : i % 3 == 0  ? by_aligned_alloc(500)
                  : i % 11 == 0 ? by_reallocarray(1, 500)
                                : by_reallocarray(5, 100);
    memset(block, i, 500);
    free(block);
  }
#endif
#if CASE == TINY
  for (int i = 0; i < 20; ++i) {
    memset(by_array_new(300), i, 300);
    memset(by_new(300), i, 300);
    _ZdlPv(by_new(300));
    _ZdaPv(by_array_new(300));
    free(by_memalign(300));
    free(by_pvalloc(300));
    free(by_valloc(100));
  }
  wrong += RestoreFirstByte((void*)_Znwm, 0xeb);
  memset(_Znwm(300), 1, 300);
#endif
#if CASE == LITTLE
  wrong += !RunsOnLittleStack();
#endif
#if CASE == KEEPS
  for (int i = 0; i < 1000; ++i) wrong += changed_registers(64) + changed_wide_registers();
#endif
#if CASE == INLINED
  for (int i = 0; i < 10; ++i) toy_free(passing(200));
#endif
#if CASE == COPIED
  for (int i = 0; i < 10; ++i) free_part(passing(200));
#endif
#if CASE == HEAPS
  mi_heap_destroy(NULL);
#endif
#if CASE == CONTROLS
  wrong += mallctl("arena.0.purge", NULL, NULL, NULL, 0) + mallctl("stats.allocated", NULL, NULL, NULL, 0);
#elif CASE == RESETS
  wrong += mallctl("arena.0.reset", NULL, NULL, NULL, 0);
#endif
#if CASE == CONTROLS || CASE == RESETS_MIB
  size_t numbers[3], count = 3;
  wrong += mallctlnametomib(CASE == CONTROLS ? "arena.0.purge" : "arena.0.reset", numbers, &count);
  numbers[1] = 1;
  wrong += mallctlbymib(numbers, count, NULL, NULL, NULL, 0);
#endif
#if CASE == SHARED
  for (int i = 0; i < 10; ++i) free(shared_helper(300));
  for (int i = 0; i < 10; ++i) free(realloc(passing(200), 400));
#endif
  return wrong != 0;
}

// Returns 1 if it is wrong.
static int WorkInPlugin(const char* file) {
  void* plugin = dlopen(file, RTLD_NOW);
  if (plugin == NULL) return 1;
  void* (*allocate)(size_t) = (void* (*)(size_t))dlsym(plugin, "Allocate");
  void* blocks[100];
  for (int i = 0; i < 100; ++i) blocks[i] = allocate(400);
  dlclose(plugin);
  for (int i = 0; i < 60; ++i) free(blocks[i]);
  return dlopen(file, RTLD_NOW | RTLD_NOLOAD) != NULL;
}

#if CASE == PLAIN
static void OnStackOfItsOwn(int signal) {
  char line[16];
  (void)signal;
  if (write(1, "within\n", 7) != 7 || read(0, line, sizeof line) < 0) _exit(3);
}
static void OnStep(int signal, siginfo_t* info, void* context) {
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  (void)signal, (void)info;
  if (registers[REG_RIP] != (greg_t)(uintptr_t)malloc + 4) return;  // after push and mov
  registers[REG_EFL] &= ~0x100l;
  raise(SIGUSR1);
}
static void* WaitForEver(void* unused) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&mutex);
  while (1) pthread_cond_wait(&never, &mutex);
  return unused;
}
static int WorkWithin(void) {
  const stack_t stack = {.ss_size = 65536,
                         .ss_sp = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
  const struct sigaction other = {.sa_handler = OnStackOfItsOwn, .sa_flags = SA_ONSTACK};
  const struct sigaction step = {.sa_sigaction = OnStep, .sa_flags = SA_SIGINFO};
  sigaltstack(&stack, NULL);
  sigaction(SIGUSR1, &other, NULL);
  sigaction(SIGTRAP, &step, NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, WaitForEver, NULL);
  __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
  void* block = malloc(100);
  Use(block);
  free(block);
  return 0;
}
#endif

int main(int count, char** arguments) {
#if CASE == PLAIN
  if (count > 1 && strcmp(arguments[1], "within") == 0) return WorkWithin();
#endif
  char* mapped = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mapped[0] = 1;
#if CASE == CRATE
  madvise(mapped, 4096, MADV_DONTNEED);
#endif
#ifdef TAKES_ADDRESSES
  __asm__ volatile("" : : "r"(mmap), "r"(madvise));
#endif
  int wrong = Work();
  size_t times = 1;
  if (count > 1 && strcmp(arguments[1], "again") == 0) {
    char line[16];
    do {
      puts("worked");
      fflush(stdout);
      ssize_t got = read(0, line, sizeof line);
      if (got <= 0) break;
      wrong |= Work();
      ++times;
    } while (1);
  }
  if (count > 2 && strcmp(arguments[1], "plugin") == 0) wrong |= WorkInPlugin(arguments[2]);
  if (count > 1 && strcmp(arguments[1], "child") == 0) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      wrong |= Work();
      if (wrong == 0) execl("/proc/self/exe", arguments[0], (char*)NULL);
      _exit(1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    wrong |= status != 0;
  }
  const size_t more =
      CASE == THUNK || CASE == FOLDED || CASE == INLINED || CASE == COPIED || CASE == SHARED || CASE == CRATE ? 10
      : CASE == SIZED                                                                                         ? 30
                                                                                                              : 0;
  Expect("kept", 100 * times, 10000 * times, 100 * times, 10000 * times);
  Expect("passing", (100 + more) * times, (100 + more) * 200 * times, 0, 0);
#if CASE == TWO_RESULTS
  Expect("sized", 100, 30000, 50, 15000);
#endif
#if CASE == COPIES
  Expect("by_strdup", 100, 800, 25, 200);
  Expect("by_strndup", 100, 400, 25, 100);
  Expect("toy_realpath", 100, 30000, 25, 7500);
  Expect("by_realpath", 0, 0, 0, 0);
#endif
#if CASE == CRATE
  Expect("grown", 10, 4000, 0, 0);
#endif
#if CASE == SHORT_JUMPS
  Expect("by_memalign", 2000, 2000 * 500, 0, 0);
  Expect("by_valloc", 8000, 8000 * 500, 0, 0);
  Expect("by_aligned_alloc", 3333, 3333 * 500, 0, 0);
  Expect("by_reallocarray", 6667, 6667 * 500, 0, 0);
#endif
#if CASE == TINY
  Expect("by_new", 40, 40 * 300, 20, 20 * 300);
  Expect("by_array_new", 40, 40 * 300, 40, 40 * 300);
  Expect("by_memalign", 20, 20 * 300, 0, 0);
  Expect("by_pvalloc", 20, 20 * 300, 0, 0);
  Expect("by_valloc", 20, 20 * 300, 0, 0);
#endif
#if CASE == SHARED
  Expect("shared_helper", 20, 10 * 300 + 10 * 400, 0, 0);
#endif
  printf("wrong %d\n", wrong);
  return wrong;
}
