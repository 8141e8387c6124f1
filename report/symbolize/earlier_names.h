// Names from an earlier profile of the same process, for code that could be named then and cannot now.
//
//     app.42.0003   0x55d0 → cache_session     the file was there
//     app.42.0004   0x55d0 → app!0x11d0        it was replaced, and nobody holds it open
//
// An address that means the same module in both profiles means the same function.
#ifndef HOLDFAST_REPORT_SYMBOLIZE_EARLIER_NAMES_H_
#define HOLDFAST_REPORT_SYMBOLIZE_EARLIER_NAMES_H_

#include <cstddef>

#include "report/pprof/profile.h"

namespace holdfast {

// Gives nameless locations of `profile` the functions and lines that `earlier` has for them, and drops the comments that
// their names are missing where none is missing any more. How many got names.
size_t TakeNamesFrom(const Profile& earlier, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SYMBOLIZE_EARLIER_NAMES_H_
