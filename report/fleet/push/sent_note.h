// Records which entries are under way and which the server accepted, as words in a mapped file. Each record is a single
// store, before the request and as soon as its answer is read, and survives the death of the pusher.
//
// An entry uses the word at its number modulo kWords; the word contains the number. A newer entry replaces an old one;
// the old one's file no longer exists by then.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_SENT_NOTE_H_
#define HOLDFAST_REPORT_FLEET_PUSH_SENT_NOTE_H_

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"

namespace holdfast {

class SentNote {
 public:
  // Opens the file `name` in `folder`. Creates it if necessary.
  static absl::StatusOr<SentNote> Open(int folder, const char* name);
  ~SentNote();
  SentNote(SentNote&& other) noexcept : words_(other.words_) { other.words_ = nullptr; }
  SentNote& operator=(SentNote&&) = delete;

  void Begin(uint64_t entry) { WordOf(entry).store(entry << 2 | kUnderWay, std::memory_order_release); }
  // The server has the entry.
  void Done(uint64_t entry) { WordOf(entry).store(entry << 2 | kTaken, std::memory_order_release); }
  // The server rejected the entry, or was not reached.
  void NotTaken(uint64_t entry) {
    if (under_way(entry)) WordOf(entry).store(0, std::memory_order_release);
  }

  bool answered(uint64_t entry) const { return Read(entry) == (entry << 2 | kTaken); }
  // After a pusher was killed, it is unknown whether the server accepted such an entry.
  bool under_way(uint64_t entry) const { return Read(entry) == (entry << 2 | kUnderWay); }
  // Returns the highest recorded number, or 0.
  uint64_t newest() const {
    uint64_t newest = 0;
    for (size_t i = 0; i < kWords; ++i) newest = std::max(newest, words_[i].load(std::memory_order_acquire) >> 2);
    return newest;
  }

 private:
  static constexpr size_t kWords = 4096, kBytes = kWords * sizeof(uint64_t);  // many more than are ever under way
  static constexpr uint64_t kUnderWay = 1, kTaken = 2;
  using Word = std::atomic<uint64_t>;

  explicit SentNote(Word* words) : words_(words) {}
  Word& WordOf(uint64_t entry) { return words_[entry % kWords]; }
  uint64_t Read(uint64_t entry) const { return words_[entry % kWords].load(std::memory_order_acquire); }

  Word* words_;
};

inline absl::StatusOr<SentNote> SentNote::Open(int folder, const char* name) {
  const FileDescriptor file(openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  // Allocate the blocks now: a store to a page for which the disk has no room would raise SIGBUS.
  const int error = file.valid() ? posix_fallocate(file.get(), 0, kBytes) : errno;
  if (error != 0) return absl::ErrnoToStatus(error, name);
  void* words = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (words == MAP_FAILED) return absl::ErrnoToStatus(errno, name);
  return SentNote(static_cast<Word*>(words));
}

inline SentNote::~SentNote() {
  if (words_ != nullptr) munmap(words_, kBytes);
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_SENT_NOTE_H_
