#include "interpose/entries/redirect.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include <initializer_list>

#include "interpose/arch/entry_slow.h"
#include "interpose/entries/code_patch.h"
#include "interpose/entries/entry_calls.h"
#include "interpose/entries/executable_file.h"
#include "interpose/entries/stub_writer.h"
#include "sampler/capture/added_code.h"
#include "sampler/capture/module_table.h"
#include "sampler/contract/dynamic_symbols.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/contract/module_flags.h"
#include "sampler/contract/syscalls.h"
#include "sampler/entries/entry_plan.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/hot_path/this_thread.h"
#include "sampler/process/process.h"
#include "sampler/record/allocator_waits.h"

namespace holdfast {
namespace {

constexpr size_t kStubBytes = 128 << 10;

// Large, so not on the stack.
struct Work {
  Elf64_Sym exported[kAllocatorNames];
  ExecutableImage image;
  EntryPlan plan;
  ExecutableFile file;
  Stub stubs[EntryPlan::kMaxSites];
  uintptr_t short_jumps[EntryPlan::kMaxShortJumps];
  EntryPatch patches[kMaxEntryPatches];
  CodePatches::Changed changed[CodePatches::kMax];
  struct Checked {
    uintptr_t start, end;
    int site;
  } checked[EntryPlan::kMaxSites + EntryPlan::kMaxShortJumps];
  uint8_t page[kStubBytes];
};

// ---- The executable in memory ----

bool DescribeImage(const link_map* map, ExecutableImage* image) {
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(getauxval(AT_PHDR));
  const size_t count = getauxval(AT_PHNUM);
  image->bias = map->l_addr;
  bool is_executable = false;
  for (size_t i = 0; segments != nullptr && i < count; ++i) {
    const uintptr_t start = image->bias + segments[i].p_vaddr;
    if (segments[i].p_type == PT_DYNAMIC) is_executable = start == reinterpret_cast<uintptr_t>(map->l_ld);
    if (segments[i].p_type == PT_GNU_EH_FRAME) image->unwind_table = start;
    if (segments[i].p_type != PT_LOAD || (segments[i].p_flags & PF_R) == 0 ||
        image->segment_count == ExecutableImage::kMaxSegments)
      continue;
    const bool is_code = (segments[i].p_flags & PF_X) != 0, is_writable = (segments[i].p_flags & PF_W) != 0;
    image->segments[image->segment_count++] = {start, start + segments[i].p_filesz, is_code, is_writable};
  }
  return is_executable;  // false: the dynamic linker was started as a program, and left us its own headers
}

// One more than the highest number of a symbol that the dynamic linker looks up for the executable.
size_t CountImports(const link_map* map) {
  struct {
    const Elf64_Rela* first = nullptr;
    size_t bytes = 0;
  } calls, others;
  for (const Elf64_Dyn* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    const auto address = [&] { return reinterpret_cast<const Elf64_Rela*>(AddressIn(*entry, map->l_ld, map->l_addr)); };
    if (entry->d_tag == DT_JMPREL) calls.first = address();
    if (entry->d_tag == DT_PLTRELSZ) calls.bytes = entry->d_un.d_val;
    if (entry->d_tag == DT_RELA) others.first = address();
    if (entry->d_tag == DT_RELASZ) others.bytes = entry->d_un.d_val;
  }
  size_t count = 0;
  for (const auto& table : {calls, others}) {
    for (size_t i = 0; table.first != nullptr && i < table.bytes / sizeof(Elf64_Rela); ++i) {
      const size_t symbol = ELF64_R_SYM(table.first[i].r_info);
      if (symbol >= count) count = symbol + 1;
    }
  }
  return count;
}

// An executable that exports nothing has a hash table without buckets in use. GNU ld then gives 1 for the number of its first
// symbol, whatever the number of imports is.
SymbolList DynamicList(const DynamicSymbols& symbols, const link_map* map) {
  SymbolList list;
  if (symbols.symbols == nullptr || symbols.names == nullptr) return list;
  list.symbols = symbols.symbols;
  list.names = symbols.names;
  list.name_bytes = SIZE_MAX;
  if (symbols.hash != nullptr) {
    const uint32_t buckets = symbols.hash[0], first = symbols.hash[1], words = symbols.hash[2];
    const uint32_t* bucket = symbols.hash + 4 + 2 * size_t{words};
    const uint32_t* chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; ++i) last = bucket[i] > last ? bucket[i] : last;
    list.count = first;
    if (last >= first) {
      while ((chain[last - first] & 1) == 0) ++last;
      list.count = size_t{last} + 1;
    } else if (first <= 1) {
      list.count = CountImports(map);
    }
  } else if (symbols.old_hash != nullptr) {
    list.count = symbols.old_hash[1];
  }
  return list;
}

// Copies those that have an allocator's names: a look at 100,000 names (-rdynamic) would take some ms.
SymbolList ExportedBy(const DynamicSymbols& symbols, Elf64_Sym (&found)[kAllocatorNames]) {
  SymbolList list;
  for (const NamedCall& call : kNamedCalls) {
    if (const Elf64_Sym* symbol = FindSymbol(symbols, call.text, IsDefinition)) found[list.count++] = *symbol;
  }
  list.symbols = found;
  list.names = symbols.names;
  list.name_bytes = SIZE_MAX;
  return list;
}

// ---- Threads ----

bool HasOneThread() {
  char text[1024];
  if (ReadSmallFile("/proc/self/stat", text, sizeof text) <= 0) return false;
  // The name in parentheses may contain anything; field 20 is the number of threads.
  const char* at = strrchr(text, ')');
  for (int field = 2; at != nullptr && field < 20; ++field) {
    at = strchr(at, ' ');
    if (at != nullptr) ++at;
  }
  return at != nullptr && at[0] == '1' && at[1] == ' ';
}

// Whether the processor compares each return with the call before it.
bool HasShadowStack() {
  uint64_t pointer = 0;
  __asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0x1e, 0xc8" : "+a"(pointer));  // rdsspq %rax: nothing happens without one
  return pointer != 0;
}

// ---- The filter ----

// Stubs name the counters by an address of 4 bytes. A sample of a mapping may have made them elsewhere already: they
// move, if there is one thread.
bool MakeLowFilter(bool has_threads, uint32_t* address) {
  uint8_t* const before = sampled_filter.counters.load(std::memory_order_relaxed);
  const auto at = reinterpret_cast<uintptr_t>(before);
  if (before != nullptr && at + kFilterBytes <= INT32_MAX) {
    *address = static_cast<uint32_t>(at);
    return true;
  }
  if (before != nullptr && has_threads) return false;
  constexpr int kPrivateAnonymous32BitNoReserve = 0x4062;
  const long made = RawSyscall(SYS_mmap, 0, kFilterBytes, PROT_NONE, kPrivateAnonymous32BitNoReserve, -1, 0);
  if (SyscallFailed(made)) return false;
  auto* counters = reinterpret_cast<uint8_t*>(made);
  constexpr int kMayMoveFixed = 3;
  RawSyscall(SYS_munlock, made, kFilterBytes);
  const bool is_low = made + static_cast<long>(kFilterBytes) <= INT32_MAX;
  if (!is_low || SyscallFailed(before == nullptr
                                   ? RawSyscall(SYS_mprotect, made, kFilterBytes, PROT_READ | PROT_WRITE)
                                   : RawSyscall(SYS_mremap, before, kFilterBytes, kFilterBytes, kMayMoveFixed, made))) {
    RawSyscall(SYS_munmap, made, kFilterBytes);
    return false;
  }
  if (before == nullptr) MarkAlwaysAsk(counters);
  const bool is_sure = before == nullptr || sampled_filter.sure.load() != nullptr;
  sampled_filter.counters.store(counters);
  sampled_filter.sure.store(is_sure ? counters : nullptr);
  *address = static_cast<uint32_t>(made);
  return true;
}

// ---- All of it ----

// Makes the stubs, to which nothing leads yet. `page` is where they are.
EntryReason MakeStubs(Work* work, bool has_threads, uintptr_t* page) {
  EntryPlan& plan = work->plan;
  StubSettings settings;
  uintptr_t low = UINTPTR_MAX, high = 0;
  for (int i = 0; i < work->image.segment_count; ++i) {
    const ExecutableImage::Segment& segment = work->image.segments[i];
    if (segment.start < low) low = segment.start;
    if (segment.end > high) high = segment.end;
  }
  *page = ReserveNear(low, high, kStubBytes);
  if (*page == 0) return EntryReason::kNoRoom;
  if (!MakeLowFilter(has_threads, &settings.filter)) {
    ReleaseNear(*page, kStubBytes);
    return EntryReason::kNoRoom;
  }
  settings.countdown = static_cast<int32_t>(OffsetOfCountdown());
  settings.slow_path = reinterpret_cast<uintptr_t>(HoldfastEntrySlow);
  settings.asks_always = process.options.heap_interval == 1;
  const WrittenStubs stubs =
      WriteStubs(plan, settings, work->page, sizeof work->page, *page, work->stubs, work->short_jumps);
  if (stubs.bytes == 0) {
    ReleaseNear(*page, kStubBytes);
    return EntryReason::kTooFar;
  }
  for (int i = 0; i < plan.site_count; ++i) redirected_entries[i] = {work->stubs[i].trampoline, plan.sites[i].shape()};
  ChooseEntrySave();
  CodePatches writer(work->changed);
  if (writer.WriteNew(*page, work->page, stubs.bytes)) {
    SetAddedCode(*page, stubs.code_bytes, reinterpret_cast<const AddedPiece*>(*page + stubs.code_bytes),
                 stubs.piece_count);
    return EntryReason::kRedirected;
  }
  ReleaseNear(*page, kStubBytes);
  return EntryReason::kNotWritable;
}

// Nothing leads there, or no longer.
void ReleaseStubs(uintptr_t page) {
  SetAddedCode(0, 0, nullptr, 0);
  ReleaseNear(page, kStubBytes);
}

// Functions that free come before those that allocate, as in attached_imports.h.
int TurnOf(Effect effect) {
  switch (effect) {
    case Effect::kAllocates:
    case Effect::kAllocatesInto:
    case Effect::kCopies:
    case Effect::kCopiesPath:
      return 2;
    case Effect::kReallocates:
    case Effect::kReallocatesOrFrees:
    case Effect::kResizes:
      return 1;
    default:
      return 0;
  }
}

// Lists the changes that lead to the stubs. False: a distance is too large.
bool ListPatches(const Work& work, EntryPatch* patches, uint32_t* count) {
  const EntryPlan& plan = work.plan;
  *count = 0;
  const auto add = [&](uintptr_t at, const uint8_t* now, uint8_t bytes, uint8_t moved) {
    EntryPatch& patch = patches[(*count)++];
    patch.address = at, patch.count = bytes, patch.moved = moved;
    memcpy(patch.was, reinterpret_cast<const void*>(at), bytes);
    memcpy(patch.now, now, bytes);
  };
  for (int i = 0; i < plan.call_count; ++i) {
    const uintptr_t at = plan.calls[i].distance_at;
    const auto distance = static_cast<int64_t>(work.stubs[plan.calls[i].to].trampoline - (at + 4));
    const auto word = static_cast<int32_t>(distance);
    if (word != distance) return false;
    uint8_t bytes[sizeof word];
    memcpy(bytes, &word, sizeof word);
    add(at, bytes, sizeof word, 0);
  }
  const auto add_jump = [&add](uintptr_t at, uintptr_t to, uint8_t moved) {
    const auto distance = static_cast<int32_t>(to - (at + 5));
    uint8_t jump[5] = {0xe9};
    memcpy(jump + 1, &distance, sizeof distance);
    add(at, jump, sizeof jump, moved);
  };
  for (int i = 0; i < plan.short_jump_count; ++i) {
    const CodeRange& range = plan.short_jumps[i].range;
    add_jump(range.start, work.short_jumps[i], static_cast<uint8_t>(range.end - range.start));
  }
  for (int turn = 0; turn <= 2; ++turn) {
    for (int i = 0; i < plan.site_count; ++i) {
      if (plan.IsChanged(i) && TurnOf(plan.sites[i].shape().effect) == turn)
        add_jump(plan.sites[i].jump, work.stubs[i].hot, plan.sites[i].moved);
    }
  }
  return true;
}
static_assert(EntryPlan::kMaxCalls + EntryPlan::kMaxShortJumps + EntryPlan::kMaxSites <= kMaxEntryPatches);

// There is one thread, so the changes of a page are made together.
bool WritePages(EntryPatch* patches, uint32_t count, CodePatches* writer) {
  for (uint32_t i = 1; i < count; ++i) {
    const EntryPatch one = patches[i];
    uint32_t at = i;
    for (; at > 0 && patches[at - 1].address > one.address; --at) patches[at] = patches[at - 1];
    patches[at] = one;
  }
  for (uint32_t first = 0, next = 0; first < count; first = next) {
    const uintptr_t start = patches[first].address;
    uint8_t bytes[kPageBytes];
    size_t used = 0;
    for (; next < count && patches[next].address + patches[next].count - start <= sizeof bytes; ++next) {
      const EntryPatch& patch = patches[next];
      const size_t at = patch.address - start;
      if (!writer->Remember(patch.address, patch.count)) return false;
      if (at > used) memcpy(bytes + used, reinterpret_cast<const void*>(start + used), at - used);
      memcpy(bytes + at, patch.now, patch.count);
      if (at + patch.count > used) used = at + patch.count;
    }
    if (writer->WriteTogether(start, bytes, used)) continue;
    for (uint32_t i = first; i < next; ++i) {
      if (!writer->WriteRemembered(patches[i].address, patches[i].now, patches[i].count)) return false;
    }
  }
  return true;
}

EntryReason WriteAll(Work* work) {
  uintptr_t page = 0;
  if (const EntryReason made = MakeStubs(work, false, &page); made != EntryReason::kRedirected) return made;
  uint32_t count = 0;
  bool written = ListPatches(*work, work->patches, &count);
  CodePatches writer(work->changed);
  written = written && WritePages(work->patches, count, &writer);
  if (written) return EntryReason::kRedirected;
  // A jump that remains leads to its stub.
  if (writer.Undo()) ReleaseStubs(page);
  return EntryReason::kNotWritable;
}

// The first site with other bytes in memory than in the file; −1: none. A breakpoint or another tool's jump would be moved,
// and run twice or never.
int FirstChanged(Work* work) {
  const EntryPlan& plan = work->plan;
  Work::Checked* const all = work->checked;
  int count = 0;
  const auto add = [&](uintptr_t start, uintptr_t end, int site) {
    int at = count++;
    for (; at > 0 && all[at - 1].start > start; --at) all[at] = all[at - 1];
    all[at] = {start, end, site};
  };
  for (int i = 0; i < plan.site_count; ++i) {
    const EntrySite& site = plan.sites[i];
    if (!site.left_alone) add(site.address, site.jump + site.moved, i);
  }
  for (int i = 0; i < plan.short_jump_count; ++i)
    add(plan.short_jumps[i].range.start, plan.short_jumps[i].range.end, plan.short_jumps[i].from);
  for (int i = 0; i < count; ++i) {
    const Work::Checked& one = all[i];
    if (!work->file.HasCode(one.start - work->image.bias, reinterpret_cast<const uint8_t*>(one.start),
                            one.end - one.start))
      return one.site;
  }
  return -1;
}

// `write`: makes the changes.
template <typename Write>
void Redirect(Work* work, bool has_threads, Write write) {
  EntryPlan& plan = work->plan;
  const link_map* map = FirstObject();
  const DynamicSymbols symbols = SymbolsAt(map->l_ld, map->l_addr);
  if (!DescribeImage(map, &work->image)) return;
  work->image.exported = ExportedBy(symbols, work->exported);
  const bool plain = DefinesPlainNames(work->image.exported);
  const Entries wanted = process.options.entries;
  if (wanted == Entries::kNo) return MakeEntryPlan(work->image, wanted, &plan);
  const bool opened = work->file.Open(reinterpret_cast<const Elf64_Phdr*>(getauxval(AT_PHDR)), getauxval(AT_PHNUM),
                                      work->image.segments[0].start);
  // Without its file, or if that has become shorter, not all of its memory may be there.
  if (!opened) {
    if (plain) plan.outcome = {EntryReason::kNoFile, 0, 0};
    return;
  }
  const bool has_symbols = work->file.ReadSymbols(plain, wanted, &work->image.all);
  if (has_symbols && !plain && !MayNameAllocator(work->image.all.names, work->image.all.name_bytes)) return;
  work->file.FindRestartable(&work->image);
  work->image.dynamic = DynamicList(symbols, map);
  MakeEntryPlan(work->image, wanted, &plan);
  // Its code cannot be read.
  if (plain && !plan.outcome.has_allocator()) plan.outcome = {EntryReason::kUnknownCode, kName_malloc + 1, 1};
  if (!plan.outcome.is_redirected()) return;
  const auto refuse = [&plan](EntryReason reason, int site) {
    plan.outcome = {reason, site < 0 ? 0 : static_cast<uint32_t>(plan.sites[site].name) + 1, plan.outcome.count};
  };
  // An interval of 0 may be changed later (holdfast set).
  if ((process.options.profiles & KindBit(ProfileKind::kHeap)) == 0) return refuse(EntryReason::kHeapIsOff, -1);
  if (const int changed = FirstChanged(work); changed >= 0) return refuse(EntryReason::kChanged, changed);
  for (int i = 0; i < plan.site_count; ++i) {
    if (plan.sites[i].moves_call && HasShadowStack()) return refuse(EntryReason::kCalls, i);
  }
  if (const int crosses = has_threads ? FirstAcrossPages(plan) : -1; crosses >= 0)
    return refuse(EntryReason::kCrossesPage, crosses);
  const EntryReason redirected = plan.outcome.reason, written = write(work);
  plan.outcome.reason = written == EntryReason::kRedirected ? redirected : written;
  if (plan.outcome.is_redirected()) SetAllocatorCode(plan.ranges, plan.range_count);
}

// `write` gets the Work when nothing else speaks against the changes. Nothing changes if the result is not redirected.
template <typename Write>
EntryOutcome RedirectBy(bool has_threads, Write write) {
  if (!process.recording.load(std::memory_order_relaxed) || no_system_calls.load(std::memory_order_relaxed)) return {};
  // Most executables have no allocator: a look at their imports.
  const link_map* map = FirstObject();
  if (map == nullptr) return {};
  const DynamicSymbols symbols = SymbolsAt(map->l_ld, map->l_addr);
  // Those that are not hashed. Without position-independent code, functions are hashed if their address is taken.
  SymbolList imported;
  imported.symbols = symbols.symbols, imported.names = symbols.names, imported.name_bytes = SIZE_MAX;
  if (symbols.hash != nullptr) imported.count = symbols.hash[1] > 1 ? symbols.hash[1] : DynamicList(symbols, map).count;
  const bool plain = FindSymbol(symbols, "malloc", IsDefinition) != nullptr;
  const auto imports_hashed = [&symbols](const char* name) { return FindSymbol(symbols, name, IsImport) != nullptr; };
  if (!plain && !MayHaveOwnAllocator(imported, imports_hashed)) return {};
  const auto imports = [&imported, imports_hashed](const char* name) {
    if (imports_hashed(name)) return true;
    for (size_t i = 0; i < imported.count; ++i) {
      const Elf64_Sym& symbol = imported.symbols[i];
      if (symbol.st_shndx == SHN_UNDEF && strcmp(imported.NameOf(symbol), name) == 0) return true;
    }
    return false;
  };
  const bool may_pass_on = plain && MayPassCallsOn(imports);
  if (may_pass_on && process.options.entries != Entries::kYes) return {EntryReason::kMayPassOn, kName_malloc + 1, 1};
  auto* work = static_cast<Work*>(MapAnonymous(sizeof(Work)));
  if (work == nullptr) return {};
  if (ImportsSpeakForAllocator(imports)) work->file.ExpectAllocator();
  Redirect(work, has_threads, write);
  EntryOutcome outcome = work->plan.outcome;
  outcome.replaces_malloc = plain && !may_pass_on;
  work->file.Close();
  RawSyscall(SYS_munmap, work, sizeof(Work));
  // The short path of exact.h has samples that only the shadow map knows: stubs look at the filter.
  if (outcome.is_redirected()) other_allocators.fetch_or(kOtherEntries);
  if (outcome.is_redirected() && process.options.heap_interval != 1) process.samples_need_counters = true;
  return outcome;
}

void NoteOutcome(const EntryOutcome& outcome) {
  uint32_t flags = outcome.has_allocator() ? ToModuleFlags(outcome) : 0;
  if (process.options.entries == Entries::kYes) flags |= kModuleWasSearched;
  if (flags != 0) SetExecutableFlags(flags);
}

// ---- A library that was loaded late ----

constinit EntryPatch* prepared = nullptr;
constinit uint32_t prepared_count = 0;
constinit EntryOutcome prepared_outcome{};

EntryReason Prepare(Work* work) {
  auto* list = static_cast<EntryPatch*>(MapAnonymous(sizeof work->patches));
  if (list == nullptr) return EntryReason::kNoRoom;
  uintptr_t page = 0;
  EntryReason made = MakeStubs(work, true, &page);
  uint32_t count = 0;
  if (made == EntryReason::kRedirected && !ListPatches(*work, list, &count)) {
    ReleaseStubs(page);
    made = EntryReason::kTooFar;
  }
  if (made != EntryReason::kRedirected) {
    RawSyscall(SYS_munmap, list, sizeof work->patches);
    return made;
  }
  prepared = list, prepared_count = count;
  return made;
}

bool Have(const EntryPatches& patches, const uint8_t (EntryPatch::*bytes)[5]) {
  for (uint32_t i = 0; i < patches.count; ++i) {
    const EntryPatch& patch = patches.list[i];
    if (memcmp(reinterpret_cast<const void*>(patch.address), patch.*bytes, patch.count) != 0) return false;
  }
  return true;
}

}  // namespace

void RedirectEntries(void (*before)()) {
  const EntryOutcome outcome = RedirectBy(false, [before](Work* work) {
    before();
    if (!HasOneThread()) return EntryReason::kThreads;
    const SignalsBlocked blocked;
    return WriteAll(work);
  });
  NoteOutcome(outcome);
}

bool PrepareEntryPatches(EntryPatches* patches, EntryOutcome* outcome) {
  if (prepared == nullptr) prepared_outcome = RedirectBy(true, Prepare);
  *patches = {prepared, prepared_count};
  *outcome = prepared_outcome;
  const link_map* map = FirstObject();
  const bool is_wanted = outcome->reason != EntryReason::kSwitchedOff && outcome->reason != EntryReason::kHeapIsOff;
  return prepared != nullptr || !outcome->has_allocator() || !is_wanted ||
         FindSymbol(SymbolsAt(map->l_ld, map->l_addr), "malloc", IsDefinition) == nullptr;
}

bool AreAllWritten(const EntryPatches& patches) { return Have(patches, &EntryPatch::now); }
bool AreAllUndone(const EntryPatches& patches) { return Have(patches, &EntryPatch::was); }
void NoteEntryOutcome() { NoteOutcome(prepared_outcome); }

}  // namespace holdfast
