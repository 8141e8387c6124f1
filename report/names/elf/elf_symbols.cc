#include "report/names/elf/elf_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "absl/hash/hash.h"
#include "fmt/format.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/processors.h"
#include "report/names/elf/symbol_ranges.h"
#include "report/names/elf/xz.h"

namespace holdfast {
namespace {

// Of a function without a size that .dynsym alone names: hidden functions may follow, which only .symtab has. The longest
// known one, musl's memset, has 196 bytes.
constexpr uint64_t kLongestUnsized = 200;
constexpr uint64_t kPageOfFile = 4096;  // the page size for which the linker lays out segments

}  // namespace

class ElfReader {
 public:
  explicit ElfReader(int fd) : elf_(ElfFile::Open(fd)) {}

  absl::StatusOr<std::unique_ptr<ElfSymbols>> Read(std::string_view build_id) {
    if (elf_ == nullptr) return absl::InvalidArgumentError("not an ELF file");
    if (!HasNamesHere(*elf_)) return absl::InvalidArgumentError("not an ELF file of x86-64 or arm64");
    result_->build_id_ = elf_->BuildId();
    if (result_->build_id_ != build_id) {
      const auto shown = [](std::string_view id) { return id.empty() ? std::string_view("none") : id; };
      return absl::FailedPreconditionError(fmt::format("another build id ({}) than the program had loaded ({})",
                                                       shown(result_->build_id_), shown(build_id)));
    }
    TakeSegments();
    std::vector<Table> tables;
    if (const Elf64_Shdr* symtab = FirstOf(*elf_, SHT_SYMTAB); symtab != nullptr) {
      if (AddTable(*elf_, *symtab, &tables).ok()) MakeRanges(tables);
    }
    result_->has_symtab_ = !result_->ranges_.empty();
    if (!result_->has_symtab_) {
      tables.clear();
      result_->names_.clear();
      if (const Elf64_Shdr* dynsym = FirstOf(*elf_, SHT_DYNSYM); dynsym != nullptr) {
        if (absl::Status status = AddTable(*elf_, *dynsym, &tables); !status.ok()) return status;
      }
      const std::unique_ptr<ElfFile> embedded = OpenEmbedded();
      const Elf64_Shdr* symtab = embedded == nullptr ? nullptr : FirstOf(*embedded, SHT_SYMTAB);
      lacks_hidden_ = symtab == nullptr || !AddTable(*embedded, *symtab, &tables).ok();
      MakeRanges(tables);
    }
    return std::move(result_);
  }

 private:
  void TakeSegments() {
    for (const Elf64_Phdr& segment : elf_->segments()) {
      // A normal file has one or two executable segments. The limit bounds the work per symbol for a file with
      // thousands.
      if (result_->segments_.size() == 16) return;
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 &&
          segment.p_vaddr + segment.p_memsz > segment.p_vaddr) {
        result_->segments_.push_back({segment.p_vaddr, segment.p_memsz, segment.p_offset});
      }
    }
  }

  struct Table {
    std::span<const Elf64_Shdr> sections;
    std::vector<Elf64_Sym> symbols;
    uint32_t names;  // where this table's names begin in names_
    uint64_t names_size;
  };

  static const Elf64_Shdr* FirstOf(const ElfFile& elf, uint32_t type) {
    const auto sections = elf.sections();
    const auto found = std::find_if(sections.begin(), sections.end(), [&](const auto& s) { return s.sh_type == type; });
    return found == sections.end() ? nullptr : &*found;
  }

