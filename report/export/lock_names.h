// Names of locks that are global variables: the exporter adds `lock N name: …` comments (report/export/lock_comments.h).
#ifndef HOLDFAST_REPORT_EXPORT_LOCK_NAMES_H_
#define HOLDFAST_REPORT_EXPORT_LOCK_NAMES_H_

#include "report/pprof/profile.h"
#include "report/table/snapshot.h"

namespace holdfast {

// Reads the symbols of data from the files of the modules that hold locks; one file at a time, each looked at once. A file
// that is not there, or is another than the program had loaded, gives no names.
void NameLocks(const Snapshot& snapshot, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_LOCK_NAMES_H_
