// Takes names from an earlier profile of the same process, for code that could be named then and cannot be named now.
//
//     app.42.0003   0x55d0 → cache_session     the file existed
//     app.42.0004   0x55d0 → app!0x11d0        the file was replaced, and nobody holds it open
//
// If both profiles have the same module at an address, they have the same function there.
#ifndef HOLDFAST_REPORT_NAMES_SYMBOLIZE_EARLIER_NAMES_H_
#define HOLDFAST_REPORT_NAMES_SYMBOLIZE_EARLIER_NAMES_H_

#include <cstddef>

#include "report/profile/profile.h"

namespace holdfast {

// Gives unnamed locations of `profile` the functions and lines that `earlier` has for them. Drops the comments about
// missing names that no longer apply. Returns the number of locations that got names.
size_t TakeNamesFrom(const Profile& earlier, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_SYMBOLIZE_EARLIER_NAMES_H_
