#include "sampler/entries/entry_plan.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "sampler/contract/attributes.h"

namespace holdfast {
namespace {

using Flow = Instruction::Flow;

constexpr size_t kJumpBytes = 5;
constexpr uintptr_t kShortReach = 128;
// Text up to this size is searched for branches as a whole: at about 2 GB/s, some 2 ms.
constexpr uintptr_t kSearchedBytes = 4 << 20;
constexpr int kMaxVisited = 64;
constexpr uintptr_t kLargestVisited = 16 << 10;
// Limits for the parts of one entry, such as its cold code.
constexpr int kMaxParts = 128;
constexpr uintptr_t kLargestParts = 128 << 10;

// ---- Names ----

// Finds names by their hash: a jemalloc has a thousand functions that begin with "je_".
constexpr uint32_t HashOfName(const char* name) {
  uint32_t hash = 0;
  for (; *name != '\0'; ++name) hash = hash * 31 + static_cast<uint8_t>(*name);
  return hash ^ hash >> 15;
}
struct NameTable {
  static constexpr uint32_t kSlots = 1024;
  static_assert(kAllocatorNames < 511);  // EntryOutcome::name has 9 bits
  int16_t slots[kSlots] = {};            // 0: empty; otherwise 1 + number
  constexpr NameTable() {
    for (int i = 0; i < kAllocatorNames; ++i) {
      uint32_t at = HashOfName(kNamedCalls[i].text) % kSlots;
      while (slots[at] != 0) at = (at + 1) % kSlots;
      slots[at] = static_cast<int16_t>(i + 1);
    }
  }
};
constexpr NameTable kNameTable;

int NumberOf(const char* name) {
  for (uint32_t at = HashOfName(name) % NameTable::kSlots; kNameTable.slots[at] != 0;
       at = (at + 1) % NameTable::kSlots) {
    const int number = kNameTable.slots[at] - 1;
    if (strcmp(kNamedCalls[number].text, name) == 0) return number;
  }
  return -1;
}

bool StartsWith(const char* text, const char* start) { return strncmp(text, start, strlen(start)) == 0; }

// Arrays of characters, not pointers: the dynamic linker would have to relocate each pointer in every program.
constexpr struct {
  char text[20];
  int family;
} kPrivatePrefixes[] = {{"je_", 0}, {"_rjem_", 1},           {"mi_", 2},   {"tc_", 3},
                        {"sn_", 4}, {"TCMallocInternal", 5}, {"Bridge", 5}};
// Beyond these, the plain names.
constexpr int kPlainFamily = 6;
// Not je_malloc, tc_malloc, mi_malloc and sn_malloc: a program may have functions of these names, of any signature. Real
// ones have messages (FindMessage).
constexpr char kRevealing[][40] = {"mallctl",
                                   "je_mallctl",
                                   "_rjem_mallctl",
                                   "mallocx",
                                   "je_mallocx",
                                   "_rjem_mallocx",
                                   "_rjem_malloc",
                                   "jemalloc_stats_internal",
                                   "moz_arena_malloc",
                                   "MallocExtension_ReleaseFreeMemory",
                                   "TCMallocInternalMalloc",
                                   "mi_version",
                                   "sn_rust_alloc"};
constexpr char kRevealingScopes[][20] = {"_ZN8snmalloc", "_ZNK8snmalloc", "_ZN8tcmalloc"};

// What a name may be, by its first three characters: most symbols are nothing.
struct NameFilter {
  static constexpr uint8_t kMayBeCall = 1, kMayReveal = 2;
  static constexpr uint32_t kSlots = 1024;
  uint8_t slots[kSlots] = {};
  constexpr NameFilter() {
    for (const NamedCall& call : kNamedCalls) slots[SlotOf(call.text)] |= kMayBeCall;
    for (const auto& name : kRevealing) slots[SlotOf(name)] |= kMayReveal;
    for (const auto& scope : kRevealingScopes) slots[SlotOf(scope)] |= kMayReveal;
  }
  static constexpr uint32_t SlotOf(const char* name) {
    uint32_t hash = 0;
    for (int i = 0; i < 3 && name[i] != '\0'; ++i) hash = hash * 61 + static_cast<uint8_t>(name[i]);
    return hash % kSlots;
  }
};
constexpr NameFilter kNameFilter;

int FamilyOf(int name) {
  for (const auto& prefix : kPrivatePrefixes) {
    if (StartsWith(kNamedCalls[name].text, prefix.text)) return prefix.family;
  }
  return kPlainFamily;
}

// Names under which an allocator lives beside malloc; nobody else has them.
bool IsPrivateName(int name) { return FamilyOf(name) != kPlainFamily; }

// The function that this name is a copy of ("free.part.0"), which a compiler makes for some of its callers. −1: none. A
// part that is only jumped to ("free.cold") is no copy.
int NumberOfOriginal(const char* name) {
  static constexpr char kCopies[][16] = {".part.", ".constprop.", ".isra.", ".specialized."};
  const char* dot = strchr(name, '.');
  if (dot == nullptr || strstr(dot, ".cold") != nullptr) return -1;
  bool is_copy = false;
  for (const auto& copy : kCopies) is_copy = is_copy || StartsWith(dot, copy);
  char original[sizeof kNamedCalls->text];
  const auto length = static_cast<size_t>(dot - name);
  if (!is_copy || length >= sizeof original) return -1;
  memcpy(original, name, length);
  original[length] = '\0';
  return NumberOf(original);
}

// Functions that reveal which allocator it is.
bool RevealsListedAllocator(const char* name) {
  if (name[0] == '_' && name[1] == 'Z') {  // most names of a C++ program
    if (name[3] != '8' && name[3] != 'K') return false;
    for (const auto& scope : kRevealingScopes) {
      if (StartsWith(name, scope)) return true;
    }
    return false;
  }
  for (const auto& known : kRevealing) {
    if (name[0] == known[0] && name[1] == known[1] && strcmp(name, known) == 0) return true;
  }
  return false;
}

// Calls found(offset) for each "lloc" in the bytes, until it returns true. Names and messages of allocators have it.
template <typename Found>
bool AnyAlloc(const char* text, size_t bytes, Found found) {
  size_t at = 0;
#if defined(__SSE2__)
  const __m128i l = _mm_set1_epi8('l'), o = _mm_set1_epi8('o'), c = _mm_set1_epi8('c');
  for (; at + 20 <= bytes; at += 16) {
    const auto load = [text, at](size_t more) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + at + more));
    };
    const __m128i same = _mm_and_si128(_mm_and_si128(_mm_cmpeq_epi8(load(0), l), _mm_cmpeq_epi8(load(1), l)),
                                       _mm_and_si128(_mm_cmpeq_epi8(load(2), o), _mm_cmpeq_epi8(load(3), c)));
    for (int mask = _mm_movemask_epi8(same); mask != 0; mask &= mask - 1) {
      if (found(at + static_cast<size_t>(__builtin_ctz(static_cast<unsigned>(mask))))) return true;
    }
  }
#endif
  for (; at + 4 <= bytes; ++at) {
    if (memcmp(text + at, "lloc", 4) == 0 && found(at)) return true;
  }
  return false;
}

// Messages of listed allocators, as they are in stripped files: the parts before and after "lloc". In two parts, so that
// they are not in our own files.
struct Message {
  char before[12], after[20];
};
constexpr Message kMessages[] = {{"<jema", ">: "}, {"mima", ": "}, {"tcma", ": large alloc "}, {"ise snma", "."}};
constexpr char kAllocators[][12] = {"jemalloc", "mimalloc", "tcmalloc", "snmalloc"};
// For each, a function beside malloc's that programs call. Only a C++ library that is shared refers to operator new.
constexpr char kOtherFunctions[][16] = {"mallocx", "mi_heap_malloc", "_Znwm", "_Znwm"};
constexpr int kTcmalloc = 2;
// Of tcmalloc's account of its memory.
constexpr Message kAccount = {"central", " cache freelist"};

bool IsAt(const char* text, size_t bytes, size_t at, const char* part) {
  const size_t length = strlen(part);
  return at <= bytes && length <= bytes - at && memcmp(text + at, part, length) == 0;
}

