// Names an allocator in the executable that the process itself has not found, because the file has no names or too many.
//
// What such an allocator gives out is in no profile, so each profile has to say so. Reads each executable once, also
// where thousands of processes run it. One thread.
#ifndef HOLDFAST_REPORT_BUILDER_UNSEEN_ALLOCATOR_H_
#define HOLDFAST_REPORT_BUILDER_UNSEEN_ALLOCATOR_H_

#include "report/names/elf/loaded_files.h"
#include "report/profile/profile.h"

namespace holdfast {

// Adds the record and the comment `allocator`, unless the process recorded them.
void AddUnseenAllocator(const LoadedFiles& files, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_UNSEEN_ALLOCATOR_H_
