// What became of an allocator that is linked into the executable: whether its functions are redirected at their entry,
// and if not, why. In the flags of the executable's Module (module_flags.h), and in the result of a check of its file.
//
// For the target and its readers; no state.
#ifndef HOLDFAST_SAMPLER_CONTRACT_ENTRY_STATE_H_
#define HOLDFAST_SAMPLER_CONTRACT_ENTRY_STATE_H_

#include <cstdint>

#include "sampler/contract/module_flags.h"

namespace holdfast {

// HOLDFAST_ENTRIES
enum class Entries : uint8_t { kAuto, kYes, kNo };

// The reasons why not come last. Each has a text in kEntryReasons, at the same place.
enum class EntryReason : uint8_t {
  kNoAllocator = 0,  // the executable has none, or none with names
  kRedirected,
  kSwitchedOff,
  kHeapIsOff,
  kNotListed,
  kIncomplete,
  kNoFile,
  kThreads,
  kNoRoom,
  kNotWritable,
  kChanged,
  kTooShort,
  kCalls,
  kShortBranch,
  kResolver,
  kTwoKinds,
  kBranchedInto,
  kRestartable,
  kUnknownCode,
  kFirstMoves,
  kTwice,
  kTooFar,
  kExportedRedirected,  // as kRedirected, but functions without a name may be missing
  kHidden,
  kCopied,
  kOtherProcessor,
  kCrossesPage,  // only in a program that has threads already
  kShortJump,
  kElsewhere,  // where the debug file has it
  kMayPassOn,  // a malloc that may be the next one's caller, or an allocator
};
inline constexpr int kEntryReasonCount = 30;
// After the name of the function, or of the allocator where no function is named.
inline constexpr const char* kEntryReasons[kEntryReasonCount] = {
    "",
    "",
    "--entries is no",
    "heap profiles are switched off",
    "the allocator is none that is tested: --entries yes tries it",
    "belongs to a family that lacks a function that allocates, or one that frees",
    "the executable's file cannot be read",
    "the program already had several threads",
    "no memory is free near the executable",
    "the executable's code cannot be changed here",
    "its first bytes differ from the file: a breakpoint, a uprobe or another tool is there",
    "is too short for a jump",
    "calls another object in its first bytes (-pg does)",
    "has a loop instruction in its first bytes",
    "is chosen at run time (ifunc)",
    "shares its address with a function of another kind",
    "is branched into, just after its first instruction",
    "has a restartable sequence in its first bytes",
    "has code that is not understood",
    "begins with an instruction that cannot stay in its place",
    "is defined twice",
    "refers to data too far away",
    "",
    "is hidden: calls of it do not pass through the library",
    "has a copy (.part, .constprop) that the program may call instead",
    "entries are redirected on x86-64 only",
    "would have a jump across the end of a page, which cannot be written in one step",
    "has a jump of 2 bytes to one of these functions, which would count the call again",
    "is not where the debug file has it (BOLT keeps the build id)",
    "",
};

// The outcome, as one word: Module::unloaded has room for it beside its own bits.
struct EntryOutcome {
  EntryReason reason = EntryReason::kNoAllocator;
  uint32_t name = 0;             // 1 + number of the function in allocator_names.inc; 0: none
  uint32_t count = 0;            // of entries that are redirected, or were found
  bool replaces_malloc = false;  // kModuleReplacesMalloc

  bool has_allocator() const { return reason != EntryReason::kNoAllocator; }
  bool is_redirected() const { return reason == EntryReason::kRedirected || lacks_names(); }
  // Redirected, but only functions that .dynsym names were found.
  bool lacks_names() const { return reason == EntryReason::kExportedRedirected; }
};

inline constexpr int kEntryReasonShift = 8, kEntryNameShift = 13, kEntryCountShift = 22;
static_assert(kEntryReasonCount <= 32);
constexpr uint32_t ToModuleFlags(const EntryOutcome& outcome) {
  return static_cast<uint32_t>(outcome.reason) << kEntryReasonShift | (outcome.name & 511) << kEntryNameShift |
         (outcome.count & 1023) << kEntryCountShift | (outcome.replaces_malloc ? kModuleReplacesMalloc : 0);
}
constexpr EntryOutcome EntryOutcomeIn(uint32_t module_flags) {
  const uint32_t reason = module_flags >> kEntryReasonShift & 31;
  if (reason >= kEntryReasonCount) return {};
  return {static_cast<EntryReason>(reason), module_flags >> kEntryNameShift & 511, module_flags >> kEntryCountShift,
          (module_flags & kModuleReplacesMalloc) != 0};
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_ENTRY_STATE_H_
