#include "report/names/elf/elf_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "sampler/contract/build_id.h"

namespace holdfast {

namespace {

// What the segments of a file without section headers tell of its sections.
class SegmentSections {
 public:
  explicit SegmentSections(const ElfFile& elf) : elf_(elf) {}

  std::vector<Elf64_Shdr> All() const {
    constexpr Elf64_Word kNames = 1, kSymbols = 2;
    std::vector<Elf64_Shdr> found(3);  // none, names, symbols
    uint64_t values[DT_JMPREL + 1] = {}, gnu_hash = 0;
    for (const Elf64_Phdr& segment : elf_.segments()) {
      if (segment.p_type == PT_NOTE) {
        found.push_back(Section(SHT_NOTE, segment));
        found.back().sh_addralign = segment.p_align;
      }
      if (segment.p_type != PT_DYNAMIC || segment.p_filesz > kMaxDynamicBytes) continue;
      found.push_back(Section(SHT_DYNAMIC, segment));
      std::vector<Elf64_Dyn> entries(segment.p_filesz / sizeof(Elf64_Dyn));
      if (!elf_.Read(segment.p_offset, entries.size() * sizeof(Elf64_Dyn), reinterpret_cast<char*>(entries.data())))
        continue;
      for (const Elf64_Dyn& entry : entries) {
        if (entry.d_tag > 0 && entry.d_tag <= DT_JMPREL) values[entry.d_tag] = entry.d_un.d_val;
        if (entry.d_tag == DT_GNU_HASH) gnu_hash = entry.d_un.d_val;
      }
    }
    const uint64_t count = CountSymbols(gnu_hash, values[DT_HASH]);
    if (count == 0 || count > elf_.size() / sizeof(Elf64_Sym)) return found;
    found[kNames] = SectionAt(SHT_STRTAB, values[DT_STRTAB], values[DT_STRSZ]);
    found[kSymbols] = SectionAt(SHT_DYNSYM, values[DT_SYMTAB], count * sizeof(Elf64_Sym));
    found[kSymbols].sh_link = kNames;
    for (const auto& [where, bytes] : {std::pair(DT_RELA, DT_RELASZ), std::pair(DT_JMPREL, DT_PLTRELSZ)}) {
      if (values[bytes] == 0) continue;
      found.push_back(SectionAt(SHT_RELA, values[where], values[bytes]));
      found.back().sh_link = kSymbols;
    }
    return found;
  }

 private:
  static constexpr uint64_t kMaxDynamicBytes = 1 << 20, kMaxBuckets = 16 << 20, kMaxChain = 65'536;

  static Elf64_Shdr Section(uint32_t type, const Elf64_Phdr& segment) {
    Elf64_Shdr section = {};
    section.sh_type = type;
    section.sh_flags = SHF_ALLOC;
    section.sh_addr = segment.p_vaddr;
    section.sh_offset = segment.p_offset;
    section.sh_size = segment.p_filesz;
    return section;
  }

  // Part of a segment; empty if it is in none.
  Elf64_Shdr SectionAt(uint32_t type, uint64_t address, uint64_t size) const {
    for (const Elf64_Phdr& segment : elf_.segments()) {
      const uint64_t inside = address - segment.p_vaddr;
      if (segment.p_type != PT_LOAD || inside >= segment.p_filesz || size > segment.p_filesz - inside) continue;
      Elf64_Shdr section = Section(type, segment);
      section.sh_addr = address;
      section.sh_offset += inside;
      section.sh_size = size;
      return section;
    }
    return {};
  }

  bool WordsAt(uint64_t address, size_t count, uint32_t* to) const {
    const Elf64_Shdr section = SectionAt(SHT_PROGBITS, address, count * sizeof *to);
    return section.sh_size != 0 && elf_.Read(section.sh_offset, section.sh_size, reinterpret_cast<char*>(to));
  }

