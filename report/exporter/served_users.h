// Other users whose tables root's exporter takes for one output folder: those that programs of root's became, as told by
// the marks that they left behind (sampler/tables/table_owner.h). There are none for anybody but root.
#ifndef HOLDFAST_REPORT_EXPORTER_SERVED_USERS_H_
#define HOLDFAST_REPORT_EXPORTER_SERVED_USERS_H_

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "report/base/file_descriptor.h"
#include "report/export/output_folder.h"
#include "report/table/process_info.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// Whether there is such a mark for the folder of this id (not known: the one that containers share): then root's exporter, or
// `holdfast collect` as root, takes that user's tables.
bool HasMark(const std::string& tables, const std::string& out, FolderId id, uid_t user);
// That mark, and the one that containers share, if no exporter of another one holds it.
void RemoveMarks(const std::string& tables, const std::string& out, FolderId id, uid_t user);

class ServedUsers {
 public:
  ServedUsers(std::string tables, std::string out, FolderId id)
      : tables_(std::move(tables)), out_(std::move(out)), id_(id) {}

  // Looks for marks, and locks them: by that the user's programs see that they are served. `folder`: the tables.
  // A user is served who has a mark of this folder. One who has none but the mark that containers share is, too: whoever left
  // that could not see the folder, which was still to be made.
  void Look(const FileDescriptor& folder);
  // Leaves a mark, where it was seen that root is behind a process of this user; not where that user's own exporter can
  // write into the folder.
  void Vouch(const FileDescriptor& folder, uid_t user, const OutputFolder& output);
  // What these processes of root's (`run`, programs) started, or themselves are by now, without a call that the library
  // could see. They live: their pids are theirs.
  void VouchForDescendants(const FileDescriptor& folder, const std::vector<TableOwner>& ancestors,
                           const OutputFolder& output);
  bool Has(uid_t user) const { return user == geteuid() || marks_.contains(user); }
  // This user, then the others.
  template <typename Function>
  void ForEach(Function function) const {
    function(geteuid());
    for (const auto& [user, marks] : marks_) function(user);
  }
  // Removes the marks.
  void Release();
  // After Release: the marks of users that left a table meanwhile, and found theirs still there.
  void TakeBack(const FileDescriptor& folder);

 private:
  struct Marks {
    FileDescriptor own, shared;  // locked, but where another holds the lock
  };
  std::map<uid_t, uint32_t> MarksThere(const FileDescriptor& folder) const;
  void LeaveMark(FolderId id, uid_t user) const;
  void Hold(FolderId id, uid_t user, FileDescriptor& mark) const;

  std::string tables_, out_;
  FolderId id_;
  std::map<uid_t, Marks> marks_;
  std::set<uid_t> released_;
  std::set<std::string> strangers_;  // other users' tables that were looked at
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORTER_SERVED_USERS_H_
