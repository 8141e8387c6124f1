#include "sampler/contract/exporter_service.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"

namespace holdfast {

namespace {

constexpr uint64_t Mix(uint64_t hash, uint8_t byte) { return (hash ^ byte) * 0x100000001b3; }  // FNV-1a

}  // namespace

uint64_t OutHash(const char* out) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char* at = out; *at != '\0'; ++at) hash = Mix(hash, static_cast<uint8_t>(*at));
  return hash;
}

void ExporterLockPath(const char* tables, const char* out, FolderId id, uint32_t uid, char* path, uint64_t capacity,
                      uint32_t version) {
  uint64_t hash = OutHash(out);
  if (!id.known()) id = {};
  const uint64_t numbers[] = {id.device, id.inode, version};
  for (uint64_t number : numbers) {
    for (int i = 0; i < 8; ++i, number >>= 8) hash = Mix(hash, static_cast<uint8_t>(number));
  }
  TextBuffer<kLongestLockPath> text;
  text.Add(tables).Add("/").Add(kTablePrefix).AddNumber(uid).Add(".").AddHex16(hash).Add(".lock");
  CopyText(path, capacity, text.text());
}

namespace {

// Another user's file proves nothing, whoever has locked it: waiting for it would cost 2 s at every exit.
Service ServiceAt(const char* path, uint32_t uid) {
  struct stat info;
  const long fd = RawSyscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (SyscallFailed(fd)) {
    // Root removes what is in the way. Only a process that is another user for a while meets root's own lock.
    if (uid == 0 || SyscallFailed(RawSyscall(SYS_newfstatat, AT_FDCWD, path, &info, AT_SYMLINK_NOFOLLOW)))
      return Service::kNobody;
    return info.st_uid == uid ? Service::kNobody : Service::kBarred;
  }
  Service service = Service::kNobody;
  if (!SyscallFailed(RawSyscall(SYS_fstat, fd, &info))) {
    if (info.st_uid != uid && info.st_uid != 0) {
      if (uid != 0) service = Service::kBarred;
    } else if (RawSyscall(SYS_flock, fd, LOCK_EX | LOCK_NB) == -11 /*EAGAIN*/) {
      service = Service::kServed;
    } else if (uid != 0 && info.st_uid == 0) {
      service = Service::kByRoot;
    }
  }
  RawSyscall(SYS_close, fd);
  return service;
}

}  // namespace

Service ServiceOf(const char* tables, const char* out, FolderId id) {
  const auto uid = static_cast<uint32_t>(RawSyscall(SYS_geteuid));
  char path[kLongestLockPath];
  ExporterLockPath(tables, out, id, uid, path, sizeof path);
  return ServiceAt(path, uid);
}

void AnnounceTable(const char* tables, const char* out, FolderId id) {
  char path[kLongestLockPath];
  ExporterLockPath(tables, out, id, static_cast<uint32_t>(RawSyscall(SYS_geteuid)), path, sizeof path);
  RawSyscall(SYS_utimensat, AT_FDCWD, path, 0, AT_SYMLINK_NOFOLLOW);
}

}  // namespace holdfast
