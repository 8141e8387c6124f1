// Unpacks compressed bytes piece by piece, by zlib or by zstd.
#ifndef HOLDFAST_REPORT_DWARF_UNPACKER_H_
#define HOLDFAST_REPORT_DWARF_UNPACKER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "report/dwarf/section.h"

namespace holdfast::dwarf {

class Unpacker {
 public:
  struct Step {
    size_t taken, made;  // bytes
    bool ended;          // a stream (zlib) or a frame (zstd)
  };
  virtual ~Unpacker() = default;
  // Unpacks as much of `packed` as fits into `to`. Nothing: the bytes are damaged.
  virtual std::optional<Step> Next(std::string_view packed, std::string* to) = 0;
};

// Null: there is no memory.
std::unique_ptr<Unpacker> MakeUnpacker(Compression method);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_DWARF_UNPACKER_H_
