#include "report/names/dwarf/section.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "fmt/format.h"
#include "report/names/dwarf/unpacker.h"

namespace holdfast::dwarf {
namespace {

constexpr size_t kUnpackStep = 1 << 20;

bool WriteAll(int fd, const char* from, size_t size) {
  while (size > 0) {
    const ssize_t put = write(fd, from, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from += put;
    size -= static_cast<size_t>(put);
  }
  return true;
}

FileDescriptor UnnamedFile() {
  const char* folder = std::getenv("TMPDIR");
  return FileDescriptor(
      open(folder != nullptr && *folder != 0 ? folder : "/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

}  // namespace

Section Section::InFile(int fd, uint64_t offset, uint64_t size) {
  Section section;
  section.fd_ = fd;
  section.offset_ = offset;
  section.size_ = size;
  return section;
}

Section Section::InMemory(std::string bytes) {
  Section section;
  section.memory_ = std::move(bytes);
  section.size_ = section.memory_.size();
  return section;
}

absl::StatusOr<Section> Section::Unpack(Compression method, int fd, uint64_t offset, uint64_t packed_size,
                                        uint64_t size) {
  // Reject a header with a size that the compression method cannot produce from this many bytes.
  const uint64_t most_of_one = method == Compression::kZlib ? 1100 : 100'000;
  if (size / most_of_one > packed_size) return absl::DataLossError("a damaged compressed section");
  const bool in_memory = size <= kInMemory;
  if (in_memory && method == Compression::kZlib && packed_size <= kInMemory) {
    std::string packed(packed_size, '\0');
    packed.resize(PreadAll(fd, packed.data(), packed.size(), offset));
    std::optional<std::string> bytes = UnpackZlib(packed, size);
    if (!bytes.has_value()) return absl::DataLossError("a damaged compressed section");
    return InMemory(*std::move(bytes));
  }
  FileDescriptor file;
  if (!in_memory) {
    file = UnnamedFile();
    if (!file.valid()) {
      return absl::UnavailableError(
          fmt::format("no temporary file for a compressed section ({})", std::strerror(errno)));
    }
  }
  const std::unique_ptr<Unpacker> unpacker = MakeUnpacker(method);
  if (unpacker == nullptr) return absl::ResourceExhaustedError("no memory to unpack a compressed section");
  std::string memory;
  std::string packed(std::min<uint64_t>(packed_size, kUnpackStep), '\0'), unpacked(kUnpackStep, '\0');
  std::string_view rest;
  uint64_t read = 0, made = 0;
  bool ended = false;
  while (!ended && made <= size) {
    if (rest.empty() && read < packed_size) {
      const size_t got =
          PreadAll(fd, packed.data(), std::min<uint64_t>(packed.size(), packed_size - read), offset + read);
      if (got == 0) break;
      read += got;
      rest = std::string_view(packed).substr(0, got);
    }
    const std::optional<Unpacker::Step> step = unpacker->Next(rest, &unpacked);
    if (!step.has_value() || (step->taken == 0 && step->made == 0)) break;
    rest.remove_prefix(step->taken);
    made += step->made;
    // zstd data may consist of several frames.
    ended = step->ended && rest.empty() && read == packed_size;
    if (in_memory) {
      memory.append(unpacked, 0, step->made);
    } else if (!WriteAll(file.get(), unpacked.data(), step->made)) {
      return absl::UnavailableError(
          fmt::format("a compressed section could not be unpacked ({})", std::strerror(errno)));
    }
    if (step->ended && method == Compression::kZlib) ended = true;
  }
  if (!ended || made != size) return absl::DataLossError("a damaged compressed section");
  if (in_memory) return InMemory(std::move(memory));
  auto kept = std::make_shared<FileDescriptor>(std::move(file));
  Section section = InFile(kept->get(), 0, size);
  section.unpacked_ = std::move(kept);
  return section;
}

size_t Section::ReadAt(uint64_t offset, char* to, size_t size) const {
  if (offset >= size_) return 0;
  size = std::min<uint64_t>(size, size_ - offset);
  if (fd_ >= 0) return PreadAll(fd_, to, size, offset_ + offset);
  std::memcpy(to, memory_.data() + offset, size);
  return size;
}

std::string_view Section::FromPieces(uint64_t offset, size_t want) {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const size_t index = (latest_ + i) % pieces_.size();
    const Piece& piece = pieces_[index];
    const uint64_t end = piece.offset + piece.bytes.size();
    if (offset < piece.offset || offset >= end || (end - offset < want && end < size_)) continue;
    latest_ = index;
    return std::string_view(piece.bytes).substr(offset - piece.offset);
  }
  return {};
}

std::string_view Section::ReadPiece(uint64_t begin, size_t size, uint64_t offset) {
  if (pieces_.size() < kPieces) pieces_.emplace_back();
  // Replace the piece that was read first, which approximates the least recently used.
  latest_ = pieces_.back().bytes.empty() ? pieces_.size() - 1 : (latest_ + 1) % pieces_.size();
  Piece& piece = pieces_[latest_];
  piece.offset = begin;
  piece.bytes.resize(std::min<uint64_t>(size, size_ - begin));
  piece.bytes.resize(ReadAt(begin, piece.bytes.data(), piece.bytes.size()));
  return std::string_view(piece.bytes).substr(std::min<uint64_t>(offset - begin, piece.bytes.size()));
}

std::string_view Section::Window(uint64_t offset, size_t want, size_t piece) {
  if (offset >= size_) return {};
  if (fd_ < 0) return std::string_view(memory_).substr(offset);
  const std::string_view known = FromPieces(offset, want);
  return known.empty() ? ReadPiece(offset, std::max(want, piece), offset) : known;
}

std::string_view Section::WindowAround(uint64_t offset, size_t want, size_t piece) {
  if (offset >= size_) return {};
  if (fd_ < 0) return std::string_view(memory_).substr(offset);
  const std::string_view known = FromPieces(offset, want);
  return known.empty() ? ReadPiece(offset / piece * piece, piece + want, offset) : known;
}

bool Section::Read(uint64_t offset, uint64_t size, std::string* bytes) const {
  if (offset > size_ || size > size_ - offset) return false;
  bytes->resize(size);
  return ReadAt(offset, bytes->data(), size) == size;
}

std::string Section::StringAt(uint64_t offset) {
  if (size_ <= kSmall) {
    const std::string_view window = Window(0, size_, size_).substr(std::min(offset, size_));
    const size_t zero = window.substr(0, kMaxString).find('\0');
    return zero == std::string_view::npos ? std::string() : std::string(window.substr(0, zero));
  }
  std::string text;
  for (size_t step = 256; text.size() < kMaxString; step *= 2) {
    const size_t before = text.size();
    text.resize(before + step);
    text.resize(before + ReadAt(offset + before, text.data() + before, step));
    if (const size_t zero = text.find('\0', before); zero != std::string::npos) {
      text.resize(zero);
      return text;
    }
    if (text.size() < before + step) break;
  }
  return {};
}

}  // namespace holdfast::dwarf
