// Names of locks that are global variables: `lock N name: …` comments (report/lock_records/lock_comments.h).
//
//   lock 1 name: queue_mutex (server)      the symbol that holds it; inside of one: queues+64 (server)
//   lock 3 name: server.accounts_[3].mutex (server)     a member of it, by the debug information (report/dwarf/members.h)
//   lock 4 member: bank::Server::accounts_mutex_ (server)     in a block on the heap (block_members.h)
//   lock 2 name: memcached!0x4a080         no symbol does: its address in the file, equal from run to run
#ifndef HOLDFAST_REPORT_LOCK_RECORDS_LOCK_NAMES_H_
#define HOLDFAST_REPORT_LOCK_RECORDS_LOCK_NAMES_H_

#include "report/elf/debug_file_finder.h"
#include "report/elf/loaded_files.h"
#include "report/pprof/profile.h"
#include "report/table/snapshot.h"

namespace holdfast {

// What the exporter writes. Reads the symbols of data from the files of the modules that hold locks; one file at a time,
// each looked at once; members where the file itself has debug information, if there is time. Of a file that is not there, or is another
// than the program had loaded, only addresses are known. `files`: those of the process that are held open.
void WriteLockNames(const Snapshot& snapshot, Profile* profile, const LoadedFiles* files = nullptr);

// What `holdfast symbolize` adds: names for addresses in files, also from debug files, with members.
void CompleteLockNames(Profile* profile, DebugFileFinder& files);
// And of those in blocks, once the functions are named.
void CompleteBlockNames(Profile* profile, DebugFileFinder& files);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LOCK_RECORDS_LOCK_NAMES_H_
