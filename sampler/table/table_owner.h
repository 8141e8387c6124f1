// A program that root started and that becomes another user: its table becomes that user's, and root's exporter learns
// that it may take tables of that user, because nobody else may write into root's folder.
//
//   before   /dev/shm/holdfast.0.77.….table     root's                  /dev/shm/holdfast.0.<hash>.lock    root's exporter
//   after    /dev/shm/holdfast.33.77.….table    user 33's               /dev/shm/holdfast.33.<hash>.lock   root's: the marks
//                                                                       /dev/shm/holdfast.33.<hash'>.lock
//
// The marks are where an exporter of user 33 would have its lock, one for when it can see the folder and one for when
// it cannot (exporter_service.h). Their owner, root, is the proof: nobody else can make such files. The exporter
// (report/daemon/served_users.h) locks them, and reads the tables of that user with that user's rights. Called while
// the program is still root; system calls only.
#ifndef HOLDFAST_SAMPLER_TABLE_TABLE_OWNER_H_
#define HOLDFAST_SAMPLER_TABLE_TABLE_OWNER_H_

#include <cstdint>

#include "sampler/table/table_file.h"

namespace holdfast {

// Leaves the marks, unless the output folder is that user's own: then its own exporter can write there. `id`:
// identifies the folder, if known.
void MarkUser(const char* tables, const char* out, FolderId id, uint32_t user);

// Gives the table's file to the user, with a name for that user, and updates `location`. False: not possible (after
// chroot, for example); the file remains root's, marked not to be read with root's rights.
bool GiveTableTo(uint32_t user, SharedTable* table, TableLocation* location);

// Marks root's table of a program that is about to leave root's reach (chroot), by a mode that nobody else can set.
inline constexpr uint32_t kOutOfReachMode = 0400;
void MarkOutOfReach(SharedTable* table, const TableLocation& location);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_TABLE_OWNER_H_