  // DT_HASH has the count. In DT_GNU_HASH the chain that begins last ends with the last symbol.
  uint64_t CountSymbols(uint64_t gnu_hash, uint64_t old_hash) const {
    uint32_t head[4];
    if (old_hash != 0 && WordsAt(old_hash, 2, head)) return head[1];
    if (gnu_hash == 0 || !WordsAt(gnu_hash, 4, head) || head[0] > kMaxBuckets) return 0;
    const uint64_t buckets_at = gnu_hash + sizeof head + uint64_t{head[2]} * sizeof(uint64_t);
    std::vector<uint32_t> buckets(head[0]);
    if (!WordsAt(buckets_at, buckets.size(), buckets.data())) return 0;
    uint64_t last = *std::max_element(buckets.begin(), buckets.end());
    if (last < head[1]) return head[1];  // the file only imports
    const uint64_t chains_at = buckets_at + buckets.size() * sizeof(uint32_t);
    for (const uint64_t most = last + kMaxChain; last < most; ++last) {
      uint32_t link;
      if (!WordsAt(chains_at + (last - head[1]) * sizeof link, 1, &link)) return 0;
      if ((link & 1) != 0) return last + 1;
    }
    return 0;
  }

  const ElfFile& elf_;
};

}  // namespace

std::string BuildIdIn(std::string_view notes, uint64_t alignment) {
  const BuildId id = FindBuildId(notes.data(), notes.size(), alignment);
  return Hexadecimal({reinterpret_cast<const char*>(id.bytes), id.count});
}

std::string Hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes.substr(0, 64)) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::unique_ptr<ElfFile> ElfFile::Open(int fd, std::string_view first) {
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_size < 0) return nullptr;
  std::unique_ptr<ElfFile> file(new ElfFile);
  file->fd_ = fd;
  file->size_ = static_cast<uint64_t>(info.st_size);
  const std::string read = first.empty() ? file->ReadUpTo(0, sizeof(Elf64_Ehdr)) : "";
  return file->Begin(first.empty() ? read : first) ? std::move(file) : nullptr;
}

std::unique_ptr<ElfFile> ElfFile::InMemory(std::string bytes) {
  std::unique_ptr<ElfFile> file(new ElfFile);
  file->memory_ = std::move(bytes);
  file->size_ = file->memory_.size();
  return file->Begin(file->memory_) ? std::move(file) : nullptr;
}

bool ElfFile::Begin(std::string_view first) {
  if (!first.starts_with(ELFMAG) || first.size() < sizeof(Elf32_Ehdr)) return false;
  std::memcpy(&header_, first.data(), std::min(first.size(), sizeof header_));
  const auto elf_class = header_.e_ident[EI_CLASS];
  if (elf_class != ELFCLASS32 && elf_class != ELFCLASS64) return false;
  // Type and machine have the same offsets in all ELF files.
  const auto two_bytes = [&](size_t at) {
    const auto low = static_cast<uint8_t>(first[is_little_endian() ? at : at + 1]);
    const auto high = static_cast<uint8_t>(first[is_little_endian() ? at + 1 : at]);
    return static_cast<uint16_t>(low | high << 8);
  };
  type_ = two_bytes(offsetof(Elf64_Ehdr, e_type));
  machine_ = two_bytes(offsetof(Elf64_Ehdr, e_machine));
  readable_ = is_64_bit() && is_little_endian() && first.size() >= sizeof header_;
  return true;
}

size_t ElfFile::ReadAt(uint64_t offset, uint64_t size, char* to) const {
  if (offset >= size_) return 0;
  size = std::min(size, size_ - offset);
  if (fd_ < 0) {
    std::memcpy(to, memory_.data() + offset, size);
    return size;
  }
  return PreadAll(fd_, to, size, offset);
}

bool ElfFile::Read(uint64_t offset, uint64_t size, char* to) const {
  return offset <= size_ && size <= size_ - offset && ReadAt(offset, size, to) == size;
}

std::string ElfFile::ReadUpTo(uint64_t offset, uint64_t size) const {
  if (offset >= size_) return "";
  std::string bytes(std::min(size, size_ - offset), '\0');
  bytes.resize(ReadAt(offset, bytes.size(), bytes.data()));
  return bytes;
}

template <typename T>
std::vector<T> ElfFile::Table(uint64_t offset, uint64_t count) const {
  if (offset > size_ || count > (size_ - offset) / sizeof(T) || count > kMaxTableBytes / sizeof(T)) return {};
  std::vector<T> table(count);
  if (!Read(offset, count * sizeof(T), reinterpret_cast<char*>(table.data()))) return {};
  return table;
}

