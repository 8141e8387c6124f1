#include "report/names/elf/xz.h"

#include <lzma.h>

#include <algorithm>

namespace holdfast {

absl::StatusOr<std::string> UnpackXz(std::string_view packed, size_t most) {
  constexpr uint64_t kMemory = 128 << 20;
  constexpr size_t kStep = 1 << 20;
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, kMemory, 0) != LZMA_OK) return absl::ResourceExhaustedError("no memory for xz");
  stream.next_in = reinterpret_cast<const uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  std::string unpacked;
  lzma_ret result = LZMA_OK;
  while (result == LZMA_OK && unpacked.size() <= most) {
    const size_t before = unpacked.size();
    unpacked.resize(before + std::min(kStep, most + 1 - before));
    stream.next_out = reinterpret_cast<uint8_t*>(unpacked.data() + before);
    stream.avail_out = unpacked.size() - before;
    result = lzma_code(&stream, LZMA_FINISH);
    unpacked.resize(unpacked.size() - stream.avail_out);
    if (unpacked.size() == before && result == LZMA_OK) break;  // no progress
  }
  lzma_end(&stream);
  if (result != LZMA_STREAM_END || unpacked.size() > most) return absl::DataLossError("damaged xz data");
  return unpacked;
}

}  // namespace holdfast
