#include "report/daemon/exporter_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/table_folder.h"
#include "sampler/contract/exporter_progress.h"
#include "sampler/contract/exporter_service.h"

namespace holdfast {
namespace {

uint64_t OwnNamespace() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

ExporterLock::ExporterLock(const std::string& tables, const std::string& out, FolderId id) {
  char path[kLongestLockPath];
  ExporterLockPath(tables.c_str(), out.c_str(), id, geteuid(), path, sizeof path);
  path_ = path;
}

ExporterLock::ExporterLock(const std::string& tables, const std::string& out)
    : ExporterLock(tables, out, FolderIdOf(out)) {}

bool ExporterLock::Take() {
  const uint64_t own = OwnNamespace();
  held_elsewhere_ = barred_ = false;
  // A shim that only checks whether the lock is held takes it for some microseconds, so try a few times.
  for (int attempt = 0; attempt < 5; ++attempt) {
    FileDescriptor file(open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
    struct stat held, named;
    if (!file.valid() || fstat(file.get(), &held) != 0 || held.st_uid != geteuid()) {
      // Another user's file, in the way by accident or on purpose. Remove it if permitted (as root), otherwise give up.
      if (lstat(path_.c_str(), &named) != 0 || named.st_uid == geteuid()) return false;
      barred_ = unlink(path_.c_str()) != 0;
      if (barred_) return false;
      continue;
    }
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      // The last holder may have removed the file between our open and our lock: then nobody would see this lock.
      if (lstat(path_.c_str(), &named) == 0 && held.st_ino == named.st_ino && held.st_dev == named.st_dev) {
        file_ = std::move(file);
        WriteRecord(own);
        return true;
      }
    } else {
      uint64_t holder = own;
      if (pread(file.get(), &holder, sizeof holder, 0) != sizeof holder) holder = own;
      held_elsewhere_ = holder != own;
      const timespec pause = {0, 2'000'000};
      nanosleep(&pause, nullptr);
    }
  }
  return false;
}

// Only a hint: it is missing if the disk is full.
void ExporterLock::WriteRecord(uint64_t pid_namespace) {
  ExporterRecord record = {.pid_ns = pid_namespace};
  char number[16] = {};
  pid_t pid = 0;
  if (readlink("/proc/self", number, sizeof number - 1) > 0 && absl::SimpleAtoi(number, &pid)) {
    record.start_ticks = StartTicksOf(pid).value_or(0);
    if (record.start_ticks != 0) record.pid = static_cast<uint64_t>(pid);
  }
  beat_ = nullptr;
  if (pwrite(file_.get(), &record, sizeof record, 0) != sizeof record) return;
  void* page = mmap(nullptr, sizeof record, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (page == MAP_FAILED) return;
  beat_ = reinterpret_cast<std::atomic<uint64_t>*>(static_cast<char*>(page) + offsetof(ExporterRecord, beat));
}

void ExporterLock::Release() {
  if (!file_.valid()) return;
  unlink(path_.c_str());  // while locked, so that only our own file is removed
  file_.Close();
}

bool IsLockHeld(const std::string& tables, const std::string& out, FolderId id, uint32_t user) {
  char path[kLongestLockPath];
  ExporterLockPath(tables.c_str(), out.c_str(), id, user, path, sizeof path);
  const FileDescriptor file(open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  return file.valid() && flock(file.get(), LOCK_EX | LOCK_NB) != 0;
}

}  // namespace holdfast
