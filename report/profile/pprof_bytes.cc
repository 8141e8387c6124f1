#include "report/profile/pprof_bytes.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fmt/format.h"
#include "report/base/huge_pages.h"

namespace holdfast {

char* ByteBuffer::Room(size_t more) {
  if (size_ + more > capacity_) {
    const size_t capacity = std::max(size_ + more, capacity_ * 2);
    char* grown = static_cast<char*>(realloc(data_.get(), capacity));
    if (grown == nullptr) return nullptr;
    (void)data_.release();
    data_.reset(grown);
    capacity_ = capacity;
    UseHugePages(grown + size_, capacity - size_);
  }
  return data_.get() + size_;
}

static absl::Status NoMemory(std::string_view name) {
  return absl::ResourceExhaustedError(
      fmt::format("{}: not enough memory to read it. Use a machine with more memory.", name));
}

static absl::Status TooLarge(std::string_view name, uint64_t max_bytes) {
  return absl::InvalidArgumentError(
      fmt::format("{}: larger than {} MiB when unpacked, so it is not a profile. Check where the file comes from.",
                  name, max_bytes >> 20));
}

absl::StatusOr<ByteBuffer> ReadAll(const std::string& path, std::string_view name, uint64_t max_bytes) {
  const auto failed = [&] {
    return absl::Status(
        absl::ErrnoToStatusCode(errno),
        fmt::format("{}: cannot be read ({}). Check the path and its permissions.", name, std::strerror(errno)));
  };
  const int fd = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed();
  struct Closer {
    int fd;
    ~Closer() { close(fd); }
  } closer{fd};

  struct stat status = {};
  // One byte more than the size of the file, so that its end is detected without growing the buffer.
  const bool known = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  if (known && static_cast<uint64_t>(status.st_size) > max_bytes) return TooLarge(name, max_bytes);
  size_t step = known ? static_cast<size_t>(status.st_size) + 1 : 64 * 1024;

  ByteBuffer bytes;
  for (;;) {
    char* room = bytes.Room(step);
    if (room == nullptr) return NoMemory(name);
    const ssize_t got = read(fd, room, step);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed();
    if (got == 0) return bytes;
    bytes.Add(static_cast<size_t>(got));
    if (bytes.size() > max_bytes) return TooLarge(name, max_bytes);
    step = 64 * 1024;
  }
}

// Whether a profile can begin with this byte: a field that is a message (1–6, 11, 13 packed) or a number (7–10, 12–14).
static bool CanBeginProfile(unsigned char first) {
  const unsigned field = first >> 3, wire = first & 7;
  return field >= 1 && field <= 15 && (wire == 0 || wire == 2);
}

// libdeflate unpacks twice as fast as zlib, but needs complete input of known size. Returns false to let zlib unpack
// the input or report the error.
static bool UnpackWhole(std::string_view packed, size_t room, ByteBuffer* bytes) {
  libdeflate_decompressor* decompressor = libdeflate_alloc_decompressor();
  if (decompressor == nullptr) return false;
  ByteBuffer whole;
  size_t read = 0, made = 0;
  char* to = whole.Room(room);
  const bool good = to != nullptr && libdeflate_gzip_decompress_ex(decompressor, packed.data(), packed.size(), to, room,
                                                                   &read, &made) == LIBDEFLATE_SUCCESS;
  libdeflate_free_decompressor(decompressor);
  if (!good || read != packed.size()) return false;
  whole.Add(made);
  *bytes = std::move(whole);
  return true;
}

absl::StatusOr<ByteBuffer> Gunzip(std::string_view packed, std::string_view name, uint64_t max_bytes) {
  struct Stream : z_stream {
    Stream() : z_stream{} {}
    ~Stream() { inflateEnd(this); }
  } stream;
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return NoMemory(name);

  // The trailer states the length of the last member modulo 2^32. Deflate packs at most 1032 to 1 (zlib's "Technical
  // Details"), so a false trailer costs no more memory than a true one could.
  ByteBuffer bytes;
  uint64_t expected = 0;
  if (packed.size() > 18) {
    uint32_t size;
    std::memcpy(&size, packed.data() + packed.size() - 4, 4);
    expected = std::min({uint64_t{size}, packed.size() * uint64_t{1032}, max_bytes}) + 1;
  }
  constexpr size_t kLarge = 1 << 20;
  const bool try_whole = packed.size() >= kLarge && expected > kLarge;
  if (!try_whole && expected != 0 && bytes.Room(expected) == nullptr) return NoMemory(name);

  size_t consumed = 0;
  for (;;) {
    constexpr size_t kStep = 256 * 1024;
    char* room = bytes.Room(kStep);
    if (room == nullptr) return NoMemory(name);
    const size_t feed = std::min<size_t>(packed.size() - consumed, 1 << 30);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + consumed));
    stream.avail_in = static_cast<uInt>(feed);
    stream.next_out = reinterpret_cast<Bytef*>(room);
    stream.avail_out = kStep;
    const int result = inflate(&stream, Z_NO_FLUSH);
    consumed += feed - stream.avail_in;
    const size_t before = bytes.size();
    bytes.Add(kStep - stream.avail_out);
    if (bytes.size() > max_bytes) return TooLarge(name, max_bytes);
    if (before == 0 && bytes.size() > 0 && !CanBeginProfile(static_cast<unsigned char>(bytes.view()[0]))) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: a gzip file that does not contain a pprof profile. Name a file such as app.4242.0001.heap.pb.gz.",
          name));
    }
    if (try_whole && before == 0 && UnpackWhole(packed, expected, &bytes)) return bytes;
    if (result == Z_STREAM_END) {
      if (consumed == packed.size()) return bytes;
      if (!IsGzip(packed.substr(consumed))) {
        return absl::DataLossError(
            fmt::format("{}: {} bytes after the end of the gzip data (at byte {}). Copy it again.", name,
                        packed.size() - consumed, consumed));
      }
      inflateReset(&stream);
    } else if (result == Z_MEM_ERROR) {
      return NoMemory(name);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return absl::DataLossError(
          fmt::format("{}: damaged gzip data at byte {} ({}). Copy it again, or use another snapshot.", name, consumed,
                      stream.msg != nullptr ? stream.msg : "unknown format"));
    } else if (consumed == packed.size() && stream.avail_out != 0) {
      return absl::DataLossError(fmt::format(
          "{}: truncated at byte {} (gzip trailer missing). The process was probably killed while writing; use "
          "the previous snapshot.",
          name, packed.size()));
    }
  }
}

std::string Gzip(std::string_view bytes, int level) {
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(level), libdeflate_free_compressor);
  if (compressor == nullptr) throw std::bad_alloc();
  std::string packed(libdeflate_gzip_compress_bound(compressor.get(), bytes.size()), '\0');
  packed.resize(libdeflate_gzip_compress(compressor.get(), bytes.data(), bytes.size(), packed.data(), packed.size()));
  return packed;
}

}  // namespace holdfast
