#include "sampler/entries/allocator_symbols.h"

#include <string.h>

#include "sampler/contract/attributes.h"

namespace holdfast {

AllocatorSymbols::Result AllocatorSymbols::Search(const Elf64_Shdr& symbols, const Elf64_Shdr& names, Read read,
                                                  void* context) {
  const uint64_t count = symbols.sh_size / sizeof(Elf64_Sym);
  for (uint64_t first = symbols.sh_info; first < count; first += kPieceSymbols) {
    const uint64_t some = count - first < kPieceSymbols ? count - first : kPieceSymbols;
    bytes_ += some * sizeof(Elf64_Sym);
    if (!MayGoOn()) return Result::kTooLarge;
    if (!read(context, symbols.sh_offset + first * sizeof(Elf64_Sym), piece_symbols_, some * sizeof(Elf64_Sym)))
      return Result::kUnreadable;
    for (uint64_t i = 0; i < some; ++i) {
      const Elf64_Sym& symbol = piece_symbols_[i];
      if (!IsDefinedFunction(symbol) || symbol.st_name >= names.sh_size) continue;
      const Piece& piece = pieces_[newest_];
      const char* name = nullptr;
      if (LIKELY(piece.Has(symbol.st_name, kMaxNameBytes))) {
        name = piece.text + (symbol.st_name - piece.start);
      } else {
        name = NameAtSlow(names, symbol.st_name, read, context);
        if (name == nullptr) return Result::kUnreadable;
        if (!MayGoOn()) return Result::kTooLarge;
      }
      if (UNLIKELY(ConcernsAllocator(name)) && !Keep(symbol, name)) return Result::kTooLarge;
    }
  }
  return Result::kDone;
}

const char* AllocatorSymbols::NameAtSlow(const Elf64_Shdr& names, uint64_t at, Read read, void* context) {
  const uint64_t left = names.sh_size - at, needed = left < kMaxNameBytes ? left : kMaxNameBytes;
  if (!pieces_[newest_].Has(at, needed)) newest_ = 1 - newest_;
  Piece& piece = pieces_[newest_];
  if (UNLIKELY(!piece.Has(at, needed))) {
    const uint64_t bytes = left < kPieceBytes ? left : kPieceBytes;
    bytes_ += bytes;
    if (!read(context, names.sh_offset + at, piece.text, bytes)) return nullptr;
    piece.text[bytes] = '\0';
    piece.start = at;
    piece.end = at + bytes;
  }
  return piece.text + (at - piece.start);
}

bool AllocatorSymbols::Keep(const Elf64_Sym& symbol, const char* name) {
  const size_t bytes = strlen(name) + 1;
  if (text_bytes_ == 0) text_[text_bytes_++] = '\0';
  if (symbol_count_ == kMaxSymbols || bytes > kTextBytes - text_bytes_) return false;
  memcpy(text_ + text_bytes_, name, bytes);
  symbols_[symbol_count_] = symbol;
  symbols_[symbol_count_++].st_name = text_bytes_;
  text_bytes_ += static_cast<uint32_t>(bytes);
  return true;
}

SymbolList AllocatorSymbols::list() const {
  SymbolList list;
  list.symbols = symbols_;
  list.count = symbol_count_;
  list.names = text_;
  list.name_bytes = text_bytes_;
  list.is_partial = true;
  return list;
}

}  // namespace holdfast
