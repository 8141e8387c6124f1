#include "report/elf/elf_symbols.h"

#include <elf.h>
#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "report/elf/elf_notes.h"
#include "report/elf/symbol_ranges.h"
#include "report/elf/xz.h"

namespace holdfast {

class ElfReader {
 public:
  explicit ElfReader(int fd) {
    elf_version(EV_CURRENT);
    // ELF_C_READ, never ELF_C_READ_MMAP: see the header.
    elf_ = elf_begin(fd, ELF_C_READ, nullptr);
  }
  ~ElfReader() {
    elf_end(embedded_);
    elf_end(elf_);
  }
  ElfReader(const ElfReader&) = delete;
  ElfReader& operator=(const ElfReader&) = delete;

  absl::StatusOr<std::unique_ptr<ElfSymbols>> Read(std::string_view build_id) {
    GElf_Ehdr header;
    if (elf_ == nullptr || elf_kind(elf_) != ELF_K_ELF || gelf_getehdr(elf_, &header) == nullptr) {
      return absl::InvalidArgumentError("not an ELF file");
    }
    if (header.e_machine != EM_X86_64 || gelf_getclass(elf_) != ELFCLASS64) {
      return absl::InvalidArgumentError("not an x86-64 ELF file");
    }
    ReadSegments();
    ReadSections();
    if (result_->build_id_ != build_id) {
      const auto shown = [](std::string_view id) { return id.empty() ? std::string_view("none") : id; };
      return absl::FailedPreconditionError(fmt::format("another build id ({}) than the program had loaded ({})",
                                                       shown(result_->build_id_), shown(build_id)));
    }
    std::vector<Table> tables;
    if (symtab_ != nullptr && AddTable(elf_, symtab_, &tables).ok()) MakeRanges(tables);
    result_->has_symtab_ = !result_->ranges_.empty();
    if (!result_->has_symtab_) {
      tables.clear();
      result_->names_.clear();
      if (dynsym_ != nullptr) {
        if (absl::Status status = AddTable(elf_, dynsym_, &tables); !status.ok()) return status;
      }
      if (Elf_Scn* symbols = OpenEmbedded(); symbols != nullptr) (void)AddTable(embedded_, symbols, &tables);
      MakeRanges(tables);
    }
    return std::move(result_);
  }

 private:
  void ReadSegments() {
    size_t count = 0;
    if (elf_getphdrnum(elf_, &count) != 0) return;
    // A file has one or two that are executable; of a file with thousands each symbol would look at all.
    for (size_t i = 0; i < count && result_->segments_.size() < 16; ++i) {
      GElf_Phdr segment;
      if (gelf_getphdr(elf_, static_cast<int>(i), &segment) == nullptr) return;
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 &&
          segment.p_vaddr + segment.p_memsz > segment.p_vaddr) {
        result_->segments_.push_back({segment.p_vaddr, segment.p_memsz, segment.p_offset});
      }
    }
  }

  struct Table {
    Elf* elf;
    Elf_Data* symbols;
    uint32_t names;  // where its names begin in names_
    uint64_t names_size;
  };

