// Whether a table's profiles go into this folder. Two containers that share /dev/shm may each have one of the same path.
#ifndef HOLDFAST_REPORT_TABLE_TABLE_DESTINATION_H_
#define HOLDFAST_REPORT_TABLE_TABLE_DESTINATION_H_

#include <string>

#include "report/table/table_folder.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// `out`, `id`: of the folder, as it is here.
//
//   the table knows its folder's id                        by that
//   it does not, as its user cannot see the folder:
//     its program ran in our own mount namespace           by the path
//     its process lives, and we see it                     by what that path names for the process; nothing: by the path
//     neither                                              no: its own container has an exporter
bool GoesTo(const TableFile& table, const std::string& out, FolderId id);
bool GoesTo(const FoundTable& table, const std::string& out, FolderId id);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_TABLE_DESTINATION_H_
