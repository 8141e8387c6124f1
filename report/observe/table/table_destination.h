// Decides whether a table's profiles belong in this folder. Two containers that share /dev/shm may each have a folder
// with the same path.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_TABLE_DESTINATION_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_TABLE_DESTINATION_H_

#include <string>

#include "report/observe/table/table_folder.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// `out`, `id`: the folder as seen here.
//
//   the table has its folder's id                          compare ids
//   it has none, because its user cannot see the folder:
//     its program ran in our mount namespace               compare paths
//     its process runs and is visible                      compare the folder that the path names for the process; if
//                                                          there is none, compare paths
//     otherwise                                            no: its own container has an exporter
bool GoesTo(const TableFile& table, const std::string& out, FolderId id);
bool GoesTo(const FoundTable& table, const std::string& out, FolderId id);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_TABLE_DESTINATION_H_
