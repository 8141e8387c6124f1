// Writes a tar archive (POSIX ustar, with pax headers for what does not fit into it) through gzip.
#ifndef HOLDFAST_REPORT_BASE_TAR_WRITER_H_
#define HOLDFAST_REPORT_BASE_TAR_WRITER_H_

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace holdfast {

class TarWriter {
 public:
  // `fd` stays the caller's. `time_s`: of all files in it, so that equal contents give equal archives.
  TarWriter(int fd, int64_t time_s);
  ~TarWriter();
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;

  // A regular file, readable by all. The first failure is kept; Finish returns it.
  void Add(std::string_view name, std::string_view bytes);
  absl::Status Finish();

 private:
  void Header(std::string_view name, uint64_t size, char type);
  void Write(std::string_view bytes);
  void Pad(uint64_t size);

  gzFile gzip_ = nullptr;
  int64_t time_s_;
  absl::Status status_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_TAR_WRITER_H_
