// Reads a path and unpacks the bytes of a profile, within limits. Compresses data that is complete in memory.
#ifndef HOLDFAST_REPORT_PROFILE_PPROF_BYTES_H_
#define HOLDFAST_REPORT_PROFILE_PPROF_BYTES_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace holdfast {

// A byte array that grows without copying (realloc moves pages, not bytes) and is not zeroed.
class ByteBuffer {
 public:
  std::string_view view() const { return {data_.get(), size_}; }
  size_t size() const { return size_; }
  // Returns room for `more` bytes after the last one, or null if out of memory. Add() says how many were written.
  char* Room(size_t more);
  void Add(size_t filled) { size_ += filled; }

 private:
  struct Free {
    void operator()(char* data) const { free(data); }
  };
  std::unique_ptr<char, Free> data_;
  size_t size_ = 0, capacity_ = 0;
};

// Reads all of a file, a pipe or standard input (path "-"). `name`: the beginning of an error message.
absl::StatusOr<ByteBuffer> ReadAll(const std::string& path, std::string_view name, uint64_t max_bytes);

// Compresses to one gzip member. For large data that arrives in pieces, use the writer (pprof_writer.cc).
inline constexpr int kFastGzip = 1, kStoredGzip = 0;
std::string Gzip(std::string_view bytes, int level);

inline bool IsGzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

// Unpacks one or more gzip members. Stops early if the output cannot be a profile, so that a few bytes that expand to
// zeros do not cost 4 GiB.
absl::StatusOr<ByteBuffer> Gunzip(std::string_view packed, std::string_view name, uint64_t max_bytes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_PPROF_BYTES_H_