  void ReadSections() {
    size_t names = 0;
    const bool named = elf_getshdrstrndx(elf_, &names) == 0;
    for (Elf_Scn* section = elf_nextscn(elf_, nullptr); section != nullptr; section = elf_nextscn(elf_, section)) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr) continue;
      if (header.sh_type == SHT_SYMTAB && symtab_ == nullptr) symtab_ = section;
      if (header.sh_type == SHT_DYNSYM && dynsym_ == nullptr) dynsym_ = section;
      if (header.sh_type == SHT_NOTE && result_->build_id_.empty())
        result_->build_id_ = BuildIdOfNotes(section, header);
      const char* name = named && header.sh_type == SHT_PROGBITS ? elf_strptr(elf_, names, header.sh_name) : nullptr;
      if (name != nullptr && std::strcmp(name, ".gnu_debugdata") == 0) debugdata_ = section;
    }
  }

  // The bytes of a section, or null: damaged, compressed, or too large for what it is.
  static Elf_Data* DataOf(Elf_Scn* section, const GElf_Shdr& header, uint64_t most) {
    if (header.sh_type == SHT_NOBITS || (header.sh_flags & SHF_COMPRESSED) != 0 || header.sh_size > most)
      return nullptr;
    Elf_Data* data = elf_getdata(section, nullptr);
    return data != nullptr && data->d_buf != nullptr ? data : nullptr;
  }

  // Mini debug information: an ELF file of its own, packed with xz into a section, whose .symtab has the functions that
  // .dynsym does not have. Its symbol table, or null.
  Elf_Scn* OpenEmbedded() {
    GElf_Shdr header;
    if (debugdata_ == nullptr || gelf_getshdr(debugdata_, &header) == nullptr) return nullptr;
    Elf_Data* data = DataOf(debugdata_, header, ElfSymbols::kMaxSymbolBytes);
    if (data == nullptr) return nullptr;
    auto unpacked = UnpackXz({static_cast<const char*>(data->d_buf), data->d_size}, ElfSymbols::kMaxSymbolBytes);
    if (!unpacked.ok()) return nullptr;
    embedded_bytes_ = *std::move(unpacked);
    embedded_ = elf_memory(embedded_bytes_.data(), embedded_bytes_.size());
    GElf_Ehdr ehdr;
    if (embedded_ == nullptr || elf_kind(embedded_) != ELF_K_ELF || gelf_getehdr(embedded_, &ehdr) == nullptr ||
        ehdr.e_machine != EM_X86_64 || gelf_getclass(embedded_) != ELFCLASS64) {
      return nullptr;
    }
    for (Elf_Scn* section = elf_nextscn(embedded_, nullptr); section != nullptr;
         section = elf_nextscn(embedded_, section)) {
      if (gelf_getshdr(section, &header) != nullptr && header.sh_type == SHT_SYMTAB) return section;
    }
    return nullptr;
  }

  absl::Status AddTable(Elf* elf, Elf_Scn* section, std::vector<Table>* tables) {
    GElf_Shdr header, names_header;
    if (gelf_getshdr(section, &header) == nullptr) return Damaged();
    Elf_Scn* names_section = elf_getscn(elf, header.sh_link);
    if (names_section == nullptr || gelf_getshdr(names_section, &names_header) == nullptr ||
        names_header.sh_type != SHT_STRTAB) {
      return Damaged();
    }
    Elf_Data* symbols = DataOf(section, header, ElfSymbols::kMaxSymbolBytes);
    Elf_Data* names = DataOf(names_section, names_header, ElfSymbols::kMaxNameBytes);
    if (symbols == nullptr || names == nullptr) return Damaged();
    tables->push_back({elf, symbols, static_cast<uint32_t>(result_->names_.size()), names->d_size});
    result_->names_.append(static_cast<const char*>(names->d_buf), names->d_size);
    result_->names_.push_back('\0');
    return absl::OkStatus();
  }

  // Once all names are in place: the ranges point to them.
  void MakeRanges(const std::vector<Table>& tables) {
    SymbolRanges ranges;
    for (const Table& table : tables) {
      for (size_t i = 0; i < table.symbols->d_size / sizeof(Elf64_Sym); ++i) {
        GElf_Sym symbol;
        if (gelf_getsym(table.symbols, static_cast<int>(i), &symbol) == nullptr) break;
        AddSymbol(table, symbol, &ranges);
      }
    }
    for (const SymbolRanges::Range& range : ranges.Flatten()) {
      result_->ranges_.push_back({range.start, range.end, range.name});
    }
  }

  void AddSymbol(const Table& table, const GElf_Sym& symbol, SymbolRanges* ranges) {
    const int type = GELF_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_name == 0 || symbol.st_name >= table.names_size) return;
    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) return;
    const ElfSymbols::Segment* segment = SegmentOf(symbol.st_value);
    if (segment == nullptr) return;

    // The section bounds what a symbol can hold. A file with more than 65,279 sections has none we could name cheaply:
    // there the segment does.
    uint64_t limit = segment->address + segment->size;
    GElf_Shdr section;
    const bool known =
        symbol.st_shndx < SHN_LORESERVE && gelf_getshdr(elf_getscn(table.elf, symbol.st_shndx), &section) != nullptr;
    if (known && (section.sh_flags & SHF_EXECINSTR) != 0 && symbol.st_value - section.sh_addr < section.sh_size) {
      limit = std::min(limit, section.sh_addr + section.sh_size);
    } else if (type == STT_NOTYPE) {
      return;  // a label in data
    }
    const char* name = result_->names_.data() + table.names + symbol.st_name;
    if (type == STT_NOTYPE && (name[0] == '.' || name[0] == '$')) return;  // assembler's own labels
    const int binding = GELF_ST_BIND(symbol.st_info);
    ranges->Add({.start = symbol.st_value,
                 .size = std::min<uint64_t>(symbol.st_size, limit - symbol.st_value),
                 .limit = limit,
                 .name = table.names + symbol.st_name,
                 .rank = binding == STB_WEAK    ? 2
                         : binding == STB_LOCAL ? 1
                                                : 0,
                 .text = name});
  }

  const ElfSymbols::Segment* SegmentOf(uint64_t address) const {
    for (const auto& segment : result_->segments_) {
      if (address - segment.address < segment.size) return &segment;
    }
    return nullptr;
  }

  static absl::Status Damaged() { return absl::DataLossError("damaged symbol table"); }

  Elf* elf_ = nullptr;
  Elf_Scn* symtab_ = nullptr;
  Elf_Scn* dynsym_ = nullptr;
  Elf_Scn* debugdata_ = nullptr;
  Elf* embedded_ = nullptr;
  std::string embedded_bytes_;
  std::unique_ptr<ElfSymbols> result_ = std::make_unique<ElfSymbols>();
};

