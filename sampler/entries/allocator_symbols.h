// Those global symbols of a large executable that may be an allocator's. Most executables have none, and start a little
// later for it. So local symbols are passed over, which are the most of a Rust program's (cargo: 47,000 of 58,000 symbols,
// 4 of 5 MB of names), and the search ends early if nothing was found.
//
//     .symtab   local …                        | global: _rjem_malloc, main, …       sh_info says where these begin
//     .strtab   names of local symbols, mostly | names of global ones, mostly in the symbols' order: read by pieces
//
// Each MB takes 0.2 to 0.4 ms (2026-11, processor time on a busy machine).
#ifndef HOLDFAST_SAMPLER_ENTRIES_ALLOCATOR_SYMBOLS_H_
#define HOLDFAST_SAMPLER_ENTRIES_ALLOCATOR_SYMBOLS_H_

#include <elf.h>

#include <cstddef>
#include <cstdint>

#include "sampler/entries/entry_plan.h"

namespace holdfast {

// 110 KB: not for a stack. May be zeros; then it is empty. One search.
class AllocatorSymbols {
 public:
  // Reads bytes of the file; false: it cannot.
  using Read = bool (*)(void* context, uint64_t offset, void* to, size_t bytes);
  enum class Result { kDone, kTooLarge, kUnreadable };

  // Call before, if the executable's imports speak for an allocator: reads more in vain.
  void ExpectSome() { expects_some_ = true; }
  // The sections are within the file.
  Result Search(const Elf64_Shdr& symbols, const Elf64_Shdr& names, Read read, void* context);
  // What was found, as long as this object lives.
  SymbolList list() const;

 private:
  // Bytes that are read if nothing is found, the same if something is expected, and if something is found.
  static constexpr uint64_t kMaxInVain = 1 << 19, kMaxExpecting = 4 << 20, kMaxBytes = 16 << 20;
  // Longer names are not an allocator's.
  static constexpr uint64_t kMaxNameBytes = 128;
  static constexpr uint64_t kPieceSymbols = 1024, kPieceBytes = 16 << 10;
  static constexpr uint32_t kMaxSymbols = 1024, kTextBytes = 32 << 10;

  // Null: it cannot be read.
  const char* NameAtSlow(const Elf64_Shdr& names, uint64_t at, Read read, void* context);
  bool Keep(const Elf64_Sym& symbol, const char* name);
  bool MayGoOn() const {
    return bytes_ <= (symbol_count_ > 0 ? kMaxBytes : expects_some_ ? kMaxExpecting : kMaxInVain);
  }

  // Two: a name that is out of order does not take the place of the piece that the next symbol needs.
  struct Piece {
    uint64_t start = 0, end = 0;
    char text[kPieceBytes + 1];  // ends with a zero
    bool Has(uint64_t at, uint64_t count) const { return at >= start && at + count <= end; }
  };
  bool expects_some_ = false;
  uint64_t bytes_ = 0;  // read so far
  Piece pieces_[2];
  int newest_ = 0;  // the one used last
  Elf64_Sym piece_symbols_[kPieceSymbols];
  uint32_t symbol_count_ = 0, text_bytes_ = 0;
  Elf64_Sym symbols_[kMaxSymbols];
  char text_[kTextBytes];  // their names
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_ENTRIES_ALLOCATOR_SYMBOLS_H_