  // Opens mini debug information: an ELF file, xz-compressed in a section. Its .symtab has the functions that .dynsym
  // lacks. Returns null if there is none.
  std::unique_ptr<ElfFile> OpenEmbedded() {
    const Elf64_Shdr* debugdata = nullptr;
    for (const Elf64_Shdr& section : elf_->sections()) {
      if (section.sh_type == SHT_PROGBITS && elf_->NameOf(section) == ".gnu_debugdata") debugdata = &section;
    }
    if (debugdata == nullptr) return nullptr;
    const auto packed = elf_->BytesOf(*debugdata, ElfSymbols::kMaxSymbolBytes);
    if (!packed) return nullptr;
    auto unpacked = UnpackXz(*packed, ElfSymbols::kMaxSymbolBytes);
    if (!unpacked.ok()) return nullptr;
    std::unique_ptr<ElfFile> embedded = ElfFile::InMemory(*std::move(unpacked));
    return embedded != nullptr && HasNamesHere(*embedded) ? std::move(embedded) : nullptr;
  }

  absl::Status AddTable(const ElfFile& elf, const Elf64_Shdr& section, std::vector<Table>* tables) {
    auto table = elf.SymbolsOf(section, ElfSymbols::kMaxSymbolBytes);
    if (!table || !elf.HasBytes(*table->names, ElfSymbols::kMaxNameBytes)) return Damaged();
    std::string& names = result_->names_;
    const size_t begin = names.size(), size = table->names->sh_size;
    names.resize(begin + size + 1);  // followed by a zero byte
    if (!elf.Read(table->names->sh_offset, size, names.data() + begin)) {
      names.resize(begin);
      return Damaged();
    }
    tables->push_back({elf.sections(), std::move(table->symbols), static_cast<uint32_t>(begin), size});
    return absl::OkStatus();
  }

  // Call when all names are in place, because the ranges refer to them.
  void MakeRanges(const std::vector<Table>& tables) {
    SymbolRanges ranges;
    for (const Table& table : tables) {
      for (const Elf64_Sym& symbol : table.symbols) AddSymbol(table, symbol, &ranges);
    }
    for (const SymbolRanges::Range& range : ranges.Flatten()) {
      result_->ranges_.push_back({range.start, range.end, range.name});
    }
  }

  void AddSymbol(const Table& table, const Elf64_Sym& symbol, SymbolRanges* ranges) {
    const int type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_name == 0 || symbol.st_name >= table.names_size) return;
    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) return;
    const ElfSymbols::CodeSegment* segment = SegmentOf(symbol.st_value);
    if (segment == nullptr) return;

    // The section limits the range of a symbol. For a file with more than 65,279 sections finding the section's index
    // is not cheap, so the segment is the limit.
    uint64_t limit = segment->address + segment->size;
    const Elf64_Shdr* section = symbol.st_shndx < std::min<size_t>(SHN_LORESERVE, table.sections.size())
                                    ? &table.sections[symbol.st_shndx]
                                    : nullptr;
    if (section != nullptr && (section->sh_flags & SHF_EXECINSTR) != 0 &&
        symbol.st_value - section->sh_addr < section->sh_size) {
      limit = std::min(limit, section->sh_addr + section->sh_size);
    } else if (type == STT_NOTYPE) {
      return;  // a label in data
    }
    if (lacks_hidden_ && symbol.st_size == 0 && limit - symbol.st_value > kLongestUnsized)
      limit = symbol.st_value + kLongestUnsized;
    const char* name = result_->names_.data() + table.names + symbol.st_name;
    if (type == STT_NOTYPE && (name[0] == '.' || name[0] == '$')) return;  // the assembler's own labels
    const int binding = ELF64_ST_BIND(symbol.st_info);
    ranges->Add({.start = symbol.st_value,
                 .size = std::min<uint64_t>(symbol.st_size, limit - symbol.st_value),
                 .limit = limit,
                 .name = table.names + symbol.st_name,
                 .rank = binding == STB_WEAK    ? 2
                         : binding == STB_LOCAL ? 1
                                                : 0,
                 .text = name});
  }

  const ElfSymbols::CodeSegment* SegmentOf(uint64_t address) const {
    for (const auto& segment : result_->segments_) {
      if (address - segment.address < segment.size) return &segment;
    }
    return nullptr;
  }

  static absl::Status Damaged() { return absl::DataLossError("damaged symbol table"); }

  const std::unique_ptr<ElfFile> elf_;
  bool lacks_hidden_ = false;  // functions that are not exported have no names here
  std::unique_ptr<ElfSymbols> result_ = std::make_unique<ElfSymbols>();
};

