// Describes an allocator that is linked into the executable, for comments, doctor and run.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_ENTRY_TEXT_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_ENTRY_TEXT_H_

#include <string>
#include <string_view>

#include "report/observe/table/snapshot.h"
#include "sampler/contract/entry_state.h"

namespace holdfast {

// The executable's, as the process recorded it.
EntryOutcome EntryOutcomeOf(const TableSnapshot& snapshot);
// Why the heap profile lacks allocations or frees of the executable's redirected allocator; "": nothing is known to be
// missing.
std::string WhyIncomplete(const TableSnapshot& snapshot);
// The same from the outcome alone, as a check of the file finds it.
std::string WhyIncomplete(const EntryOutcome& outcome);

// Whether functions that are named like an allocator's may only pass their calls on to malloc.
inline bool MayPassOn(const EntryOutcome& outcome) {
  return outcome.reason == EntryReason::kMayPassOn || (outcome.reason == EntryReason::kNotListed && outcome.name != 0);
}
// "all 27 functions of the executable's allocator are redirected at their entry", or
// "the executable's allocator is not seen: realloc is too short for a jump". "": there is none.
std::string EntryText(const EntryOutcome& outcome);
// The same for a malloc that only .symtab has.
std::string HiddenAllocatorText();
// The same for such a function, if the executable lacks calls that every tested allocator has.
std::string NamedLikeAllocatorText(std::string_view function);
// The same for an allocator with such a function that is not redirected. `searched`: what WasSearched returns.
std::string UnseenAllocatorText(std::string_view function, bool searched);
// Whether the process has looked for all functions that can be redirected (--entries yes).
bool WasSearched(const TableSnapshot& snapshot);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_ENTRY_TEXT_H_
