#include "report/names/elf/elf_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "sampler/contract/build_id.h"

namespace holdfast {

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
