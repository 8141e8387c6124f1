// Lists the output folders that this user's exporters write to, in a file beside the tables:
// `<tables>/holdfast.<uid>.folders`.
//
// A pusher reads these folders for programs that ended before it saw them. The pusher creates the file; exporters add
// lines only if the file exists.
//
//   56 1234 /var/tmp/profiles        device and inode of the folder, and its path for the exporter
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_NOTED_FOLDERS_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_NOTED_FOLDERS_H_

#include <string>
#include <vector>

#include "sampler/contract/layout.h"

namespace holdfast {

struct NotedFolder {
  FolderId id;
  std::string path;
};

// Creates the file in this folder of tables.
void AskForOutputFolders(const std::string& tables);
// Adds a folder, unless the file does not exist or already has it. With more than kMaxNotedFolders, removes folders
// that no longer exist, then the oldest.
void NoteOutputFolder(const std::string& tables, const std::string& out, FolderId id);
// Returns the folders, oldest first; nothing if this user has no such file.
std::vector<NotedFolder> NotedFoldersIn(const std::string& tables);

inline constexpr size_t kMaxNotedFolders = 1000;

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_NOTED_FOLDERS_H_
