// A section of an ELF file, read in pieces on demand: for a debug file of 1 GB only a few MB are in memory at a time.
//
// Reads with pread(2) and never maps the file, because truncating a mapped file causes SIGBUS. A compressed section
// (SHF_COMPRESSED with zlib or zstd, .zdebug_*) is unpacked once, into memory up to kInMemory bytes, otherwise into an
// unnamed file in $TMPDIR or /var/tmp.
// One thread at a time. Reading past the end, or from a failing disk, returns no bytes.
#ifndef HOLDFAST_REPORT_NAMES_DWARF_SECTION_H_
#define HOLDFAST_REPORT_NAMES_DWARF_SECTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"

namespace holdfast::dwarf {

enum class Compression { kZlib, kZstd };

class Section {
 public:
  static constexpr uint64_t kInMemory = 16 << 20;
  static constexpr size_t kMaxString = 64 * 1024;
  static constexpr uint64_t kSmall = 4 << 20;  // string sections up to this size are read as a whole

  Section() = default;  // an empty section
  Section(Section&&) = default;
  Section& operator=(Section&&) = default;

  // `fd` must stay open while the section is used.
  static Section InFile(int fd, uint64_t offset, uint64_t size);
  static Section InMemory(std::string bytes);
  // Unpacks `packed_size` bytes to exactly `size` bytes; fails otherwise.
  static absl::StatusOr<Section> Unpack(Compression method, int fd, uint64_t offset, uint64_t packed_size,
                                        uint64_t size);

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Returns at least `want` bytes from `offset` on, fewer only at the end. Valid until the next call. Reads at least
  // `piece` bytes at a time; choose a larger piece if the next call will ask for the bytes that follow.
  std::string_view Window(uint64_t offset, size_t want, size_t piece = 4096);
  // For a next call near `offset`, before or after it.
  std::string_view WindowAround(uint64_t offset, size_t want, size_t piece);

  // Reads all of [offset, offset + size) into `bytes`. Returns false if the section does not contain the whole range.
  bool Read(uint64_t offset, uint64_t size, std::string* bytes) const;

  // Returns the text up to the next zero byte; "" if there is none within kMaxString.
  std::string StringAt(uint64_t offset);

 private:
  size_t ReadAt(uint64_t offset, char* to, size_t size) const;

  int fd_ = -1;
  uint64_t offset_ = 0, size_ = 0;
  std::shared_ptr<const FileDescriptor> unpacked_;  // keeps fd_ open
  std::string memory_;
  struct Piece {
    uint64_t offset = 0;
    std::string bytes;
  };
  static constexpr size_t kPieces = 4;
  std::string_view FromPieces(uint64_t offset, size_t want);
  std::string_view ReadPiece(uint64_t begin, size_t size, uint64_t offset);

  std::vector<Piece> pieces_;
  size_t latest_ = 0;
};

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_SECTION_H_
