// Unpacks zlib or zstd data piece by piece, and zlib data also as a whole.
#ifndef HOLDFAST_REPORT_NAMES_DWARF_UNPACKER_H_
#define HOLDFAST_REPORT_NAMES_DWARF_UNPACKER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "report/names/dwarf/section.h"

namespace holdfast::dwarf {

class Unpacker {
 public:
  struct Step {
    size_t taken, made;  // bytes
    bool ended;          // the end of a stream (zlib) or a frame (zstd)
  };
  virtual ~Unpacker() = default;
  // Unpacks as much of `packed` as fits into `to`. Returns nothing if the data is damaged.
  virtual std::optional<Step> Next(std::string_view packed, std::string* to) = 0;
};

// Returns null if memory is exhausted.
std::unique_ptr<Unpacker> MakeUnpacker(Compression method);

// Unpacks a whole zlib stream to exactly `size` bytes; bytes after its end are ignored. libdeflate needs less than half of
// zlib's time. Returns nothing if the data is damaged or memory is exhausted.
std::optional<std::string> UnpackZlib(std::string_view packed, size_t size);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_UNPACKER_H_
