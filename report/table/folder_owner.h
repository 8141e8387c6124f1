// Whose the output folder is: it is made for its user alone, and one that somebody else may have put there on purpose is
// not used. Profiles hold command lines and paths; who owns a folder sees the names in it, and can remove and replace.
#ifndef HOLDFAST_REPORT_TABLE_FOLDER_OWNER_H_
#define HOLDFAST_REPORT_TABLE_FOLDER_OWNER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"

namespace holdfast {

// Makes the folder and those above that are missing, 0700 whatever the umask is. `made`: these, the outermost first.
// 0, or errno.
int MakeFolders(const std::string& path, std::vector<std::string>* made = nullptr);

// Opens the folder, if its owner may be trusted with profiles: this user, root, or who owns a place where nobody else can
// have put it (a folder of Docker's host, /home/ann/profiles). PermissionDenied: another user's folder, or link, in a
// place where everybody may put one (/tmp).
absl::StatusOr<FileDescriptor> OpenOwnFolder(const std::string& path);

// What other users may do there all the same, as the end of a sentence; "" = nothing.
std::string WhatOthersMayDo(const FileDescriptor& folder);

// "www-data (33)", or "user 33" where there is no name.
std::string UserName(uid_t user);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_FOLDER_OWNER_H_
