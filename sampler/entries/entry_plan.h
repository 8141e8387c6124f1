// Finds the functions of an allocator that is linked into an executable, and decides for each whether a jump may be
// written into it. The jump replaces the instructions after the first one:
//
//     malloc:  push %rbx              stays, for whoever sets a breakpoint or a uprobe there
//              jmp  stub              was: mov %rdi,%rbx; test %rdi,%rdi; …
//     back:    …
//     stub:    charge the size to the thread; if its countdown has run out, go to the slow path
//              mov %rdi,%rbx; test %rdi,%rdi; jmp back
//
// All or nothing: one function that may not be changed refuses them all, because blocks that are freed unseen would
// seem to live for ever.
//
// The code is x86-64's, also if the tool runs on another processor.
//
// Reads the executable's memory, or a copy of its segments (the tool: `holdfast doctor`). Everything read is checked
// against the segments. No allocation, no system call; one thread.
#ifndef HOLDFAST_SAMPLER_ENTRIES_ENTRY_PLAN_H_
#define HOLDFAST_SAMPLER_ENTRIES_ENTRY_PLAN_H_

#include <elf.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

#include "sampler/contract/code_range.h"
#include "sampler/contract/entry_state.h"
#include "sampler/entries/call_shape.h"
#include "sampler/entries/instruction.h"

namespace holdfast {

struct SymbolList {
  const Elf64_Sym* symbols = nullptr;
  size_t count = 0;
  const char* names = nullptr;
  size_t name_bytes = 0;
  bool is_separate = false;  // of a debug file, with the build id
  bool is_partial = false;   // only global ones that may be an allocator's (allocator_symbols.h)

  // "" if the symbol has no name within the bounds, which end with a zero.
  const char* NameOf(const Elf64_Sym& symbol) const {
    return symbol.st_name < name_bytes ? names + symbol.st_name : "";
  }
};

// The executable: all of it is at its addresses plus `bias`.
struct ExecutableImage {
  static constexpr int kMaxSegments = 24;
  struct Segment {
    uintptr_t start, end;
    bool is_code, is_writable;
  };
  uintptr_t bias = 0;
  Segment segments[kMaxSegments];
  int segment_count = 0;
  uintptr_t unwind_table = 0;  // .eh_frame_hdr; 0: none
  SymbolList dynamic;          // .dynsym
  SymbolList exported;         // those definitions in it that have an allocator's names
  SymbolList all;              // .symtab, of the file or its debug file
  // Addresses that a thread which is interrupted there leaves for another one (rseq).
  struct Restartable {
    uintptr_t start, end, abort;
  };
  static constexpr int kMaxRestartable = 256;
  Restartable restartable[kMaxRestartable];
  int restartable_count = 0;

  const Segment* CodeAt(uintptr_t address) const;
};

struct EntrySite {
  uintptr_t address = 0;
  size_t bytes = 0;
  int name = 0;  // AllocatorName
  bool is_exported = false;
  bool left_alone = false;  // it only leads to another entry, which counts the call, or does nothing
  uintptr_t first = 0;      // the first instruction, after endbr64
  uint8_t first_bytes = 0;
  FirstInstruction kept;
  bool moves_call = false;  // its last moved instruction is a call; not where the kernel checks returns (shadow stacks)
  bool runs_again = false;  // the first instruction is undone before the hook, or its flags are needed after the stub
  int spare = -1;           // a general register that the function overwrites anyway; −1: not known
  bool is_short_jump = false;     // it begins with a jump of 2 bytes, which stay; 3 bytes of padding change
  uintptr_t jump = 0;             // where the jump goes
  bool holds_short_jump = false;  // to another entry, among the moved instructions
  uint8_t moved = 0;              // bytes of the instructions that it replaces

  const CallShape& shape() const { return kNamedCalls[name].shape; }
};

// A call or jump from the allocator's own code to an entry. It will lead to that entry's trampoline instead, so that
// one call of the program is counted once.
struct InnerCall {
  uintptr_t distance_at = 0;  // of the displacement
  int to = 0;                 // number of the site
};

// The same for a jump of 2 bytes, which reaches no trampoline: a near jump replaces it and the instructions before it, and
// leads to a copy of them that jumps to the trampoline.
struct ShortJump {
  CodeRange range;  // of the instructions that move
  int from = 0;     // number of the site that it is a part of
};

struct EntryPlan {
  static constexpr int kMaxSites = 192, kMaxCalls = 512, kMaxRanges = 768, kMaxRead = 512, kMaxBranches = 8192;
  static constexpr int kMaxShortJumps = 64;
  static constexpr uintptr_t kMaxMoved = 64;  // bytes from an entry's start to the end of what moves
  EntryOutcome outcome;
  EntrySite sites[kMaxSites];
  int site_count = 0;
  InnerCall calls[kMaxCalls];
  int call_count = 0;
  ShortJump short_jumps[kMaxShortJumps];
  int short_jump_count = 0;
  bool is_listed = false;  // an allocator that the tests cover
  // The entries, and what they jump to: a call of the allocator returns to one of these. Sorted.
  CodeRange ranges[kMaxRanges];
  int range_count = 0;
  // For the planner: the branches of code that several entries lead to, so that each is decoded once.
  struct Branch {
    uint32_t at;  // from the image's bias
    uint8_t length;
    Instruction::Flow flow;
    int8_t target_at, target_bytes;
  };
  struct ReadCode {
    CodeRange range;
    int first_branch, branch_count;
    uint32_t overwritten;
    int16_t next;  // 1 + number of an earlier one in the same list; 0: none
    bool whole, has_table;
  };
  static constexpr int kReadLists = 256;
  int16_t newest_read[kReadLists];
  Branch branches[kMaxBranches];
  ReadCode read[kMaxRead];
  int branch_count = 0, read_count = 0;

