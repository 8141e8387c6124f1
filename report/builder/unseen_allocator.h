// Names what the process itself has not found: an allocator in the executable, if the file has no names or too many;
// allocators that shared libraries keep for themselves; an mmap of the executable's own.
//
// Their blocks and mappings are in no profile, so each profile has to say so. Reads each file once, also where
// thousands of processes use it. One thread.
#ifndef HOLDFAST_REPORT_BUILDER_UNSEEN_ALLOCATOR_H_
#define HOLDFAST_REPORT_BUILDER_UNSEEN_ALLOCATOR_H_

#include "report/names/elf/loaded_files.h"
#include "report/profile/profile.h"

namespace holdfast {

// Adds to the record and the comments `allocator`. `files`: of all modules in the process's table. `searched`: what
// WasSearched of that table returns (entry_text.h).
void AddUnseenAllocator(const LoadedFiles& files, bool searched, Profile* profile);

// Reads what that function will need from a file, before children are forked that call it.
void ReadAllocatorAhead(const LoadedFiles::Key& key, const LoadedFile& file, bool is_executable);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_UNSEEN_ALLOCATOR_H_