absl::StatusOr<std::unique_ptr<ElfSymbols>> ElfSymbols::Load(int fd, std::string_view build_id) {
  return ElfReader(fd).Read(build_id);
}

size_t ElfSymbols::memory_bytes() const {
  return sizeof(*this) + ranges_.capacity() * sizeof(Range) + names_.capacity();
}

std::string_view ElfSymbols::Find(uint64_t elf_address) const {
  auto after = std::upper_bound(ranges_.begin(), ranges_.end(), elf_address,
                                [](uint64_t address, const Range& range) { return address < range.start; });
  if (after == ranges_.begin() || elf_address >= (--after)->end) return {};
  const char* name = names_.c_str() + after->name;
  const size_t length = strnlen(name, kMaxName + 1);
  if (length > kMaxName) return {};
  // .symtab may carry the version in the name: `__libc_start_main@@GLIBC_2.34`.
  return std::string_view(name, length).substr(0, std::string_view(name, length).find('@', 1));
}

std::optional<uint64_t> ElfSymbols::AddressOfOffset(uint64_t file_offset) const {
  constexpr uint64_t kPage = 4096;
  for (const Segment& segment : segments_) {
    const uint64_t skipped = segment.offset % kPage;  // mapped before the segment begins
    const uint64_t inside = file_offset - (segment.offset - skipped);
    if (inside < segment.size + skipped) return segment.address - skipped + inside;
  }
  return std::nullopt;
}

std::optional<uint64_t> ElfSymbols::AddressOfMapping(uint64_t size) const {
  constexpr uint64_t kPage = 4096;
  const Segment* found = nullptr;
  for (const Segment& segment : segments_) {
    const uint64_t mapped = (segment.address % kPage + segment.size + kPage - 1) / kPage * kPage;
    if (mapped != size) continue;
    if (found != nullptr) return std::nullopt;  // two of one size
    found = &segment;
  }
  if (found == nullptr) return std::nullopt;
  return found->address / kPage * kPage;
}

bool ElfSymbols::IsCode(uint64_t elf_address) const {
  for (const Segment& segment : segments_) {
    if (elf_address - segment.address < segment.size) return true;
  }
  return false;
}

void ElfSymbols::TakeNamesOf(ElfSymbols* debug) {
  ranges_ = std::move(debug->ranges_);
  names_ = std::move(debug->names_);
  has_symtab_ = debug->has_symtab_;
}

}  // namespace holdfast
