// Names locks that are global variables, in `lock N name: …` comments (report/lock_records/lock_comments.h).
//
//   lock 1 name: queue_mutex (server)      the symbol that contains it; inside a symbol: queues+64 (server)
//   lock 3 name: server.accounts_[3].mutex (server)     a member, from debug information (report/dwarf/members.h)
//   lock 4 member: bank::Server::accounts_mutex_ (server)     in a heap block (block_members.h)
//   lock 2 name: memcached!0x4a080         no symbol: its address in the file, equal from run to run
#ifndef HOLDFAST_REPORT_LOCK_RECORDS_LOCK_NAMES_H_
#define HOLDFAST_REPORT_LOCK_RECORDS_LOCK_NAMES_H_

#include "report/elf/debug_file_finder.h"
#include "report/elf/loaded_files.h"
#include "report/pprof/profile.h"
#include "report/table/snapshot.h"

namespace holdfast {

// For the exporter. Reads the data symbols from the files of the modules that contain locks, one file at a time and
// each file once. Names members if the file itself has debug information and there is time. If a file is missing or
// differs from the one that the program loaded, only addresses are written. `files`: the files of the process that are
// held open.
void WriteLockNames(const Snapshot& snapshot, Profile* profile, const LoadedFiles* files = nullptr);

// For `holdfast symbolize`: names addresses in files, also from debug files, with members.
void CompleteLockNames(Profile* profile, DebugFileFinder& files);
// The same for locks in blocks, once the functions have names.
void CompleteBlockNames(Profile* profile, DebugFileFinder& files);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LOCK_RECORDS_LOCK_NAMES_H_
