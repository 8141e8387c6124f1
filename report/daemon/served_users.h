// The other users that root's exporter serves for one output folder: root's programs became these users and left marks
// (sampler/table/table_owner.h). Only root has such users.
#ifndef HOLDFAST_REPORT_DAEMON_SERVED_USERS_H_
#define HOLDFAST_REPORT_DAEMON_SERVED_USERS_H_

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "report/base/file_descriptor.h"
#include "report/builder/output_folder.h"
#include "report/observe/table/process_info.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// Returns whether there is such a mark for the folder with this id (unknown: the mark shared by containers). If there
// is, root's exporter, or `holdfast collect` as root, takes that user's tables.
bool HasMark(const std::string& tables, const std::string& out, FolderId id, uid_t user);
// Removes that mark, and the shared one if no exporter of another container holds it.
void RemoveMarks(const std::string& tables, const std::string& out, FolderId id, uid_t user);

class ServedUsers {
 public:
  ServedUsers(std::string tables, std::string out, FolderId id)
      : tables_(std::move(tables)), out_(std::move(out)), id_(id) {}

  // Looks for marks and locks them; the lock tells the user's programs that they are served. `folder`: the tables. A
  // user with a mark of this folder is served. So is a user with only the shared mark: the program that left it could
  // not see the folder, which did not exist yet.
  void Look(const FileDescriptor& folder);
  // The same for a folder that was just listed.
  void Look(const FileDescriptor& folder, const std::vector<std::string>& names);
  // Leaves a mark for a user with a process that comes from root, unless that user's own exporter can write into the
  // folder.
  void Vouch(const FileDescriptor& folder, uid_t user, const OutputFolder& output);
  // Does this for processes that these processes of root's (`run`, programs) started, or became, without a call that
  // the library could see. They must be alive, so that their pids are valid.
  void VouchForDescendants(const FileDescriptor& folder, const std::vector<TableOwner>& ancestors,
                           const OutputFolder& output);
  bool Has(uid_t user) const { return user == geteuid() || marks_.contains(user); }
  // This user, then the others.
  template <typename Function>
  void ForEach(Function function) const {
    function(geteuid());
    for (const auto& [user, marks] : marks_) function(user);
  }
  template <typename Function>
  void ForEachMark(Function function) const {
    for (const auto& [user, marks] : marks_) {
      if (marks.own.valid()) function(marks.own);
      if (marks.shared.valid()) function(marks.shared);
    }
  }
  // Removes the marks.
  void Release();
  // After Release: creates the marks again for users with a table that appeared meanwhile and still saw its mark.
  void TakeBack(const FileDescriptor& folder);

 private:
  struct Marks {
    FileDescriptor own, shared;  // locked, unless another process holds the lock
  };
  std::map<uid_t, uint32_t> MarksAmong(const FileDescriptor& folder, const std::vector<std::string>& names) const;
  void LeaveMark(FolderId id, uid_t user) const;
  void Hold(FolderId id, uid_t user, FileDescriptor& mark) const;

  std::string tables_, out_;
  FolderId id_;
  std::map<uid_t, Marks> marks_;
  std::set<uid_t> released_;
  std::set<std::string> strangers_;  // other users' tables that were examined
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_SERVED_USERS_H_
