#include "sampler/capture/added_code.h"

#include <atomic>

namespace holdfast {
namespace {

constinit std::atomic<uintptr_t> code_start{0}, code_bytes{0};
constinit const AddedPiece* code_pieces = nullptr;
constinit uint32_t piece_count = 0;

}  // namespace

void SetAddedCode(uintptr_t start, size_t bytes, const AddedPiece* pieces, uint32_t count) {
  code_bytes.store(0, std::memory_order_relaxed);
  code_start.store(start, std::memory_order_relaxed);
  code_pieces = pieces, piece_count = count;
  // A handler that sees this number sees the rest.
  code_bytes.store(count != 0 ? bytes : 0, std::memory_order_release);
}

void LeaveAddedCode(CallerRegisters* interrupted) {
  const uintptr_t bytes = code_bytes.load(std::memory_order_acquire);
  const uintptr_t at = interrupted->pc - 1 - code_start.load(std::memory_order_relaxed);
  if (at >= bytes) return;
  uint32_t low = 0, high = piece_count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (code_pieces[middle].start <= at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return;
  const AddedPiece& piece = code_pieces[low - 1];
  interrupted->pc = piece.instruction + 1;
  interrupted->sp += piece.lower;
}

}  // namespace holdfast