bool HasAccount(const char* text, size_t bytes) {
  const size_t length = strlen(kAccount.after), before = strlen(kAccount.before);
  const char* at = text;
  while ((at = static_cast<const char*>(memmem(at, bytes - static_cast<size_t>(at - text), kAccount.after, length)))) {
    const auto offset = static_cast<size_t>(at - text);
    if (offset >= before && IsAt(text, bytes, offset - before, kAccount.before)) return true;
    ++at;
  }
  return false;
}

// The number of an allocator in kMessages; −1: none.
int NumberByMessage(const char* text, size_t bytes) {
  int found = -1;
  AnyAlloc(text, bytes, [text, bytes, &found](size_t lloc) {
    for (int i = 0; i < static_cast<int>(sizeof kMessages / sizeof *kMessages); ++i) {
      const size_t before = strlen(kMessages[i].before);
      if (lloc < before || !IsAt(text, bytes, lloc - before, kMessages[i].before) ||
          !IsAt(text, bytes, lloc + 4, kMessages[i].after))
        continue;
      found = i;
      return true;
    }
    return false;
  });
  return found < 0 && HasAccount(text, bytes) ? kTcmalloc : found;
}

bool Defines(const SymbolList& symbols, const char* name) {
  for (size_t i = 0; i < symbols.count; ++i) {
    if (IsDefinedFunction(symbols.symbols[i]) && strcmp(symbols.NameOf(symbols.symbols[i]), name) == 0) return true;
  }
  return false;
}

// ---- The code of one function ----

class Planner {
 public:
  Planner(const ExecutableImage& image, EntryPlan* plan) : image_(image), plan_(*plan) {}

  void Run(Entries wanted) {
    FindSites();
    if (plan_.site_count == 0) {
      if (DefinesPlainNames(image_.all)) plan_.outcome = {EntryReason::kHidden, kName_malloc + 1, 1};
      return;
    }
    plan_.outcome.count = static_cast<uint32_t>(plan_.site_count);
    if (wanted == Entries::kNo) return Refuse(EntryReason::kSwitchedOff, -1);
    if (refused_) return;
    if (const int lacking = IncompleteSite(); lacking >= 0) return Refuse(EntryReason::kIncomplete, lacking);
    const bool has_all_names = image_.all.count != 0;
    const int allocator = has_all_names && plan_.is_listed ? -1 : FindMessage();
    if (wanted == Entries::kAuto && !plan_.is_listed && allocator < 0)
      return Refuse(EntryReason::kNotListed, DefinesPlainNames(image_.exported) ? -1 : 0);
    for (int i = 0; i < plan_.site_count && !refused_; ++i) PlanSite(i);
    for (int i = 0; i < plan_.site_count && !refused_; ++i) MarkPlaces(plan_.sites[i]);
    for (int i = 0; i < plan_.site_count && !refused_; ++i) {
      if (plan_.IsChanged(i)) FindShortJumps(i);
    }
    for (int i = 0; i < plan_.site_count && !refused_; ++i) ReadBody(i);
    for (int i = 0; i < plan_.site_count && !refused_; ++i) {
      const EntrySite& site = plan_.sites[i];
      if (plan_.IsChanged(i)) ReadNeighbours({site.jump, site.jump + site.moved}, i);
    }
    for (int i = 0; i < plan_.short_jump_count && !refused_; ++i)
      ReadNeighbours(plan_.short_jumps[i].range, plan_.short_jumps[i].from);
    const bool searched = wanted == Entries::kYes || IsSearched();
    for (int i = 0; i < plan_.site_count && !refused_; ++i) {
      if (!plan_.IsChanged(i)) continue;
      // A part that is not read may branch into the jump, unless all of the text is searched.
      if (!ReadParts(i) && !refused_ && !searched && wanted == Entries::kAuto) Refuse(EntryReason::kUnknownCode, i);
    }
    if (!refused_) FollowHelpers();
    if (!refused_ && searched) {
      SearchText();
    } else if (!refused_ && copy_count_ > 0) {
      plan_.outcome = {EntryReason::kCopied, static_cast<uint32_t>(copies_[0].name) + 1, plan_.outcome.count};
      refused_ = true;
    }
    if (!refused_) LeadHelpersCalls();
    if (refused_) return;
    SortRanges();
    uint32_t changed = 0;
    for (int i = 0; i < plan_.site_count; ++i) changed += plan_.IsChanged(i) ? 1 : 0;
    const bool lacks_names = !has_all_names && allocator >= 0 && !Defines(image_.exported, kOtherFunctions[allocator]);
    plan_.outcome = {lacks_names ? EntryReason::kExportedRedirected : EntryReason::kRedirected, 0, changed};
  }

 private:
  void Refuse(EntryReason reason, int site) {
    refused_ = true;
    plan_.outcome.reason = reason;
    plan_.outcome.name = site < 0 ? 0 : static_cast<uint32_t>(plan_.sites[site].name) + 1;
  }

  using Part = CodeRange;

  // ---- Finding ----

  void FindSites() {
    const bool plain = DefinesPlainNames(image_.exported);
    for (size_t i = 0; i < image_.exported.count && !refused_; ++i) Consider(image_.exported, i, true, plain);
    for (size_t i = 0; i < image_.all.count && !refused_; ++i) Consider(image_.all, i, false, plain);
    // Operators alone are the program's own: they reach malloc, or a pool.
    if (!plain) DropPlainSites();
  }

  void Consider(const SymbolList& list, size_t index, bool exported, bool plain) {
    const Elf64_Sym& symbol = list.symbols[index];
    if (!IsDefinedFunction(symbol)) return;
    const char* text = list.NameOf(symbol);
    const uint8_t kinds = kNameFilter.slots[NameFilter::SlotOf(text)];
    if (LIKELY(kinds == 0)) return;
    if (!plan_.is_listed) plan_.is_listed = RevealsListedAllocator(text);
    if ((kinds & NameFilter::kMayBeCall) == 0) return;
    const int name = NumberOf(text);
    if (name < 0) return ConsiderCopy(symbol, NumberOfOriginal(text), plain);
    const bool is_private = IsPrivateName(name);
    // A static function may be called `free`; only what the whole program calls so is the allocator's.
    const bool is_global = ELF64_ST_BIND(symbol.st_info) != STB_LOCAL;
    if (!is_private && (!plain || !is_global)) return;
    AddSite(symbol, name, exported, list.is_separate);
  }

  void ConsiderCopy(const Elf64_Sym& symbol, int name, bool plain) {
    const uintptr_t address = image_.bias + symbol.st_value;
    if (name < 0 || (!plain && !IsPrivateName(name)) || kNamedCalls[name].shape.effect >= Effect::kFreesMany ||
        copy_count_ == kMaxCopies || image_.CodeAt(address) == nullptr)
      return;
    copies_[copy_count_++] = {{address, address + symbol.st_size}, name};
  }