std::span<const Elf64_Phdr> ElfFile::segments() const {
  if (!segments_) {
    segments_.emplace();
    if (readable_ && header_.e_phentsize == sizeof(Elf64_Phdr)) {
      *segments_ = Table<Elf64_Phdr>(header_.e_phoff, header_.e_phnum);
    }
  }
  return *segments_;
}

std::span<const Elf64_Shdr> ElfFile::sections() const {
  if (!sections_) {
    sections_.emplace();
    if (readable_ && header_.e_shoff != 0 && header_.e_shentsize == sizeof(Elf64_Shdr)) {
      uint64_t count = header_.e_shnum;
      if (count == 0) {  // 65,280 or more sections: the first section has the number
        const auto first = Table<Elf64_Shdr>(header_.e_shoff, 1);
        if (!first.empty()) count = first[0].sh_size;
      }
      *sections_ = Table<Elf64_Shdr>(header_.e_shoff, count);
    } else if (readable_ && header_.e_shoff == 0) {
      *sections_ = SegmentSections(*this).All();
    }
  }
  return *sections_;
}

std::string_view ElfFile::NameOf(const Elf64_Shdr& section) const {
  if (!section_names_) {
    const auto all = sections();
    uint64_t index = header_.e_shstrndx;
    if (index == SHN_XINDEX && !all.empty()) index = all[0].sh_link;
    section_names_ =
        index < all.size() && all[index].sh_type == SHT_STRTAB ? BytesOf(all[index], kMaxTableBytes).value_or("") : "";
  }
  if (section.sh_name >= section_names_->size()) return "";
  const std::string_view rest = std::string_view(*section_names_).substr(section.sh_name);
  const size_t zero = rest.find('\0');
  return zero == std::string_view::npos ? "" : rest.substr(0, zero);
}

bool ElfFile::HasBytes(const Elf64_Shdr& section, uint64_t most) const {
  return section.sh_type != SHT_NOBITS && (section.sh_flags & SHF_COMPRESSED) == 0 && section.sh_size > 0 &&
         section.sh_size <= most && section.sh_offset <= size_ && section.sh_size <= size_ - section.sh_offset;
}

std::optional<std::string> ElfFile::BytesOf(const Elf64_Shdr& section, uint64_t most) const {
  if (!HasBytes(section, most)) return std::nullopt;
  std::string bytes(section.sh_size, '\0');
  if (!Read(section.sh_offset, section.sh_size, bytes.data())) return std::nullopt;
  return bytes;
}

std::optional<ElfFile::Symbols> ElfFile::SymbolsOf(const Elf64_Shdr& section, uint64_t most) const {
  const auto all = sections();
  if (!HasBytes(section, most) || section.sh_link >= all.size() || all[section.sh_link].sh_type != SHT_STRTAB) {
    return std::nullopt;
  }
  Symbols found{std::vector<Elf64_Sym>(section.sh_size / sizeof(Elf64_Sym)), &all[section.sh_link]};
  if (!Read(section.sh_offset, found.symbols.size() * sizeof(Elf64_Sym),
            reinterpret_cast<char*>(found.symbols.data()))) {
    return std::nullopt;
  }
  return found;
}

std::string ElfFile::TextAt(const Elf64_Shdr& strings, uint64_t offset, size_t most) const {
  if (!HasBytes(strings, UINT64_MAX) || offset >= strings.sh_size) return "";
  const std::string text = ReadUpTo(strings.sh_offset + offset, std::min<uint64_t>(most + 1, strings.sh_size - offset));
  const size_t zero = text.find('\0');
  return zero == std::string::npos ? "" : text.substr(0, zero);
}

std::string ElfFile::BuildId() const {
  size_t looked_at = 0;
  for (const Elf64_Shdr& section : sections()) {
    if (section.sh_type != SHT_NOTE || !HasBytes(section, kMaxNoteBytes)) continue;
    if (++looked_at > kMaxNoteSections) break;
    const auto notes = BytesOf(section, kMaxNoteBytes);
    if (!notes) continue;
    std::string id = BuildIdIn(*notes, section.sh_addralign == 8 ? 8 : 4);
    if (!id.empty()) return id;
  }
  return "";
}

}  // namespace holdfast
