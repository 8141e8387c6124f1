// Unpacks zlib or zstd data piece by piece.
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

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_UNPACKER_H_
