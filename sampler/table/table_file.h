// Makes the table file: where it is, how large it may become, and what its header says about the process.
//
// Called by the one thread that makes the table (sampler/process/own_table.cc), with the calling thread muted. Uses system calls
// only; the descriptor is closed before the function returns.
#ifndef HOLDFAST_SAMPLER_TABLE_TABLE_FILE_H_
#define HOLDFAST_SAMPLER_TABLE_TABLE_FILE_H_

#include <cstdint>

#include "sampler/contract/options.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

struct TableLocation {
  char folder[512];
  char path[640];  // of the table file, by its final name; empty = none
  bool hidden;     // made with kSmallSuffix after it
};

// Why there is no table, for the first folder that was tried.
struct NoTable {
  char folder[512];
  const char* reason;  // "is full"
};

// Makes a new table in place, with a filled header, and renames the file to its final name. Null if no file can be
// made; then `why` is filled: no folder in memory, no space, RLIMIT_FSIZE too low, out of descriptors. `reuse`: the
// address of the parent's table in a forked child, which the new one replaces; else null. `reuse_bytes`: the size of
// the parent's table; the program's memory follows. `hidden`: the name gets kSmallSuffix if an
// exporter serves the folder.
SharedTable* MakeTable(const Options& options, SharedTable* reuse, uint64_t reuse_bytes, bool forked, bool hidden,
                       FolderId out_id, TableLocation* location, NoTable* why);

// Identifies the output folder; makes it, and those above it, if `make` and it is missing. Not known if that is not
// possible.
FolderId OutFolderId(char* path, bool make);

// Makes the exporter, which watches the folder, read the control words, by touching the file's times.
void NotifyExporter(const TableLocation& location);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_TABLE_FILE_H_
