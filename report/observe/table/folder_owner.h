// Checks who owns the output folder. The folder is created for its user only, and one that another user may have
// planted is not used. Profiles contain command lines and paths. A folder's owner sees the file names in it, and can
// remove and replace files.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_FOLDER_OWNER_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_FOLDER_OWNER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"

namespace holdfast {

// Makes the folder and its missing parents with mode 0700, whatever the umask is. `made`: the new folders, outermost
// first. Returns 0, or errno.
int MakeFolders(const std::string& path, std::vector<std::string>* made = nullptr);

// Opens the folder if its owner may be trusted with profiles: this user, root, or the owner of a place where nobody
// else can create folders (a folder of Docker's host, /home/ann/profiles). PermissionDenied: another user's folder or
// link, in a place where everybody can create one (/tmp).
absl::StatusOr<FileDescriptor> OpenOwnFolder(const std::string& path);

// Returns what other users may nevertheless do there, as the end of a sentence; "" = nothing.
std::string RightsOfOthers(const FileDescriptor& folder);

// "www-data (33)", or "user 33" for a user without a name.
std::string UserName(uid_t user);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_FOLDER_OWNER_H_
