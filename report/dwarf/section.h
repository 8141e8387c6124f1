// A section of an ELF file, read in the pieces that are asked for: of a debug file of 1 GB a few MB are ever in memory.
//
// Read with pread(2), never mapped: a mapped file that is cut short meanwhile is SIGBUS. A compressed section
// (SHF_COMPRESSED with zlib or zstd, .zdebug_*) is unpacked once, into memory up to kInMemory, else into an unnamed file in
// $TMPDIR or /var/tmp.
// One thread at a time. Reading past the end, or a failing disk, gives no bytes.
#ifndef HOLDFAST_REPORT_DWARF_SECTION_H_
#define HOLDFAST_REPORT_DWARF_SECTION_H_

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
  static constexpr uint64_t kSmall = 4 << 20;  // sections of strings up to here are read as a whole

  Section() = default;  // an empty one
  Section(Section&&) = default;
  Section& operator=(Section&&) = default;

  // `fd` must stay open as long as the section is used.
  static Section InFile(int fd, uint64_t offset, uint64_t size);
  static Section InMemory(std::string bytes);
  // Unpacks `packed_size` bytes to `size`; fails when it is not that many.
  static absl::StatusOr<Section> Unpack(Compression method, int fd, uint64_t offset, uint64_t packed_size,
                                        uint64_t size);

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // At least `want` bytes from `offset` on, fewer only at the end. Valid until the next call. What has to be read is
  // read in pieces of `piece` bytes at least: a larger one pays where the next call will be for what lies behind.
  std::string_view Window(uint64_t offset, size_t want, size_t piece = 4096);
  // The same where the next call will be for something near, before or behind.
  std::string_view WindowAround(uint64_t offset, size_t want, size_t piece);

  // The whole of [offset, offset + size) in `bytes`; false when the section does not have it.
  bool Read(uint64_t offset, uint64_t size, std::string* bytes) const;

  // The text up to the next zero; "" when there is none within kMaxString.
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

#endif  // HOLDFAST_REPORT_DWARF_SECTION_H_