  void AddSite(const Elf64_Sym& symbol, int name, bool exported, bool separate) {
    const uintptr_t address = image_.bias + symbol.st_value;
    if (image_.CodeAt(address) == nullptr) return;
    const Effect effect = kNamedCalls[name].shape.effect;
    allocates_ |= effect == Effect::kAllocates ? 1u << FamilyOf(name) : 0;
    frees_ |= effect == Effect::kFrees ? 1u << FamilyOf(name) : 0;
    if (const int known = plan_.SiteAt(address); known >= 0) {
      EntrySite& site = plan_.sites[known];
      if (symbol.st_size > site.bytes) site.bytes = symbol.st_size;
      if (!AreAlike(site.shape(), kNamedCalls[name].shape)) return Refuse(EntryReason::kTwoKinds, known);
      // The form with most arguments decides which registers must not be touched.
      if (kNamedCalls[name].shape.arguments > site.shape().arguments) site.name = name;
      return;
    }
    if (plan_.site_count == EntryPlan::kMaxSites) return Refuse(EntryReason::kNoRoom, -1);
    // BOLT keeps the build id, and moves functions: the debug file may be of the executable as it was before.
    const bool is_elsewhere = separate && !IsFunctionAt({address, address + symbol.st_size});
    EntrySite& site = plan_.sites[plan_.site_count];
    site = {};
    site.address = address;
    site.bytes = symbol.st_size;
    site.name = name;
    site.is_exported = exported;
    const int number = plan_.site_count++;
    for (int i = 0; i < number; ++i) {
      if (plan_.sites[i].name == name) return Refuse(EntryReason::kTwice, number);
    }
    if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC) return Refuse(EntryReason::kResolver, number);
    if (is_elsewhere) Refuse(EntryReason::kElsewhere, number);
  }

  void DropPlainSites() {
    int kept = 0;
    for (int i = 0; i < plan_.site_count; ++i) {
      if (plan_.sites[i].name < kFirstPlainName) plan_.sites[kept++] = plan_.sites[i];
    }
    plan_.site_count = kept;
  }

  // A site of a family that allocates and does not free, or the other way round. −1: none. An address may have names of
  // several families.
  int IncompleteSite() const {
    for (int i = 0; i < plan_.site_count; ++i) {
      const Effect effect = plan_.sites[i].shape().effect;
      const int family = FamilyOf(plan_.sites[i].name);
      if (((allocates_ ^ frees_) >> family & 1) != 0 && (effect == Effect::kAllocates || effect == Effect::kFrees))
        return i;
    }
    return allocates_ != 0 ? -1 : 0;
  }

  // The number of the allocator that the executable's messages reveal; −1: none. A stripped executable has no other names
  // than malloc's.
  int FindMessage() const {
    uintptr_t left = 2 * kSearchedBytes;
    // Constants usually have a segment of their own, after the code; if not, they are beside the code. The first segment has
    // names, which may be many.
    for (int pass = 0; pass < 2; ++pass) {
      for (int i = image_.segment_count - 1; i >= 0; --i) {
        const ExecutableImage::Segment& segment = image_.segments[i];
        if (segment.is_writable || segment.is_code != (pass == 1)) continue;
        const uintptr_t bytes = segment.end - segment.start < left ? segment.end - segment.start : left;
        const int found = NumberByMessage(reinterpret_cast<const char*>(segment.start), bytes);
        if (found >= 0) return found;
        left -= bytes;
      }
    }
    return -1;
  }

  // ---- One site ----

  const uint8_t* CodeAt(uintptr_t address, size_t* available) const {
    // Usually in the same segment as the last one.
    if (code_ == nullptr || address < code_->start || address >= code_->end) code_ = image_.CodeAt(address);
    *available = code_ != nullptr ? code_->end - address : 0;
    return reinterpret_cast<const uint8_t*>(address);
  }
  bool ReadAt(uintptr_t address, Instruction* one) const {
    size_t available;
    const uint8_t* code = CodeAt(address, &available);
    return available != 0 && ReadInstruction(code, available, one);
  }
  Instruction DecodeAt(uintptr_t address) const {
    Instruction one;
    return ReadAt(address, &one) ? one : Instruction{};
  }
  static uintptr_t TargetAt(const Instruction& one, uintptr_t address) {
    return TargetOf(one, reinterpret_cast<const uint8_t*>(address), address);
  }

  static bool IsEndbr(uintptr_t address, size_t available) {
    constexpr uint8_t kEndbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    return available >= sizeof kEndbr64 && memcmp(reinterpret_cast<const void*>(address), kEndbr64, 4) == 0;
  }

  static uint32_t ArgumentsOf(const CallShape& shape) {
    constexpr int kRegisters[] = {kRdi, kRsi, kRdx, kRcx, kR8, kR8 + 1};
    uint32_t bits = 0;
    for (int i = 0; i < shape.arguments; ++i) bits |= 1u << kRegisters[i];
    return bits;
  }

  // The registers that the hook reads itself.
  static uint32_t NeededFor(const CallShape& shape) {
    constexpr int kRegisters[] = {kRdi, kRsi, kRdx, kRcx};
    uint32_t bits = 0;
    const int8_t all[] = {shape.size, shape.times, shape.block};
    for (const int8_t argument : all) {
      if (argument >= 0) bits |= 1u << kRegisters[argument];
    }
    if (shape.effect == Effect::kAllocatesInto) bits |= 1u << kRdi;
    if (shape.effect >= Effect::kFreesMany && shape.effect <= Effect::kControlsByNumbers)
      bits |= 1u << kRdi | 1u << kRsi | 1u << kRdx;
    return bits;
  }

  void PlanSite(int number) {
    EntrySite& site = plan_.sites[number];
    if (site.shape().effect == Effect::kOther) {
      site.left_alone = true;
      return;
    }
    size_t available;
    CodeAt(site.address, &available);
    site.first = site.address + (IsEndbr(site.address, available) ? 4 : 0);
    const Instruction first = DecodeAt(site.first);
    // A thunk: the other entry counts the call.
    if (first.flow == Flow::kJump && plan_.SiteAt(TargetAt(first, site.first)) >= 0) {
      site.left_alone = true;
      return;
    }
    if (first.length == 0) return Refuse(EntryReason::kUnknownCode, number);
    if (first.flow == Flow::kStop) return Refuse(EntryReason::kChanged, number);
    if (first.flow == Flow::kCall || first.flow == Flow::kIndirectCall) return Refuse(EntryReason::kCalls, number);
    // A jump to a function without a name, as stripped executables have it. Only this instruction is replaced, by another
    // jump. The removal of a uprobe writes its first byte back: a jump of 2 bytes must then be what it was, so its second
    // byte stays, and the bytes after it change.
    constexpr uint8_t kNearJump = 0xe9, kShortJump = 0xeb;
    const uint8_t opcode = *reinterpret_cast<const uint8_t*>(site.first);
    if (first.flow == Flow::kJump && (opcode == kNearJump || opcode == kShortJump)) {
      site.jump = site.first;
      site.is_short_jump = opcode == kShortJump;
      return PlanMove(number);
    }
    site.kept = DescribeFirst(first, reinterpret_cast<const uint8_t*>(site.first), NeededFor(site.shape()));
    if (first.flow != Flow::kNext || site.first + first.length >= site.address + site.bytes)
      return RefuseUnlessItLeadsOn(EntryReason::kTooShort, number);
    if (!site.kept.may_stay) return RefuseUnlessItLeadsOn(EntryReason::kFirstMoves, number);
    site.first_bytes = first.length;
    site.jump = site.first + first.length;
    PlanMove(number);
    if (!refused_ && !site.left_alone)
      site.runs_again = site.kept.undone_at_once || (site.kept.sets_flags && NeedsFlags(site.jump));
  }

  // Nothing is missed if the function stays as it is: it only leads to another entry, or frees nothing.
  void RefuseUnlessItLeadsOn(EntryReason reason, int number) {
    EntrySite& site = plan_.sites[number];
    if (!LeadsOn(site)) return Refuse(reason, number);
    site.left_alone = true;
    site.moves_call = false;
  }

  bool LeadsOn(const EntrySite& site) const {
    constexpr int kMaxInstructions = 16;
    constexpr int kRegisters[] = {kRdi, kRsi, kRdx, kRcx};
    const CallShape& shape = site.shape();
    bool does_nothing = shape.effect == Effect::kFrees;
    uintptr_t at = site.first;
    for (int i = 0; i < kMaxInstructions; ++i) {
      const Instruction one = DecodeAt(at);
      if (one.length == 0) return false;
      if (one.flow == Flow::kReturn) return does_nothing;
      if (one.flow == Flow::kJump) {
        const int to = plan_.SiteAt(TargetAt(one, at));
        return to >= 0 && &plan_.sites[to] != &site && plan_.sites[to].shape().effect == shape.effect &&
               plan_.sites[to].shape().block == shape.block;
      }
      // The other entry must get the same block, because a function that is redirected has counted this one.
      if (one.flow != Flow::kNext || (shape.block >= 0 && !IsNop(one) && MayMention(one, kRegisters[shape.block])))
        return false;
      does_nothing = does_nothing && (IsNop(one) || OverwrittenRegister(one) >= 0);
      at += one.length;
    }
    return false;
  }

  // A moved call jumps to a function that returns behind the original call, so its frame is as it was. Not to another
  // object: -pg calls mcount, which looks at both sides of its own call.
  bool MayMoveCall(uintptr_t target) const { return image_.CodeAt(target) != nullptr && !LeavesExecutable(target); }

  void PlanMove(int number) {
    EntrySite& site = plan_.sites[number];
    const uintptr_t end = site.address + site.bytes;
    uintptr_t at = site.jump;
    bool ended = false;
    while (at < site.jump + kJumpBytes) {
      const Instruction one = DecodeAt(at);
      if (one.length == 0) return Refuse(EntryReason::kUnknownCode, number);
      if (at >= end && (!(ended && (IsNop(one) || one.flow == Flow::kStop)) || BeginsFunction(at)))
        return RefuseUnlessItLeadsOn(EntryReason::kTooShort, number);
      if (at < end) {
        if (one.flow == Flow::kStop) return Refuse(EntryReason::kChanged, number);
        if (one.flow == Flow::kIndirectCall || (one.flow == Flow::kCall && !MayMoveCall(TargetAt(one, at))))
          return Refuse(EntryReason::kCalls, number);
        site.moves_call = site.moves_call || one.flow == Flow::kCall;
        if (one.flow == Flow::kShort) return Refuse(EntryReason::kShortBranch, number);
      }
      ended = ended || one.flow == Flow::kReturn || one.flow == Flow::kJump || one.flow == Flow::kIndirectJump;
      at += one.length;
    }
    site.moved = static_cast<uint8_t>(at - site.jump);
    if (IsRestartable({site.first, at})) Refuse(EntryReason::kRestartable, number);
  }

  // Whether the unwind table has a function that begins here.
  bool BeginsFunction(uintptr_t address) const {
    const FunctionStarts starts = Starts();
    const uint32_t index = starts.UpTo(address);
    return index > 0 && starts.At(index - 1) == address;
  }

  // Whether the unwind table describes a function here, with these bytes.
  bool IsFunctionAt(const CodeRange& code) const {
    const Part part = FunctionWith(Starts(), code.start);
    return part.start == code.start && part.end == code.end;
  }

  bool IsRestartable(const CodeRange& code) const {
    for (int i = 0; i < image_.restartable_count; ++i) {
      const ExecutableImage::Restartable& range = image_.restartable[i];
      if ((range.start < code.end && range.end > code.start) || code.Has(range.abort)) return true;
    }
    return false;
  }

  // Whether some instruction from here on reads the flags before they are set. Follows no branch: these read them.
  bool NeedsFlags(uintptr_t at) const {
    for (int i = 0; i < 32; ++i) {
      const Instruction one = DecodeAt(at);
      if (one.length == 0) return true;
      const Flags use = FlagsUse(one);
      if (use != Flags::kUntouched) return use == Flags::kRead;
      at += one.length;
    }
    return true;
  }

  // ---- Branches ----

  // Whether the jump of this site would be entered in its middle, or the call be counted a second time.
  static bool IsInside(const EntrySite& site, uintptr_t target) {
    return target >= site.jump && target < site.jump + site.moved && target != site.first;
  }

  // A filter of the places that branches may not lead to: most targets are none of them.
  void MarkPlaces(const EntrySite& site) {
    MarkRange({site.address, site.left_alone ? site.address + 1 : site.jump + site.moved});
  }
  void MarkRange(const CodeRange& range) {
    for (uintptr_t at = range.start / kPlaceBytes; at <= (range.end - 1) / kPlaceBytes; ++at)
      places_[at / 64 % kPlaceWords] |= uint64_t{1} << at % 64;
  }
  bool MayBePlace(uintptr_t target) const {
    const uintptr_t at = target / kPlaceBytes;
    return (places_[at / 64 % kPlaceWords] >> at % 64 & 1) != 0;
  }

  // Whether a branch would lead into what replaces a short jump.
  bool CutsShortJump(uintptr_t target) {
    for (int i = 0; i < plan_.short_jump_count; ++i) {
      const CodeRange& range = plan_.short_jumps[i].range;
      if (!range.Has(target) || target == range.start) continue;
      Refuse(EntryReason::kShortJump, plan_.short_jumps[i].from);
      return true;
    }
    return false;
  }

  // Looks at one branch. False: it refuses.
  bool CheckBranch(const Instruction& one, uintptr_t at, int own) {
    const uintptr_t target = TargetAt(one, at);
    if (!MayBePlace(target)) return true;
    for (int i = 0; i < plan_.site_count; ++i) {
      const EntrySite& site = plan_.sites[i];
      if (site.left_alone || !IsInside(site, target)) continue;
      Refuse(EntryReason::kBranchedInto, i);
      return false;
    }
    if (CutsShortJump(target)) return false;
    if (own < 0) return true;
    const int to = plan_.ChangedSiteAt(target);
    if (to < 0) return true;
    const EntrySite& site = plan_.sites[own];
    if (!site.left_alone && at >= site.jump && at < site.jump + site.moved)
      return true;  // moved: led there by the stub
    // A thunk stays as it is: the program's call reaches the entry through it.
    if (site.left_alone && site.shape().effect != Effect::kOther) return true;
    if (IsWithShortJump(at)) return true;
    if (one.target_bytes != 4) {
      Refuse(EntryReason::kShortJump, own);
      return false;
    }
    AddCall(at + static_cast<uintptr_t>(one.target_at), to);
    return true;
  }

  void AddCall(uintptr_t distance_at, int to) {
    if (IsWithShortJump(distance_at)) return;
    for (int i = 0; i < plan_.call_count; ++i) {
      if (plan_.calls[i].distance_at == distance_at) return;
    }
    if (plan_.call_count == EntryPlan::kMaxCalls) return Refuse(EntryReason::kTooFar, to);
    plan_.calls[plan_.call_count++] = {distance_at, to};
  }

  // ---- Code that several entries share ----

  struct CodeFacts {
    bool whole = true;         // all of it is understood
    bool has_table = false;    // a jump, perhaps through a table of branches, with targets that are not known here
    uint32_t overwritten = 0;  // registers, as bits

    void Add(const Instruction& one, bool wants_registers) {
      if (one.flow == Flow::kIndirectJump && one.relative_at < 0) has_table = true;
      if (const int written = wants_registers ? OverwrittenRegister(one) : -1; written >= 0)
        overwritten |= 1u << written;
    }
  };

  // Calls found(instruction, address) for each direct branch, until it returns false. Each range is decoded once, as
  // long as there is room for its branches. The first caller for a range decides whether its registers are wanted.
  template <typename Found>
  CodeFacts ForBranches(const CodeRange& range, Found found, bool wants_registers = false) {
    const EntryPlan::ReadCode* read = Remember(range, wants_registers);
    CodeFacts facts;
    if (read != nullptr) {
      facts = {read->whole, read->has_table, read->overwritten};
      for (int i = 0; i < read->branch_count; ++i) {
        const EntryPlan::Branch& branch = plan_.branches[read->first_branch + i];
        Instruction one;
        one.length = branch.length;
        one.flow = branch.flow;
        one.target_at = branch.target_at;
        one.target_bytes = branch.target_bytes;
        if (!found(one, image_.bias + branch.at)) break;
      }
      return facts;
    }
    Instruction one;
    for (uintptr_t at = range.start; at < range.end;) {
      facts.whole = ReadAt(at, &one);
      if (!facts.whole || (one.target_at >= 0 && !found(one, at))) break;
      facts.Add(one, wants_registers);
      at += one.length;
    }
    return facts;
  }

  // Null: there is no room.
  const EntryPlan::ReadCode* Remember(const CodeRange& range, bool wants_registers) {
    int16_t& newest = plan_.newest_read[range.start / 4 % EntryPlan::kReadLists];
    for (int i = newest - 1; i >= 0; i = plan_.read[i].next - 1) {
      if (plan_.read[i].range.start == range.start && plan_.read[i].range.end == range.end) return &plan_.read[i];
    }
    if (plan_.read_count == EntryPlan::kMaxRead || range.end - image_.bias > UINT32_MAX) return nullptr;
    CodeFacts facts;
    int count = plan_.branch_count;
    Instruction one;
    for (uintptr_t at = range.start; at < range.end;) {
      facts.whole = ReadAt(at, &one);
      if (!facts.whole) break;
      if (one.target_at >= 0) {
        if (count == EntryPlan::kMaxBranches) return nullptr;
        plan_.branches[count++] = {static_cast<uint32_t>(at - image_.bias), one.length, one.flow, one.target_at,
                                   one.target_bytes};
      }
      facts.Add(one, wants_registers);
      at += one.length;
    }
    EntryPlan::ReadCode& read = plan_.read[plan_.read_count++];
    read = {range,       plan_.branch_count, count - plan_.branch_count, facts.overwritten, newest,
            facts.whole, facts.has_table};
    newest = static_cast<int16_t>(plan_.read_count);
    plan_.branch_count = count;
    return &read;
  }

  void ReadBody(int number) {
    EntrySite& site = plan_.sites[number];
    const CodeFacts facts = ForBranches(
        {site.address, site.address + site.bytes},
        [this, number](const Instruction& one, uintptr_t at) { return CheckBranch(one, at, number); }, true);
    if (!facts.whole && !refused_ && !site.left_alone) Refuse(EntryReason::kUnknownCode, number);
    if (!refused_) ChooseSpare(number, facts.overwritten);
  }

  // A register that the stub may overwrite: the function does so itself, so no caller keeps a value in it.
  void ChooseSpare(int number, uint32_t overwritten) {
    EntrySite& site = plan_.sites[number];
    if (site.left_alone) return;
    if (site.kept.pushed >= 0 && (kCalleeSaved >> site.kept.pushed & 1) != 0) {
      site.spare = site.kept.pushed;
      return;
    }
    const Instruction first = DecodeAt(site.first);
    const uint32_t forbidden = ArgumentsOf(site.shape()) | kCalleeSaved | 1u << kRsp;
    constexpr int kCandidates[] = {kRax, 11, 10, 9, 8, kRcx, kRdx, kRsi};
    for (const int candidate : kCandidates) {
      if ((overwritten & ~forbidden & 1u << candidate) == 0 || MayMention(first, candidate)) continue;
      site.spare = candidate;
      return;
    }
  }

  // ---- Other functions ----

  // The sorted starts of functions in .eh_frame_hdr.
  struct FunctionStarts {
    uintptr_t base = 0;
    const int32_t* table = nullptr;  // pairs: start, description; both from `base`
    uint32_t count = 0;
    uintptr_t At(uint32_t index) const {
      int32_t distance;
      memcpy(&distance, table + 2 * size_t{index}, sizeof distance);
      return base + static_cast<uintptr_t>(static_cast<int64_t>(distance));
    }
    // Number of functions that begin at or before `address`.
    uint32_t UpTo(uintptr_t address) const {
      uint32_t low = 0, high = count;
      while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (At(middle) <= address) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      return low;
    }
  };

  FunctionStarts Starts() const {
    FunctionStarts starts;
    const uintptr_t at = image_.unwind_table;
    const ExecutableImage::Segment* within = nullptr;
    for (int i = 0; i < image_.segment_count; ++i) {
      if (at != 0 && at >= image_.segments[i].start && at + 12 <= image_.segments[i].end) within = &image_.segments[i];
    }
    if (within == nullptr) return starts;
    const auto* head = reinterpret_cast<const uint8_t*>(at);
    // Version 1; .eh_frame's address as a signed word from here, a count of 4 bytes, a table of words from the start.
    if (head[0] != 1 || head[1] != 0x1b || head[2] != 0x03 || head[3] != 0x3b) return starts;
    uint32_t count;
    memcpy(&count, head + 8, sizeof count);
    if (count > (within->end - at - 12) / 8) return starts;
    starts.base = at;
    starts.table = reinterpret_cast<const int32_t*>(at + 12);
    starts.count = count;
    return starts;
  }

  // Reads whole functions from the one that begins at or before `from`, up to `to`, and looks at their branches.
  void ReadFunctions(const FunctionStarts& starts, uintptr_t from, uintptr_t to, int skipped) {
    uint32_t index = starts.UpTo(from);
    uintptr_t at = index > 0 ? starts.At(index - 1) : to;
    if (at + kLargestVisited < from) at = index < starts.count ? starts.At(index) : to;  // a gap, or a huge function
    bool begins = true;
    uintptr_t last = at;
    while (at < to && !refused_) {
      const uintptr_t next = index < starts.count ? starts.At(index) : UINTPTR_MAX;
      if (at >= next) {
        if (next < last) return;  // a table that is not sorted
        at = last = next;
        ++index;
        begins = true;
      }
      // ReadBody has read the entries.
      const int site = begins ? plan_.SiteAt(at) : -1;
      begins = false;
      if (site >= 0 && (site == skipped || plan_.IsChanged(site))) {
        at += plan_.sites[site].bytes;
        continue;
      }
      Instruction one;
      if (!ReadAt(at, &one)) {  // data, say
        at = next;
        continue;
      }
      if (one.target_at >= 0) CheckBranch(one, at, -1);
      at += one.length;
    }
  }

  void ReadNeighbours(const CodeRange& moved, int number) {
    ReadFunctions(Starts(), moved.start - kShortReach, moved.end + kShortReach, number);
  }

  // ---- Jumps of 2 bytes from one entry to another ----

  // BOLT makes them. The call has been counted, so it must not pass through the other one's hook.
  void FindShortJumps(int number) {
    const EntrySite& site = plan_.sites[number];
    const uintptr_t end = site.address + site.bytes;
    ForBranches(
        {site.address, end},
        [&](const Instruction& one, uintptr_t at) {
          if (one.target_bytes == 4 || one.flow == Flow::kShort || at < site.jump + site.moved) return true;
          const uintptr_t target = TargetAt(one, at);
          if (!MayBePlace(target) || plan_.ChangedSiteAt(target) < 0) return true;
          LeadShortJump(number, {at, at + one.length});
          return !refused_;
        },
        true);
  }

  // Moves the instructions before the jump as well, so that there is room for a near one.
  void LeadShortJump(int number, const CodeRange& jump) {
    EntrySite& site = plan_.sites[number];
    const uintptr_t moved_end = site.jump + site.moved;
    uintptr_t start = moved_end;
    for (uintptr_t at = start; at < jump.start && jump.end - at >= kJumpBytes; at += DecodeAt(at).length) {
      start = at;
      if (DecodeAt(at).length == 0) return Refuse(EntryReason::kUnknownCode, number);
    }
    ShortJump* const last = plan_.short_jump_count > 0 ? &plan_.short_jumps[plan_.short_jump_count - 1] : nullptr;
    if (jump.end - start < kJumpBytes) {
      // They are among those that the entry's own jump replaces.
      if (site.moves_call || jump.end - site.address > EntryPlan::kMaxMoved || !MayMove({moved_end, jump.start}))
        return Refuse(EntryReason::kShortJump, number);
      site.holds_short_jump = true;
      site.moved = static_cast<uint8_t>(jump.end - site.jump);
      MarkPlaces(site);
    } else if (last != nullptr && last->from == number && start < last->range.end) {
      if (jump.end - last->range.start > EntryPlan::kMaxMoved || !MayMove({last->range.end, jump.start}))
        return Refuse(EntryReason::kShortJump, number);
      last->range.end = jump.end;
      MarkRange(last->range);
    } else {
      if (plan_.short_jump_count == EntryPlan::kMaxShortJumps || !MayMove({start, jump.start}))
        return Refuse(EntryReason::kShortJump, number);
      plan_.short_jumps[plan_.short_jump_count++] = {{start, jump.end}, number};
      MarkRange({start, jump.end});
    }
    const FunctionStarts starts = Starts();
    if (starts.UpTo(start) != starts.UpTo(jump.end - 1) || HoldsOtherSite({start, jump.end}, number))
      return Refuse(EntryReason::kShortJump, number);
    if (IsRestartable({start, jump.end})) Refuse(EntryReason::kRestartable, number);
  }

  // Whether each instruction may run elsewhere, and leads to the next one or to another function's.
  bool MayMove(const CodeRange& code) const {
    for (uintptr_t at = code.start; at < code.end;) {
      const Instruction one = DecodeAt(at);
      if (one.length == 0 || (one.flow != Flow::kNext && one.flow != Flow::kConditional)) return false;
      at += one.length;
    }
    return true;
  }

  bool HoldsOtherSite(const CodeRange& code, int number) const {
    for (int i = 0; i < plan_.site_count; ++i) {
      const EntrySite& site = plan_.sites[i];
      const uintptr_t end = site.left_alone ? site.address + site.bytes : site.jump + site.moved;
      if (i != number && code.start < end && code.end > site.address) return true;
    }
    return false;
  }

  bool IsWithShortJump(uintptr_t at) const {
    for (int i = 0; i < plan_.short_jump_count; ++i) {
      if (plan_.short_jumps[i].range.Has(at)) return true;
    }
    return false;
  }
  bool HasShortJump(int site) const {
    if (plan_.sites[site].holds_short_jump) return true;
    for (int i = 0; i < plan_.short_jump_count; ++i) {
      if (plan_.short_jumps[i].from == site) return true;
    }
    return false;
  }

  // ---- Parts of an entry outside of its body ----

  // A compiler moves what is rarely needed far away (malloc.cold), and such a part jumps back.
  struct Parts {
    Part all[kMaxParts];
    int count = 0;
    uintptr_t bytes = 0;
    bool whole = true;  // everything is read

    bool Has(uintptr_t address) const {
      for (int i = 0; i < count; ++i) {
        if (all[i].Has(address)) return true;
      }
      return false;
    }
  };

  // Reads what the entry's jumps lead to, and what the jumps there lead to. False: not everything can be read.
  bool ReadParts(int number) {
    const FunctionStarts starts = Starts();
    const EntrySite& site = plan_.sites[number];
    Parts parts;
    ReadPart({site.address, site.address + site.bytes}, number, starts, &parts);
    for (int i = 0; i < parts.count && !refused_ && parts.whole; ++i) ReadPart(parts.all[i], number, starts, &parts);
    AddRange({site.address, site.address + site.bytes});
    for (int i = 0; i < parts.count; ++i) AddRange(parts.all[i]);
    return parts.whole;
  }

  // A branch outside of the entry's body. False: it refuses.
  bool FollowBranch(const Instruction& one, uintptr_t at, const Part& part, int own, const FunctionStarts& starts,
                    Parts* parts) {
    const EntrySite& site = plan_.sites[own];
    const uintptr_t target = TargetAt(one, at);
    // A jump back to the entry's start is no second call.
    const bool to_own = target == site.address || target == site.first;
    if (!CheckBranch(one, at, to_own ? own : -1)) return false;
    if (!to_own && !part.Has(target)) AddPart(target, own, starts, parts);
    return true;
  }

  void ReadPart(const Part& part, int own, const FunctionStarts& starts, Parts* parts) {
    const EntrySite& site = plan_.sites[own];
    const bool is_body = part.start == site.address;
    const CodeFacts facts = ForBranches(part, [&](const Instruction& one, uintptr_t at) {
      if (one.flow == Flow::kCall) return true;
      if (!is_body) return FollowBranch(one, at, part, own, starts, parts);
      // ReadBody has looked at these.
      if (const uintptr_t target = TargetAt(one, at); !part.Has(target)) AddPart(target, own, starts, parts);
      return true;
    });
    if (!facts.whole || (is_body && facts.has_table)) parts->whole = false;
    // A table may lead to any instruction of the body.
    if (facts.has_table && HasShortJump(own)) Refuse(EntryReason::kShortJump, own);
  }

  void AddPart(uintptr_t target, int own, const FunctionStarts& starts, Parts* parts) {
    for (int i = 0; i < plan_.site_count; ++i) {
      const EntrySite& site = plan_.sites[i];
      // Other entries are read for themselves. Those left alone have no jump, and lead to another entry.
      if ((i == own || !site.left_alone) && target >= site.address && target < site.address + site.bytes) return;
    }
    if (parts->Has(target) || LeavesExecutable(target)) return;
    Part part = FunctionWith(starts, target);
    if (part.end == 0) part = {target, EndOfPath(target)};
    parts->bytes += part.end - part.start;
    if (part.end == target || parts->count == kMaxParts || parts->bytes > kLargestParts) {
      parts->whole = false;
      return;
    }
    parts->all[parts->count++] = part;
  }

  // A slot of .plt.
  bool LeavesExecutable(uintptr_t at) const {
    size_t available;
    CodeAt(at, &available);
    const Instruction one = DecodeAt(at + (IsEndbr(at, available) ? 4 : 0));
    return one.flow == Flow::kIndirectJump && one.relative_at >= 0;
  }

  // The function with this address, by its description in .eh_frame. An end of 0: it has none that is understood.
  Part FunctionWith(const FunctionStarts& starts, uintptr_t address) const {
    const uint32_t after = starts.UpTo(address);
    if (after == 0) return {0, 0};
    const uintptr_t start = starts.At(after - 1);
    int32_t distance;
    memcpy(&distance, starts.table + 2 * size_t{after - 1} + 1, sizeof distance);
    const uintptr_t description = starts.base + static_cast<uintptr_t>(static_cast<int64_t>(distance));
    // length, distance of the common part, start (from here), bytes
    constexpr uintptr_t kBytes = 16;
    for (int i = 0; i < image_.segment_count; ++i) {
      const ExecutableImage::Segment& segment = image_.segments[i];
      if (description < segment.start || description >= segment.end || segment.end - description < kBytes) continue;
      int32_t word[4];
      memcpy(word, reinterpret_cast<const void*>(description), sizeof word);
      const bool is_understood = description + 8 + static_cast<uintptr_t>(static_cast<int64_t>(word[2])) == start;
      const uintptr_t end = start + static_cast<uint32_t>(word[3]);
      return is_understood && address < end ? Part{start, end} : Part{0, 0};
    }
    return {0, 0};
  }

  // Where the instructions from here on end with a jump or a return. `at` itself: they cannot be read.
  uintptr_t EndOfPath(uintptr_t start) const {
    for (uintptr_t at = start; at - start < kLargestVisited;) {
      const Instruction one = DecodeAt(at);
      if (one.length == 0) break;
      at += one.length;
      if (one.flow == Flow::kJump || one.flow == Flow::kReturn || one.flow == Flow::kIndirectJump ||
          one.flow == Flow::kStop)
        return at;
    }
    return start;
  }

  void AddRange(const CodeRange& range) {
    if (plan_.range_count < EntryPlan::kMaxRanges && !IsInRanges(range.start))
      plan_.ranges[plan_.range_count++] = range;
  }
  bool IsInRanges(uintptr_t address) const {
    for (int i = 0; i < plan_.range_count; ++i) {
      if (plan_.ranges[i].Has(address)) return true;
    }
    return false;
  }
  void SortRanges() {
    for (int i = 1; i < plan_.range_count; ++i) {
      const CodeRange one = plan_.ranges[i];
      int at = i;
      for (; at > 0 && plan_.ranges[at - 1].start > one.start; --at) plan_.ranges[at] = plan_.ranges[at - 1];
      plan_.ranges[at] = one;
    }
    int kept = 0;
    for (int i = 0; i < plan_.range_count; ++i) {
      CodeRange* last = kept > 0 ? &plan_.ranges[kept - 1] : nullptr;
      if (last != nullptr && plan_.ranges[i].start <= last->end) {
        if (plan_.ranges[i].end > last->end) last->end = plan_.ranges[i].end;
      } else {
        plan_.ranges[kept++] = plan_.ranges[i];
      }
    }
    plan_.range_count = kept;
  }

  bool IsSearched() const {
    uintptr_t total = 0;
    for (int i = 0; i < image_.segment_count; ++i) {
      if (image_.segments[i].is_code) total += image_.segments[i].end - image_.segments[i].start;
    }
    return total <= kSearchedBytes;
  }

  // Any bytes that may be a near branch into one of the jumps, to a copy of an entry, or to a helper.
  void SearchText() {
    lowest_ = UINTPTR_MAX;
    highest_ = 0;
    for (int i = 0; i < plan_.site_count; ++i) {
      if (!plan_.IsChanged(i)) continue;
      if (plan_.sites[i].jump < lowest_) lowest_ = plan_.sites[i].jump;
      if (plan_.sites[i].jump + kJumpBytes > highest_) highest_ = plan_.sites[i].jump + plan_.sites[i].moved;
    }
    for (int i = 0; i < plan_.short_jump_count; ++i) {
      AlsoSearchFor(plan_.short_jumps[i].range.start);
      AlsoSearchFor(plan_.short_jumps[i].range.end - 1);
    }
    for (int i = 0; i < copy_count_; ++i) AlsoSearchFor(copies_[i].range.start);
    for (int i = 0; i < helper_count_; ++i) {
      if (helpers_[i].may_be_shared) AlsoSearchFor(helpers_[i].range.start);
    }
    for (int i = 0; i < image_.segment_count && !refused_; ++i) {
      if (image_.segments[i].is_code) SearchSegment(image_.segments[i]);
    }
  }

  void SearchSegment(const ExecutableImage::Segment& segment) {
    uintptr_t at = segment.start;
#if defined(__SSE2__)
    const auto all = [](int byte) { return _mm_set1_epi8(static_cast<char>(byte)); };
    const auto load = [](uintptr_t address) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(address)); };
    const __m128i pair = all(0xfe), call = all(0xe8), high = all(0xf0), near = all(0x80), escape = all(0x0f);
    // Within 16 MiB the highest byte of a distance is 00 or ff.
    const auto distance_to = [](uintptr_t to, uintptr_t from) { return static_cast<intptr_t>(to - from); };
    const bool is_small =
        distance_to(highest_, segment.start) < 16 << 20 && distance_to(segment.end, lowest_) < 16 << 20;
    const __m128i any_distance = all(is_small ? 0 : 0xff);
    if (at + kJumpBytes <= segment.end) LookAt(segment, at++);
    for (; at + 32 <= segment.end && !refused_; at += 16) {
      const __m128i bytes = load(at), highest = load(at + 4);
      const __m128i is_jump = _mm_cmpeq_epi8(_mm_and_si128(bytes, pair), call),  // e8 or e9
          is_conditional = _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(bytes, high), near),
                                         _mm_cmpeq_epi8(load(at - 1), escape)),  // 0f 8x
          may_lead_there = _mm_or_si128(
              any_distance, _mm_or_si128(_mm_cmpeq_epi8(highest, all(0)), _mm_cmpeq_epi8(highest, all(0xff))));
      const __m128i found = _mm_and_si128(_mm_or_si128(is_jump, is_conditional), may_lead_there);
      for (int mask = _mm_movemask_epi8(found); mask != 0; mask &= mask - 1)
        if (const uintptr_t opcode = at + static_cast<uintptr_t>(__builtin_ctz(static_cast<unsigned>(mask)));
            IsNear(NearTarget(opcode)))
          LookAt(segment, opcode);
    }
