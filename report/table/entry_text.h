// What is said of an allocator that is linked into the executable, in comments, by doctor and by run.
#ifndef HOLDFAST_REPORT_TABLE_ENTRY_TEXT_H_
#define HOLDFAST_REPORT_TABLE_ENTRY_TEXT_H_

#include <string>

#include "report/table/snapshot.h"
#include "sampler/contract/entry_state.h"

namespace holdfast {

// The executable's, as the process recorded it.
EntryOutcome EntryOutcomeOf(const Snapshot& snapshot);
// Whether its allocator returned a block that still counted as in use.
bool FreesAreInlined(const Snapshot& snapshot);

// "all 27 functions of the executable's allocator are redirected at their entry", or
// "the executable's allocator is not seen: realloc is too short for a jump". "": there is none.
std::string EntryText(const EntryOutcome& outcome);

inline constexpr char kInlinedText[] =
    "the executable's allocator returned a block that still counted as in use: some of its functions are inlined "
    "(-flto), so allocations are undercounted, and freed blocks count as live";

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_ENTRY_TEXT_H_
