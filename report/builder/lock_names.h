// Names of locks that are global variables, in the records (Lock.name, or Lock.file and file_address).
//
//   queue_mutex (server)                   the symbol that contains the lock; inside of one: queues+64 (server)
//   server.accounts_[3].mutex (server)     a member of it, by the debug information (report/names/dwarf/members.h)
//   memcached and 0x4a080                  no symbol contains it: its address in the file, equal from run to run
#ifndef HOLDFAST_REPORT_BUILDER_LOCK_NAMES_H_
#define HOLDFAST_REPORT_BUILDER_LOCK_NAMES_H_

#include "report/names/elf/debug_file_finder.h"
#include "report/names/elf/loaded_files.h"
#include "report/observe/process_state.h"
#include "report/profile/profile.h"

namespace holdfast {

// For the exporter. Reads the data symbols from the files of the modules that contain locks, one file at a time and
// each file once. Names members if the file itself has debug information and there is time. If a file is missing or
// differs from the one that the program loaded, only addresses are written. `files`: the files of the process that are
// held open.
void WriteLockNames(const ProcessState& state, Profile* profile, const LoadedFiles* files = nullptr);

// For the exporter, before it builds the profiles: finds which locks are in one symbol or array, if there are more locks
// than a profile lists singly. Sets WaitGraph::lock_classes.
void FindLockClasses(const LoadedFiles* files, ProcessState* state);

// For `holdfast symbolize`: names addresses in files, also from debug files, with members.
void CompleteLockNames(Profile* profile, DebugFileFinder& files);
// The same for locks in blocks, once the functions have names.
void CompleteBlockNames(Profile* profile, DebugFileFinder& files);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_LOCK_NAMES_H_