#endif
    for (; at + kJumpBytes <= segment.end && !refused_; ++at) LookAt(segment, at);
  }

  // Where a branch with its opcode here leads, if it is one.
  static uintptr_t NearTarget(uintptr_t opcode) {
    int32_t distance;
    memcpy(&distance, reinterpret_cast<const uint8_t*>(opcode) + 1, sizeof distance);
    return opcode + kJumpBytes + static_cast<uintptr_t>(static_cast<int64_t>(distance));
  }
  bool IsNear(uintptr_t target) const { return target >= lowest_ && target < highest_; }

  void AlsoSearchFor(uintptr_t address) {
    if (address < lowest_) lowest_ = address;
    if (address >= highest_) highest_ = address + 1;
    places_[address / kPlaceBytes / 64 % kPlaceWords] |= uint64_t{1} << address / kPlaceBytes % 64;
  }

  // Whether code at this address is run by the allocator, not by the program.
  bool IsAllocatorsOwn(uintptr_t at) const {
    for (int i = 0; i < copy_count_; ++i) {
      if (copies_[i].range.Has(at)) return true;
    }
    for (int i = 0; i < helper_count_; ++i) {
      if (helpers_[i].range.Has(at)) return true;
    }
    return IsInRanges(at);
  }

  // The opcode is at `at`: e8, e9, or the second byte of 0f 8x.
  void LookAt(const ExecutableImage::Segment& segment, uintptr_t at) {
    const auto* code = reinterpret_cast<const uint8_t*>(at);
    const bool conditional = (code[0] & 0xf0) == 0x80;
    if (!conditional && code[0] != 0xe8 && code[0] != 0xe9) return;
    if (conditional && (at == segment.start || code[-1] != 0x0f)) return;
    const uintptr_t target = NearTarget(at);
    if (!IsNear(target) || !MayBePlace(target)) return;
    for (int i = 0; i < plan_.site_count; ++i) {
      const EntrySite& site = plan_.sites[i];
      if (site.left_alone || !IsInside(site, target)) continue;
      if (at >= site.jump && at < site.jump + site.moved) continue;  // moved itself, and checked there
      return Refuse(EntryReason::kBranchedInto, i);
    }
    if (!IsWithShortJump(at) && CutsShortJump(target)) return;
    for (int i = 0; i < copy_count_; ++i) {
      if (copies_[i].range.start != target || IsAllocatorsOwn(at)) continue;
      refused_ = true;
      plan_.outcome.reason = EntryReason::kCopied;
      plan_.outcome.name = static_cast<uint32_t>(copies_[i].name) + 1;
      return;
    }
    for (int i = 0; i < helper_count_; ++i) {
      if (helpers_[i].may_be_shared && helpers_[i].range.start == target && !IsAllocatorsOwn(at))
        helpers_[i].is_shared = true;
    }
  }

  // Finds the functions that realloc and its like call: these may allocate through an entry.
  void FollowHelpers() {
    const FunctionStarts starts = Starts();
    uintptr_t visited[kMaxVisited];
    int count = 0;
    for (int i = 0; i < plan_.site_count; ++i) {
      const EntrySite& site = plan_.sites[i];
      const Effect effect = site.shape().effect;
      if (site.left_alone || effect == Effect::kFrees || (effect == Effect::kAllocates && site.shape().arguments == 1))
        continue;
      CollectCallees(site.address, site.address + site.bytes, visited, &count);
    }
    uint64_t exported = 0;
    int known = 0;
    for (int done = 0; done < count && !refused_; ++done) {
      if (done == known) {
        exported |= ExportedAmong(visited, known, count);
        known = count;
      }
      const uint32_t index = starts.UpTo(visited[done]);
      if (index == 0 || starts.At(index - 1) != visited[done] || (exported >> done & 1) != 0) continue;
      const uintptr_t next = index < starts.count ? starts.At(index) : visited[done];
      const uintptr_t end = next - visited[done] > kLargestVisited ? visited[done] + kLargestVisited : next;
      if (done < kMaxVisited / 4) CollectCallees(visited[done], end, visited, &count);
      Helper& helper = helpers_[helper_count_++];
      helper = {{visited[done], end}, false, false, false};
      ForEntryCalls(helper.range, [&helper](uintptr_t, int) { helper.calls_entries = true; });
      helper.may_be_shared = helper.calls_entries && MayBePrograms(helper.range.start);
    }
  }

  // A block that a helper allocates is the outer call's, unless the program calls that helper too: then its calls stay,
  // and the slow path finds that they count the block (IsCountedInside in entry_calls.cc).
  void LeadHelpersCalls() {
    for (int i = 0; i < helper_count_ && !refused_; ++i) {
      if (!helpers_[i].calls_entries || helpers_[i].is_shared) continue;
      ForEntryCalls(helpers_[i].range, [this](uintptr_t distance_at, int to) { AddCall(distance_at, to); });
    }
  }

  // Calls found(address of the displacement, number of the site) for each branch to an entry in this range.
  template <typename Found>
  void ForEntryCalls(const CodeRange& range, Found found) {
    ForBranches(range, [&](const Instruction& one, uintptr_t at) {
      if (one.target_bytes != 4) return true;
      const uintptr_t target = TargetAt(one, at);
      const int to = MayBePlace(target) ? plan_.SiteAt(target) : -1;
      if (to >= 0 && plan_.IsChanged(to)) found(at + static_cast<uintptr_t>(one.target_at), to);
      return !refused_;
    });
  }

  // Whether a function has a name that is not an allocator's. Without names it counts as the allocator's. If only names of
  // allocators were read, it may have one.
  bool MayBePrograms(uintptr_t address) const {
    if (image_.all.is_partial) return true;
    for (size_t i = 0; i < image_.all.count; ++i) {
      const Elf64_Sym& symbol = image_.all.symbols[i];
      if (!IsDefinedFunction(symbol) || image_.bias + symbol.st_value != address) continue;
      return !IsOfAllocator(image_.all.NameOf(symbol));
    }
    return false;
  }

  // Which of these addresses are exported functions', as bits. One pass: -rdynamic may export 100,000.
  uint64_t ExportedAmong(const uintptr_t* addresses, int first, int count) const {
    static_assert(kMaxVisited <= 64);
    uint64_t found = 0, marked[kPlaceWords] = {};
    const auto place = [](uintptr_t address) { return address / kPlaceBytes % (64 * kPlaceWords); };
    for (int i = first; i < count; ++i) marked[place(addresses[i]) / 64] |= uint64_t{1} << place(addresses[i]) % 64;
    for (size_t i = 0; i < image_.dynamic.count; ++i) {
      const Elf64_Sym& symbol = image_.dynamic.symbols[i];
      const uintptr_t address = image_.bias + symbol.st_value;
      if (LIKELY((marked[place(address) / 64] >> place(address) % 64 & 1) == 0) || !IsDefinedFunction(symbol)) continue;
      for (int j = first; j < count; ++j) found |= uint64_t{addresses[j] == address} << j;
    }
    return found;
  }

  void CollectCallees(uintptr_t start, uintptr_t end, uintptr_t* visited, int* count) {
    ForBranches({start, end}, [&](const Instruction& one, uintptr_t at) {
      if (*count == kMaxVisited) return false;
      if (one.target_bytes != 4 || (one.flow != Flow::kCall && one.flow != Flow::kJump)) return true;
      const uintptr_t target = TargetAt(one, at);
      bool known = plan_.SiteAt(target) >= 0 || image_.CodeAt(target) == nullptr;
      for (int i = 0; i < *count && !known; ++i) known = visited[i] == target;
      if (!known) visited[(*count)++] = target;
      return true;
    });
  }

  const ExecutableImage& image_;
  EntryPlan& plan_;
  mutable const ExecutableImage::Segment* code_ = nullptr;  // the last one that was read
  bool refused_ = false;
  uintptr_t lowest_ = 0, highest_ = 0;
  static constexpr uintptr_t kPlaceBytes = 16, kPlaceWords = 64;
  uint64_t places_[kPlaceWords] = {};
  uint32_t allocates_ = 0, frees_ = 0;  // families, as bits
  struct Copy {
    CodeRange range;
    int name;  // of the original
  };
  static constexpr int kMaxCopies = 32;
  Copy copies_[kMaxCopies];
  int copy_count_ = 0;
  struct Helper {
    CodeRange range;
    bool calls_entries, may_be_shared, is_shared;
  };
  Helper helpers_[kMaxVisited];
  int helper_count_ = 0;
};

}  // namespace