absl::StatusOr<std::unique_ptr<ElfSymbols>> ElfSymbols::Load(int fd, std::string_view build_id) {
  return ElfReader(fd).Read(build_id);
}

size_t ElfSymbols::memory_bytes() const {
  return sizeof(*this) + ranges_.capacity() * sizeof(Range) + names_.capacity() +
         by_name_.capacity() * sizeof(by_name_[0]);
}

std::string_view ElfSymbols::NameOf(const Range& range) const {
  const char* name = names_.c_str() + range.name;
  const size_t length = strnlen(name, kMaxName + 1);
  if (length > kMaxName) return {};
  // Names in .symtab may include the version: `__libc_start_main@@GLIBC_2.34`.
  return std::string_view(name, length).substr(0, std::string_view(name, length).find('@', 1));
}

std::optional<ElfSymbols::Function> ElfSymbols::FunctionAt(uint64_t elf_address) const {
  auto after = std::upper_bound(ranges_.begin(), ranges_.end(), elf_address,
                                [](uint64_t address, const Range& range) { return address < range.start; });
  if (after == ranges_.begin() || elf_address >= (--after)->end) return std::nullopt;
  return Function{after->start, after->end, NameOf(*after)};
}

std::string_view ElfSymbols::Find(uint64_t elf_address) const {
  const std::optional<Function> function = FunctionAt(elf_address);
  return function.has_value() ? function->name : std::string_view();
}

std::optional<ElfSymbols::Function> ElfSymbols::FunctionCalled(std::string_view name) const {
  const auto hash = [](std::string_view text) { return static_cast<uint32_t>(absl::HashOf(text)); };
  if (by_name_.empty()) {
    for (uint32_t i = 0; i < ranges_.size(); ++i) by_name_.emplace_back(hash(NameOf(ranges_[i])), i);
    std::sort(by_name_.begin(), by_name_.end());
  }
  auto found = std::lower_bound(by_name_.begin(), by_name_.end(), std::pair(hash(name), uint32_t{0}));
  for (; found != by_name_.end() && found->first == hash(name); ++found) {
    const Range& range = ranges_[found->second];
    if (NameOf(range) == name) return Function{range.start, range.end, NameOf(range)};
  }
  return std::nullopt;
}

std::optional<uint64_t> ElfSymbols::AddressOfOffset(uint64_t file_offset) const {
  for (const CodeSegment& segment : segments_) {
    const uint64_t skipped = segment.offset % kPageOfFile;  // whole pages are mapped, also before the segment
    const uint64_t inside = file_offset - (segment.offset - skipped);
    if (inside < segment.size + skipped) return segment.address - skipped + inside;
  }
  return std::nullopt;
}

std::optional<uint64_t> ElfSymbols::AddressOfMapping(uint64_t size) const {
  const CodeSegment* found = nullptr;
  for (const CodeSegment& segment : segments_) {
    const uint64_t mapped =
        (segment.address % kPageOfFile + segment.size + kPageOfFile - 1) / kPageOfFile * kPageOfFile;
    if (mapped != size) continue;
    if (found != nullptr) return std::nullopt;  // two segments have this size
    found = &segment;
  }
  if (found == nullptr) return std::nullopt;
  return found->address / kPageOfFile * kPageOfFile;
}

bool ElfSymbols::IsCode(uint64_t elf_address) const {
  for (const CodeSegment& segment : segments_) {
    if (elf_address - segment.address < segment.size) return true;
  }
  return false;
}

void ElfSymbols::TakeNamesOf(ElfSymbols* debug) {
  by_name_.clear();
  ranges_ = std::move(debug->ranges_);
  names_ = std::move(debug->names_);
  has_symtab_ = debug->has_symtab_;
}

}  // namespace holdfast
