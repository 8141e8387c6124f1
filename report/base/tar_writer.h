// Writes a tar archive through gzip: POSIX ustar, with pax headers for names that do not fit.
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
  // The caller keeps `fd`. `time_s` is the time of all files, so that equal contents give equal archives.
  TarWriter(int fd, int64_t time_s);
  ~TarWriter();
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;

  // Adds a regular file, readable by all. Finish returns the first error.
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
