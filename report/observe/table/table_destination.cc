#include "report/observe/table/table_destination.h"

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "report/observe/table/process_info.h"

namespace holdfast {
namespace {

uint64_t OwnMountNamespace() {
  struct stat info;
  return stat("/proc/self/ns/mnt", &info) == 0 ? info.st_ino : 0;
}

// For a table without the folder's id, but with the mount namespace of its program: `named.device`.
template <typename IsDead>
bool SeesFolder(const TableOwner& owner, IsDead is_dead, FolderId named, const std::string& out, FolderId id) {
  const uint64_t own = OwnMountNamespace();
  if (named.device == 0 || own == 0 || named.device == own) return true;
  const std::optional<pid_t> pid = FindProcess(owner);
  if (!pid.has_value() || is_dead()) return false;
  const FolderId seen = FolderIdOf(absl::StrCat("/proc/", *pid, "/root", out));
  return !seen.known() || seen == id;
}

template <typename IsDead>
bool OwnerGoesTo(const TableOwner& owner, IsDead is_dead, FolderId named, const std::string& out, FolderId id) {
  if (!id.known() || named == id) return true;
  return !named.known() && SeesFolder(owner, is_dead, named, out, id);
}

}  // namespace

bool GoesTo(const TableFile& table, const std::string& out, FolderId id) {
  const auto is_dead = [&table] { return table.liveness() == Liveness::kDead; };
  return table.out() == out && OwnerGoesTo(table.owner(), is_dead, table.out_id(), out, id);
}

bool GoesTo(const FoundTable& table, const std::string& out, FolderId id) {
  const auto is_dead = [&table] { return table.liveness == Liveness::kDead; };
  return table.out == out && OwnerGoesTo(table.owner, is_dead, table.out_id, out, id);
}

}  // namespace holdfast
