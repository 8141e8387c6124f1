// Between a path and the bytes of a profile: reading and unpacking, bounded; packing what is whole.
#ifndef HOLDFAST_REPORT_PPROF_PPROF_BYTES_H_
#define HOLDFAST_REPORT_PPROF_PPROF_BYTES_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace holdfast {

// A byte array that grows without copying (realloc moves pages, not bytes) and without being zeroed first.
class ByteBuffer {
 public:
  std::string_view view() const { return {data_.get(), size_}; }
  size_t size() const { return size_; }
  // Room for `more` bytes behind the last one, or null when there is no memory. Add() says how many were filled.
  char* Room(size_t more);
  void Add(size_t filled) { size_ += filled; }

 private:
  struct Free {
    void operator()(char* data) const { free(data); }
  };
  std::unique_ptr<char, Free> data_;
  size_t size_ = 0, capacity_ = 0;
};

// All of a file, pipe or (path "-") standard input. `name` begins the message of an error.
absl::StatusOr<ByteBuffer> ReadAll(const std::string& path, std::string_view name, uint64_t max_bytes);

// One member. What is large and comes bit by bit is the writer's.
inline constexpr int kFastGzip = 1, kStoredGzip = 0;
std::string Gzip(std::string_view bytes, int level);

inline bool IsGzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

// Unpacks one or more gzip members. Stops early when what comes out cannot be a profile, so that a few bytes of zeros
// do not cost 4 GiB.
absl::StatusOr<ByteBuffer> Gunzip(std::string_view packed, std::string_view name, uint64_t max_bytes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PPROF_PPROF_BYTES_H_
