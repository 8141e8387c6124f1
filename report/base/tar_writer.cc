#include "report/base/tar_writer.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "fmt/format.h"

namespace holdfast {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kNameField = 100;

}  // namespace

TarWriter::TarWriter(int fd, int64_t time_s) : time_s_(std::max<int64_t>(0, time_s)) {
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  gzip_ = own < 0 ? nullptr : gzdopen(own, "wb6");
  if (gzip_ == nullptr) status_ = absl::UnavailableError(std::strerror(errno));
}

TarWriter::~TarWriter() {
  if (gzip_ != nullptr) gzclose(gzip_);
}

void TarWriter::Write(std::string_view bytes) {
  while (status_.ok() && !bytes.empty()) {
    const auto step = static_cast<unsigned>(std::min<size_t>(bytes.size(), 1 << 20));
    if (gzwrite(gzip_, bytes.data(), step) != static_cast<int>(step)) {
      int error = 0;
      const char* text = gzerror(gzip_, &error);
      status_ = absl::UnavailableError(error == Z_ERRNO ? std::strerror(errno) : text);
    }
    bytes.remove_prefix(step);
  }
}

void TarWriter::Pad(uint64_t size) {
  if (size % kBlock != 0) Write(std::string(kBlock - size % kBlock, '\0'));
}

void TarWriter::Header(std::string_view name, uint64_t size, char type) {
  std::string block(kBlock, '\0');
  const auto put = [&](size_t at, std::string_view text) { block.replace(at, text.size(), text); };
  put(0, name.substr(0, kNameField));
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", size));
  put(136, fmt::format("{:011o}", time_s_));
  put(148, "        ");
  block[156] = type;
  put(257, std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  Write(block);
}

void TarWriter::Add(std::string_view name, std::string_view bytes) {
  if (name.size() > kNameField) {
    // A pax record, which begins with its own length.
    const std::string record = fmt::format(" path={}\n", name);
    size_t length = record.size() + 1;
    while (fmt::format("{}", length).size() + record.size() != length) {
      length = fmt::format("{}", length).size() + record.size();
    }
    const std::string pax = fmt::format("{}{}", length, record);
    Header("pax", pax.size(), 'x');
    Write(pax);
    Pad(pax.size());
  }
  Header(name, bytes.size(), '0');
  Write(bytes);
  Pad(bytes.size());
}

absl::Status TarWriter::Finish() {
  Write(std::string(2 * kBlock, '\0'));
  if (gzip_ != nullptr && gzclose(std::exchange(gzip_, nullptr)) != Z_OK && status_.ok()) {
    status_ = absl::UnavailableError(std::strerror(errno));
  }
  return status_;
}

}  // namespace holdfast