const ExecutableImage::Segment* ExecutableImage::CodeAt(uintptr_t address) const {
  for (int i = 0; i < segment_count; ++i) {
    if (segments[i].is_code && address >= segments[i].start && address < segments[i].end) return &segments[i];
  }
  return nullptr;
}

int EntryPlan::SiteAt(uintptr_t address) const {
  for (int i = 0; i < site_count; ++i) {
    if (sites[i].address == address) return i;
  }
  return -1;
}

int EntryPlan::ChangedSiteAt(uintptr_t address) const {
  for (int i = 0; i < site_count; ++i) {
    if (IsChanged(i) && (sites[i].address == address || sites[i].first == address)) return i;
  }
  return -1;
}

bool DefinesPlainNames(const SymbolList& symbols) {
  bool allocates = false, frees = false;
  for (size_t i = 0; i < symbols.count && !(allocates && frees); ++i) {
    const Elf64_Sym& symbol = symbols.symbols[i];
    if (!IsDefinedFunction(symbol)) continue;
    const char* name = symbols.NameOf(symbol);
    allocates = allocates || strcmp(name, "malloc") == 0;
    frees = frees || strcmp(name, "free") == 0;
  }
  return allocates && frees;
}

const char* AllocatorByMessage(const char* text, size_t bytes) {
  const int found = NumberByMessage(text, bytes);
  return found >= 0 ? kAllocators[found] : nullptr;
}

