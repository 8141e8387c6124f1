#include "report/push/sent_note.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "report/base/file_descriptor.h"

namespace holdfast {

absl::StatusOr<SentNote> SentNote::Open(int folder, const char* name) {
  const FileDescriptor file(openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  // Backed now: a store to a page that the disk has no room for would be SIGBUS.
  const int error = file.valid() ? posix_fallocate(file.get(), 0, sizeof(Words)) : errno;
  if (error != 0) return absl::ErrnoToStatus(error, name);
  void* words = mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (words == MAP_FAILED) return absl::ErrnoToStatus(errno, name);
  return SentNote(static_cast<Words*>(words));
}

SentNote::~SentNote() {
  if (words_ != nullptr) munmap(words_, sizeof(Words));
}

}  // namespace holdfast
