// The output folders that exporters of this user write to, in a file beside the tables: `<tables>/holdfast.<uid>.folders`.
//
// A pusher looks into them for programs that ended before it saw them. It makes the file; exporters add a line where the file is.
//
//   56 1234 /var/tmp/profiles        device and inode of the folder, and its path where the exporter runs
#ifndef HOLDFAST_REPORT_TABLE_NOTED_FOLDERS_H_
#define HOLDFAST_REPORT_TABLE_NOTED_FOLDERS_H_

#include <string>
#include <vector>

#include "sampler/contract/layout.h"

namespace holdfast {

struct NotedFolder {
  FolderId id;
  std::string path;
};

// Makes the file in this folder of tables.
void AskForOutputFolders(const std::string& tables);
// Adds one, unless nobody asks for them or it is noted already. Beyond kMostNotedFolders those that are gone are left out,
// then the oldest.
void NoteOutputFolder(const std::string& tables, const std::string& out, FolderId id);
// The oldest first; nothing where there is no such file of this user's.
std::vector<NotedFolder> NotedFoldersIn(const std::string& tables);

inline constexpr size_t kMostNotedFolders = 1000;

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_NOTED_FOLDERS_H_