bool IsOfAllocator(const char* name) {
  // Three are in jemalloc's operator new; those from retry_malloc on in gperftools' tcmalloc, where clang leaves out the L in
  // names of static functions; those from TcmallocSlab on in google/tcmalloc, from sn_ on in snmalloc. Its operators take a
  // nothrow_t that is not constant.
  static constexpr char kStarts[][40] = {"mi_",
                                         "_mi_",
                                         "je_",
                                         "_rjem_",
                                         "_Z13fallback_impl",
                                         "_Z15fallbackNewImpl",
                                         "_ZL9handleOOM",
                                         "_ZN12_GLOBAL__N_1L12retry_malloc",
                                         "_ZN12_GLOBAL__N_112retry_malloc",
                                         "_ZN12_GLOBAL__N_1L15do_malloc_pages",
                                         "_ZN12_GLOBAL__N_115do_malloc_pages",
                                         "_ZN12_GLOBAL__N_1L9do_malloc",
                                         "_ZN12_GLOBAL__N_19do_malloc",
                                         "_ZN12_GLOBAL__N_1L11do_memalign",
                                         "_ZN12_GLOBAL__N_111do_memalign",
                                         "_ZN11MallocBlock",
                                         "tc_",
                                         "_ZN22TCMallocImplementation",
                                         "TcmallocSlab_Internal_",
                                         "TCMalloc",
                                         "MallocExtension_Internal_",
                                         "sn_",
                                         "__je_bootstrap_",
                                         "reallocarr",
                                         "rallocm",
                                         "dallocm",
                                         "allocm",
                                         "_Znwm",
                                         "_Znam",
                                         "_ZdlPv",
                                         "_ZdaPv"};
  // Functions of these namespaces, and what the compiler makes of other templates for them.
  static constexpr char kScopes[][12] = {"8tcmalloc", "8snmalloc"};
  for (const auto& start : kStarts) {
    if (StartsWith(name, start)) return true;
  }
  for (const auto& scope : kScopes) {
    if (strstr(name, scope) != nullptr) return true;
  }
  return NumberOf(name) >= 0;
}

