// Which entry is under way, and which was the last that the server took: two words in a file that is mapped, so that they are
// noted by one store each, before the request and as soon as its answer is read, and outlive a pusher that is killed.
#ifndef HOLDFAST_REPORT_PUSH_SENT_NOTE_H_
#define HOLDFAST_REPORT_PUSH_SENT_NOTE_H_

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"

namespace holdfast {

class SentNote {
 public:
  // In `folder`, as `name`; made where there is none.
  static absl::StatusOr<SentNote> Open(int folder, const char* name);
  ~SentNote();
  SentNote(SentNote&& other) noexcept : words_(other.words_) { other.words_ = nullptr; }
  SentNote& operator=(SentNote&&) = delete;

  void Begin(uint64_t entry) { words_->under_way.store(entry, std::memory_order_release); }
  // The server has it.
  void Done(uint64_t entry) { words_->answered.store(entry, std::memory_order_release); }

  uint64_t answered() const { return words_->answered.load(std::memory_order_acquire); }
  // 0: none. Of one that was under way when its pusher was killed nobody knows whether the server took it.
  uint64_t under_way() const {
    const uint64_t entry = words_->under_way.load(std::memory_order_acquire);
    return entry == answered() ? 0 : entry;
  }

 private:
  struct Words {
    std::atomic<uint64_t> under_way, answered;
  };
  explicit SentNote(Words* words) : words_(words) {}
  Words* words_;
};

inline absl::StatusOr<SentNote> SentNote::Open(int folder, const char* name) {
  const FileDescriptor file(openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  // Backed now: a store to a page that the disk has no room for would be SIGBUS.
  const int error = file.valid() ? posix_fallocate(file.get(), 0, sizeof(Words)) : errno;
  if (error != 0) return absl::ErrnoToStatus(error, name);
  void* words = mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (words == MAP_FAILED) return absl::ErrnoToStatus(errno, name);
  return SentNote(static_cast<Words*>(words));
}

inline SentNote::~SentNote() {
  if (words_ != nullptr) munmap(words_, sizeof(Words));
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_SENT_NOTE_H_
