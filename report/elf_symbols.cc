#include "report/elf_symbols.h"

#include <elf.h>
#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "report/symbol_ranges.h"

namespace holdfast {

class ElfReader {
 public:
  explicit ElfReader(int fd) {
    elf_version(EV_CURRENT);
    // ELF_C_READ, never ELF_C_READ_MMAP: see the header.
    elf_ = elf_begin(fd, ELF_C_READ, nullptr);
  }
  ~ElfReader() { elf_end(elf_); }
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
    if (symtab_ != nullptr && !ReadSymbols(symtab_).ok()) symtab_ = nullptr;
    result_->has_symtab_ = symtab_ != nullptr && !result_->ranges_.empty();
    if (!result_->has_symtab_ && dynsym_ != nullptr) {
      if (absl::Status status = ReadSymbols(dynsym_); !status.ok()) return status;
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

  void ReadSections() {
    for (Elf_Scn* section = elf_nextscn(elf_, nullptr); section != nullptr; section = elf_nextscn(elf_, section)) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr) continue;
      if (header.sh_type == SHT_SYMTAB && symtab_ == nullptr) symtab_ = section;
      if (header.sh_type == SHT_DYNSYM && dynsym_ == nullptr) dynsym_ = section;
      if (header.sh_type == SHT_NOTE && result_->build_id_.empty()) ReadBuildId(section, header);
    }
  }

  // The bytes of a section, or null: damaged, compressed, or too large for what it is.
  static Elf_Data* DataOf(Elf_Scn* section, const GElf_Shdr& header, uint64_t most) {
    if (header.sh_type == SHT_NOBITS || (header.sh_flags & SHF_COMPRESSED) != 0 || header.sh_size > most)
      return nullptr;
    Elf_Data* data = elf_getdata(section, nullptr);
    return data != nullptr && data->d_buf != nullptr ? data : nullptr;
  }

  void ReadBuildId(Elf_Scn* section, const GElf_Shdr& header) {
    Elf_Data* data = DataOf(section, header, 1 << 20);
    if (data == nullptr) return;
    GElf_Nhdr note;
    size_t name = 0, description = 0;
    for (size_t at = 0; (at = gelf_getnote(data, at, &note, &name, &description)) > 0;) {
      const char* bytes = static_cast<const char*>(data->d_buf);
      if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || std::memcmp(bytes + name, "GNU", 4) != 0) continue;
      for (size_t i = 0; i < std::min<size_t>(note.n_descsz, 64); ++i) {
        result_->build_id_ += fmt::format("{:02x}", static_cast<unsigned char>(bytes[description + i]));
      }
      return;
    }
  }

  absl::Status ReadSymbols(Elf_Scn* section) {
    GElf_Shdr header, names_header;
    if (gelf_getshdr(section, &header) == nullptr) return Damaged();
    Elf_Scn* names_section = elf_getscn(elf_, header.sh_link);
    if (names_section == nullptr || gelf_getshdr(names_section, &names_header) == nullptr ||
        names_header.sh_type != SHT_STRTAB) {
      return Damaged();
    }
    Elf_Data* symbols = DataOf(section, header, ElfSymbols::kMaxSymbolBytes);
    Elf_Data* names = DataOf(names_section, names_header, ElfSymbols::kMaxNameBytes);
    if (symbols == nullptr || names == nullptr) return Damaged();

    result_->names_.assign(static_cast<const char*>(names->d_buf), names->d_size);
    result_->names_.push_back('\0');
    SymbolRanges ranges;
    for (size_t i = 0; i < symbols->d_size / sizeof(Elf64_Sym); ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(symbols, static_cast<int>(i), &symbol) == nullptr) break;
      AddSymbol(symbol, &ranges);
    }
    for (const SymbolRanges::Range& range : ranges.Flatten()) {
      result_->ranges_.push_back({range.start, range.end, range.name});
    }
    return absl::OkStatus();
  }

  void AddSymbol(const GElf_Sym& symbol, SymbolRanges* ranges) {
    const int type = GELF_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_name == 0 || symbol.st_name >= result_->names_.size()) return;
    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) return;
    const ElfSymbols::Segment* segment = SegmentOf(symbol.st_value);
    if (segment == nullptr) return;

    // The section bounds what a symbol can hold. A file with more than 65,279 sections has none we could name cheaply:
    // there the segment does.
    uint64_t limit = segment->address + segment->size;
    GElf_Shdr section;
    const bool known =
        symbol.st_shndx < SHN_LORESERVE && gelf_getshdr(elf_getscn(elf_, symbol.st_shndx), &section) != nullptr;
    if (known && (section.sh_flags & SHF_EXECINSTR) != 0 && symbol.st_value - section.sh_addr < section.sh_size) {
      limit = std::min(limit, section.sh_addr + section.sh_size);
    } else if (type == STT_NOTYPE) {
      return;  // a label in data
    }
    const char* name = result_->names_.data() + symbol.st_name;
    if (type == STT_NOTYPE && (name[0] == '.' || name[0] == '$')) return;  // assembler's own labels
    const int binding = GELF_ST_BIND(symbol.st_info);
    ranges->Add({.start = symbol.st_value,
                 .size = std::min<uint64_t>(symbol.st_size, limit - symbol.st_value),
                 .limit = limit,
                 .name = symbol.st_name,
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

void ElfSymbols::TakeNamesOf(ElfSymbols* debug) {
  ranges_ = std::move(debug->ranges_);
  names_ = std::move(debug->names_);
  has_symtab_ = debug->has_symtab_;
}

}  // namespace holdfast