  int SiteAt(uintptr_t address) const;  // −1: none begins there
  // The same for a site that is to be changed, also after its endbr64. Its trampoline begins there.
  int ChangedSiteAt(uintptr_t address) const;
  // Whether the site is to be changed.
  bool IsChanged(int site) const { return !sites[site].left_alone; }
};

// Whether the list has malloc and free of the executable's own.
bool DefinesPlainNames(const SymbolList& symbols);
// Whether a malloc of the executable may pass its calls on to the next one, where they are seen: it can find that one, and
// gets no memory from the kernel. But it may have a static pool, and call dlsym for something else: nobody can tell.
// `imports` tells whether the executable imports a function.
template <typename Imports>
bool MayPassCallsOn(Imports imports) {
  return (imports("dlsym") || imports("__libc_malloc")) && !imports("mmap") && !imports("mmap64") && !imports("sbrk") &&
         !imports("brk") && !imports("syscall");
}
// Whether the executable also calls what few programs call but jemalloc, mimalloc or google's tcmalloc.
template <typename Imports>
bool ImportsSpeakForAllocator(Imports imports) {
  return imports("pthread_mutex_trylock") || (imports("getrusage") && imports("prctl")) || imports("mincore");
}
// What every allocator calls to get its memory, one of these, and to give it back. gperftools' tcmalloc defines mmap itself.
inline constexpr char kGetMemory[][8] = {"mmap", "mmap64", "syscall", "sbrk"};
inline constexpr char kGivesMemoryBack[] = "madvise";
// Whether the executable calls these, so that an allocator under other names may be in it. `also` tells of other imports than
// those in the list.
template <typename Imports>
bool MayHaveOwnAllocator(const SymbolList& list, Imports also) {
  bool maps = false, advises = also(kGivesMemoryBack);
  for (const auto& call : kGetMemory) maps = maps || also(call);
  for (size_t i = 0; i < list.count && !(maps && advises); ++i) {
    if (list.symbols[i].st_shndx != SHN_UNDEF) continue;
    const char* name = list.NameOf(list.symbols[i]);
    for (const auto& call : kGetMemory) maps = maps || strcmp(name, call) == 0;
    advises = advises || strcmp(name, kGivesMemoryBack) == 0;
  }
  return maps && advises;
}
// What is read of .symtab: beside plain names, which .dynsym has too, all of it or nothing: 5 MiB take 1 ms of the 2 ms that
// such a program may start later (2026-11, on a busy machine). Without them, as most executables have no allocator, only the
// global ones that may be an allocator's if there are many (allocator_symbols.h).
enum class SymbolReading { kNone, kGlobal, kAll };
inline constexpr size_t kMaxBytesBesidePlain = 5 << 20, kMaxSymbolTableBytes = 1 << 20;
inline constexpr SymbolReading HowToReadSymbols(size_t symbol_bytes, size_t name_bytes, bool has_plain_names,
                                                Entries wanted) {
  const size_t bytes = symbol_bytes + name_bytes;
  if (has_plain_names) return bytes <= kMaxBytesBesidePlain ? SymbolReading::kAll : SymbolReading::kNone;
  return wanted == Entries::kYes || bytes <= kMaxSymbolTableBytes ? SymbolReading::kAll : SymbolReading::kGlobal;
}
// Whether a symbol is a function, or may be one.
inline bool IsDefinedFunction(const Elf64_Sym& symbol) {
  const int type = ELF64_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_NOTYPE || type == STT_GNU_IFUNC);
}
// Whether a function with this name is a part of one of the allocators that the tests cover.
bool IsOfAllocator(const char* name);
// The allocator that writes a message in this text: "jemalloc", "mimalloc", "snmalloc" or "tcmalloc"; null: none.
const char* AllocatorByMessage(const char* text, size_t bytes);
// Whether a name may be an allocator's function, a compiler's copy of one, or reveals an allocator.
bool ConcernsAllocator(const char* name);
// Whether a table of names has one that begins an allocator's family: a quick look at the bytes.
bool MayNameAllocator(const char* names, size_t bytes);

// The first site that has a change across the end of a page; −1: none. A tracer that is killed would leave half of it, so it
// is only made before the program begins.
int FirstAcrossPages(const EntryPlan& plan);

// Fills in the plan. outcome.reason is kRedirected if everything may be done, and it remains to be done.
void MakeEntryPlan(const ExecutableImage& image, Entries wanted, EntryPlan* plan);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_ENTRIES_ENTRY_PLAN_H_