bool ConcernsAllocator(const char* name) {
  if (name[0] == '_' && name[1] == 'Z' && name[2] == 'N') return RevealsListedAllocator(name);
  return kNameFilter.slots[NameFilter::SlotOf(name)] != 0 &&
         (NumberOf(name) >= 0 || NumberOfOriginal(name) >= 0 || RevealsListedAllocator(name));
}

bool MayNameAllocator(const char* names, size_t bytes) {
  static constexpr char kFamilies[][16] = {"_rjem_malloc", "je_malloc",     "mi_malloc", "tc_malloc",
                                           "sn_malloc",    "sn_rust_alloc", "TCMalloc"};
  static constexpr char kHidden[] = "\0malloc";
  return AnyAlloc(names, bytes, [names, bytes](size_t lloc) {
    if (lloc >= 3 && lloc + 5 <= bytes && memcmp(names + lloc - 3, kHidden, sizeof kHidden) == 0) return true;
    for (const auto& name : kFamilies) {
      const size_t length = strlen(name), before = length - 4;
      if (lloc >= before && lloc + 4 <= bytes && memcmp(names + lloc - before, name, length) == 0) return true;
    }
    return false;
  });
}

int FirstAcrossPages(const EntryPlan& plan) {
  constexpr uintptr_t kPage = 4096, kJumpBytes = 5, kDistanceBytes = 4;
  const auto crosses = [](uintptr_t at, uintptr_t bytes) { return at / kPage != (at + bytes - 1) / kPage; };
  for (int i = 0; i < plan.site_count; ++i) {
    if (plan.IsChanged(i) && crosses(plan.sites[i].jump, kJumpBytes)) return i;
  }
  for (int i = 0; i < plan.call_count; ++i) {
    if (crosses(plan.calls[i].distance_at, kDistanceBytes)) return plan.calls[i].to;
  }
  for (int i = 0; i < plan.short_jump_count; ++i) {
    if (crosses(plan.short_jumps[i].range.start, kJumpBytes)) return plan.short_jumps[i].from;
  }
  return -1;
}

void MakeEntryPlan(const ExecutableImage& image, Entries wanted, EntryPlan* plan) {
  plan->outcome = {};
  plan->site_count = plan->call_count = plan->short_jump_count = plan->range_count = plan->branch_count =
      plan->read_count = 0;
  plan->is_listed = false;
  memset(plan->newest_read, 0, sizeof plan->newest_read);
  Planner(image, plan).Run(wanted);
}

}  // namespace holdfast
