#include "sampler/table/table_owner.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "sampler/contract/exporter_service.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/table/table_room.h"

namespace holdfast {
namespace {

// Others may be able to write to the folder: only a file with this very table is touched.
long OpenOwn(SharedTable* table, const TableLocation& location) {
  const long fd =
      RawSyscall(SYS_openat, AT_FDCWD, location.path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (SyscallFailed(fd)) return fd;
  struct stat info;
  uint64_t image = 0;
  const bool own = !SyscallFailed(RawSyscall(SYS_fstat, fd, &info)) && S_ISREG(info.st_mode) && info.st_uid == 0 &&
                   info.st_nlink == 1 &&
                   RawSyscall(SYS_pread64, fd, &image, sizeof image, offsetof(TableHeader, image)) == sizeof image &&
                   image == table->header()->image;
  if (own) return fd;
  RawSyscall(SYS_close, fd);
  return -1;
}

void LeaveMark(const char* tables, const char* out, FolderId id, uint32_t user) {
  struct stat info;
  char path[kLongestLockPath];
  MarkPath(tables, out, id, user, path, sizeof path);
  // Two rounds: a file in the way may be another user's, and is removed.
  for (int round = 0; round < 2; ++round) {
    const long fd = RawSyscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd >= 0) {
      RawSyscall(SYS_fchmod, fd, 0644);  // whatever the umask is: that user checks whether it is locked
      RawSyscall(SYS_close, fd);
      return;
    }
    if (fd != -17 /*EEXIST*/ || SyscallFailed(RawSyscall(SYS_newfstatat, AT_FDCWD, path, &info, AT_SYMLINK_NOFOLLOW)))
      return;
    if (info.st_uid == 0) return;
    RawSyscall(SYS_unlinkat, AT_FDCWD, path, 0);
  }
}

}  // namespace

void MarkUser(const char* tables, const char* out, FolderId id, uint32_t user) {
  struct stat info;
  if (!SyscallFailed(RawSyscall(SYS_newfstatat, AT_FDCWD, out, &info, 0))) {
    if (info.st_uid == user) return;
    if (!id.known()) id = {info.st_dev, info.st_ino};
  }
  // The one shared by containers comes last: an exporter that finds only that one takes it for its own.
  if (id.known()) LeaveMark(tables, out, id, user);
  LeaveMark(tables, out, FolderId{}, user);
}

bool GiveTableTo(uint32_t user, SharedTable* table, TableLocation* location) {
  const long fd = OpenOwn(table, *location);
  if (fd < 0) return false;
  const bool given = !SyscallFailed(RawSyscall(SYS_fchown, fd, user, -1));
  RawSyscall(SYS_close, fd);
  if (!given) return false;
  table->header()->uid = user;
  TablesAreOf(user);
  // "…/holdfast.0.77.…" → "…/holdfast.33.77.…"
  const char* name = location->path + TextLength(location->folder) + 1 + TextLength(kTablePrefix);
  while (*name >= '0' && *name <= '9') ++name;
  TextBuffer<sizeof location->path> path;
  path.Add(location->folder).Add("/").Add(kTablePrefix).AddNumber(user).Add(name);
  if (!SyscallFailed(RawSyscall(SYS_renameat, AT_FDCWD, location->path, AT_FDCWD, path.text()))) {
    CopyText(location->path, sizeof location->path, path.text());
  }
  return true;
}

void MarkOutOfReach(SharedTable* table, const TableLocation& location) {
  const long fd = OpenOwn(table, location);
  if (fd < 0) return;
  RawSyscall(SYS_fchmod, fd, kOutOfReachMode);
  RawSyscall(SYS_close, fd);
}

}  // namespace holdfast
